"""openvino/cpu: `erfinv(x)` is off by up to 0.4 % near 0.99, by 9e-5 at 0.71 and by 3e-5 at 0.85

Condition: |x| is above about 0.6; the error rises and falls with x, and is largest between 0.98 and 0.999.
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, openvino, numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.erfinv(x0)

class Normal(torch.nn.Module):
    """Normal numbers of uniform ones."""
    def forward(self, uniform):
        return torch.erfinv(2 * uniform - 1) * 1.4142135

CASES = {
    "smallest": (Model, lambda: (torch.tensor([0.999]),)),
    "normal": (Normal, lambda: (torch.linspace(0.0005, 0.9995, 64).reshape(8, 8),)),
}

def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]

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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  openvino/cpu@precision=f32 {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
