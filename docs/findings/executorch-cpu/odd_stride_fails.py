"""executorch/cpu: a contiguous input with an odd stride in a dimension of size 1 is refused (grey image)

Condition: the program was exported with an input that `is_contiguous()` and that has a dimension of size 1 with a
stride other than that of a new tensor: `image.permute(0, 3, 1, 2)` of (N, H, W, 1), `x.transpose(1, 2)` of (N, 1, L).
Seen with torch 2.13.0+cpu, executorch 1.5.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
PACKAGES = ('torch', 'executorch')
FAILURE = ("RuntimeError", "default or channels last dim order")

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.softmax(x0, 1)

class Entropy(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.cross_entropy(x0, x1)

CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 2, 2, 1).permute(0, 3, 1, 2),)),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 128).reshape(2, 8, 8, 1).permute(0, 3, 1, 2),)),
    "cross_entropy": (Entropy, lambda: (torch.ones(2, 1, 6).transpose(1, 2), torch.tensor([[1], [5]]))),
}

def run(model, fresh):
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    method, count = loaded.load_method("forward"), len(program.graph_signature.user_outputs)
    found = method.execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-count:]]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 2)  # there it reports
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    log.seek(0), log.truncate()
    try:
        run(Model().eval(), fresh)
        print(f"{name}: executorch/cpu@threads=1 runs it")
    except Exception as problem:
        printed = log.seek(0) or log.read().decode(errors="replace")
        print(f"{name}: executorch/cpu@threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
