"""rknn/simulator: `adaptive_avg_pool2d` whose windows have different sizes (5 of 8) ends the process

Condition: the windows differ in size, for which the exporter writes `Where` and sums of `Gather`: 5 of 8, 7 of 10; in
one dimension too.
rknn/simulator was not run by hardware (simulated).
Seen with torch 2.13.0+cpu, rknn-toolkit2 2.5.0, onnx 1.18.0, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, signal, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
from rknn.api import RKNN
PACKAGES = ('torch', 'rknn-toolkit2', 'onnx', 'onnxscript')
PROPERTIES = {'target_platform': 'rk3588'}
LIMIT_S = 150
SIGNAL = "SIGABRT"

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.adaptive_avg_pool2d(x0, (5, 7))

class Square(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.adaptive_avg_pool2d(x0, 7)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[[[1.0, 2.0]]]]),)),
    "ordinary size": (Square, lambda: (torch.ones(1, 16, 10, 10),)),
}

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, opset_version=18, verbose=False).save(f"{folder}/model.onnx")
        rknn = RKNN(verbose=False)
        steps = [rknn.config(**PROPERTIES), rknn.load_onnx(f"{folder}/model.onnx")]
        steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
        found = None if any(steps) else rknn.inference([a.numpy() for a in fresh()], data_format="nchw")
        if found is None:
            raise RuntimeError(f"RKNN-Toolkit2 failed: config, load_onnx, build and init_runtime returned {steps}")
        return [torch.as_tensor(a) for a in found]

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
    print(f"{name}: rknn/simulator", f"ends with {ended}" if ended else "fails in another way" if status else "runs it")
    if status and not (ended and SIGNAL in ("", ended)):
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= bool(status)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
