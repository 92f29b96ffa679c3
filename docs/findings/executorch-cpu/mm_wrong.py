"""executorch/cpu: `a @ b` with an inner size of 0 is what was in memory before, instead of zeros

Condition: `mm` or `bmm` of (m, 0) and (0, n); the result is right by chance where its memory held zeros, as in a
model of this operator alone.
Seen with torch 2.13.0+cpu, executorch 1.5.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
PACKAGES = ('torch', 'executorch')

class Model(torch.nn.Module):
    def forward(self, x, a, b):
        return torch.relu((x * x + 1) @ (a @ b))

class Batch(torch.nn.Module):
    def forward(self, x, a, b):
        return (((x.exp() + 1).log() @ x).sum() * 0) + torch.bmm(a, b)

def random(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[2.0]]), torch.ones(1, 0), torch.ones(0, 1))),
    "ordinary size": (Batch, lambda: (random(2, 16, 16), torch.ones(2, 16, 0), torch.ones(2, 0, 16))),
}

def run(model, fresh):
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=None).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    method, count = loaded.load_method("forward"), len(program.graph_signature.user_outputs)
    found = method.execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-count:]]

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1) / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager, exact = flat(Model().eval()(*fresh())), flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * max(off(e, x).max().item(), torch.finfo(torch.result_type(e, 1.0)).eps)
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  executorch/cpu@delegate=none,threads=1 {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
