"""executorch/cpu: `x % y` of integers has the sign of x: -7 % 3 is -1 instead of 2

Condition: int32 or int64, the operands have different signs, and the remainder is not 0 (`%`, `torch.remainder`; y a
number or a tensor).
Seen with torch 2.13.0+cpu, executorch 1.5.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
PACKAGES = ('torch', 'executorch')

COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x):
        return x % 3

class Rows(torch.nn.Module):
    def forward(self, x, y):
        return torch.remainder(x, y)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([-7]),)),
    "ordinary size": (Rows, lambda: (torch.arange(-32, 32).reshape(8, 8), torch.tensor([3, -5, 7, 2, 3, -5, 7, 2]))),
    "int32": (Model, lambda: (torch.arange(-8, 8, dtype=torch.int32),)),
}

def run(model, fresh):
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    method, count = loaded.load_method("forward"), len(program.graph_signature.user_outputs)
    found = method.execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-count:]]

def off(found, right):
    """0 where elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, torch.inf)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        far = off(a, e) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        place, limit = far.argmax(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        error, at = far.flatten()[place].item(), [*map(int, torch.unravel_index(place, e.shape))]
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        e, a = (value.flatten()[place].item() for value in (e, a))
        print(f"  at {at}: eager {e}  executorch/cpu@threads=1 {a}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
