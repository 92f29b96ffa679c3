"""executorch/cpu: `sum(x, 0)` of a 0-d tensor ends the process (`vector_norm`, `logsumexp` too)

Condition: a 0-d tensor and `dim` 0 or -1; float32 and int64.
Seen with torch 2.13.0+cpu, executorch 1.5.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, signal, subprocess, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
PACKAGES = ('torch', 'executorch')
LIMIT_S = 150
SIGNAL = "SIGABRT"

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.sum(x0, 0)

class Inner(torch.nn.Module):
    def forward(self, x0):
        return torch.sum(torch.mean(x0), -1) + x0

class Norm(torch.nn.Module):
    def forward(self, x0):
        return torch.linalg.vector_norm(x0, 2, 0)

CASES = {
    "smallest": (Model, lambda: (torch.tensor(0.5),)),
    "ordinary size": (Inner, lambda: (torch.linspace(-1, 1, 64).reshape(4, 16),)),
    "vector_norm": (Norm, lambda: (torch.tensor(0.5),)),
}

def run(model, fresh):
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    method, count = loaded.load_method("forward"), len(program.graph_signature.user_outputs)
    found = method.execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-count:]]

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
    print(f"{name}: executorch/cpu@threads=1", f"ends with {ended}" if ended else "fails in another way" if status else "runs it")
    if status and not (ended and SIGNAL in ("", ended)):
        sys.exit(print("Another fault than the one that this script shows.") or 2)
    fault |= bool(status)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
