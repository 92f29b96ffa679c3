"""openvino/cpu: an index write through a constant `~mask` that selects nothing ends with SIGFPE

Condition: `~` of a mask that is a constant of the model selects no element, and what it selects is written by
`index_put` with a tensor of indices, or by `index_copy`; or an ONNX model expands an input of a static empty shape
(`repeat` of an empty tensor).
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, signal, subprocess, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, openvino, numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}
LIMIT_S = 150
SIGNAL = "SIGFPE"

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tensor([True]))
    def forward(self, x0, x1):
        return x0.index_put((x1[~self.mask],), x0[~self.mask])

class Copy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(16, dtype=torch.bool))
    def forward(self, x0, x1):
        return x0.index_copy(0, x1[~self.mask], 2 * x0[~self.mask])

CASES = {
    "smallest": (Model, lambda: (torch.zeros(1), torch.tensor([0]))),
    "ordinary size": (Copy, lambda: (torch.linspace(-1, 1, 16), torch.arange(16))),
}

def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]

if sys.argv[1:]:  # one case on the platform, in a process of its own
    Model, fresh = CASES[sys.argv[1]]
    run(Model().eval(), fresh)
    sys.exit()
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", Model().eval()(*fresh()), flush=True)
    status = subprocess.run([sys.executable, __file__, name], timeout=LIMIT_S).returncode
    ended = signal.Signals(-status).name if status < 0 else ""
    print(f"{name}: openvino/cpu@precision=f32", f"ends with {ended}" if ended else "fails in another way" if status else "runs it")
    if status and not (ended and SIGNAL in ("", ended)):
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= bool(status)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
