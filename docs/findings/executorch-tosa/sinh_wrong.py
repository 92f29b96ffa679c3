"""executorch/tosa: `sinh(x)` of small `x` loses digits, all of them below 1e-8

Condition: |x| is small beside 1, float32 (relative error 2e-5 at 1e-3, 1 % at 1e-6, 1 at 1e-9).
executorch/tosa was not run by hardware (simulated).
Seen with torch 2.13.0+cpu, executorch 1.5.1, tosa-tools 2026.8.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, tosa_reference_model
from executorch.backends.arm.tosa import TosaSpecification
from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
from executorch.exir import to_edge_transform_and_lower
PACKAGES = ('torch', 'executorch', 'tosa-tools')
COMPARE = "element"

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.sinh(x0)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1e-6]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-0.02, 0.02, 16),)),
    "1e-9": (Model, lambda: (torch.tensor([1e-9]),)),
}

def run(model, fresh):
    spec = TosaCompileSpec(TosaSpecification.create_from_string("TOSA-1.0+FP"))
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[TOSAPartitioner(spec)]).exported_program()
    (part,) = [each for _, each in lowered.graph_module.named_children()]
    found, status = tosa_reference_model.run(part.processed_bytes, [a.contiguous().numpy() for a in fresh()])
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
    return [torch.as_tensor(array) for array in found]

def off(found, right):
    """How far each element is off, relative to the element of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / r.abs() / real).nan_to_num(torch.inf, torch.inf)
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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  executorch/tosa {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
