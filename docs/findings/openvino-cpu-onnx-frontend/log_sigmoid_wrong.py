"""openvino/cpu: `logsigmoid(x)` is -inf from -104 down (here from -87), and 0 for `x` above 17

Condition: `x` is large in magnitude (float32: -inf from -87 down here, from -104 down with an exact sigmoid; 0 from
17.5 up, 0.05 % off at 10 and 2.6 % at 15; bfloat16: 0 from 7 up).
Seen with torch 2.13.0+cpu, openvino 2026.4.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import openvino
import numpy as np
PACKAGES = ('torch', 'openvino', 'onnx', 'onnxscript')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}
COMPARE = "element"
class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.logsigmoid(x0)
CASES = {
    "smallest": (Model, lambda: (torch.tensor([-120.0]),)),
    "ordinary size": (Model, lambda: (torch.linspace(9, 20, 48).reshape(6, 8),)),
    "bfloat16": (Model, lambda: (torch.linspace(7, 12, 6).to(torch.bfloat16),)),
}
class Boundary(torch.nn.Module):
    """Takes and gives bfloat16 and float8 as float32, and complex numbers as pairs: numpy lacks them. It is exact."""
    def __init__(self, model, given):
        super().__init__()
        self.model, self.dtypes = model, [value.dtype for value in given]
    def forward(self, *given):
        results = self.model(*map(convert, given, self.dtypes))
        return tuple(map(plain, results if isinstance(results, tuple) else (results,)))

def small(dtype):
    return dtype.is_floating_point and dtype.itemsize < 4 and dtype != torch.float16

def plain(value):
    if value.is_complex():
        return torch.view_as_real(value.resolve_conj())
    return value.float() if small(value.dtype) else value

def convert(value, dtype):
    return torch.view_as_complex(value) if dtype.is_complex else value.to(dtype) if small(dtype) else value
def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]
def off(found, right):
    """How far each element is off, relative to the element of `right`; inf where NaN, inf or integers differ."""
    f, r = found.to(torch.complex128), right.to(torch.complex128)
    apart = (f - r).abs() / r.abs()
    apart = apart if right.is_floating_point() or right.is_complex() else apart + torch.inf
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, apart.nan_to_num(torch.inf, torch.inf))
flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    exact = flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat([*map(convert, run(Boundary(Model(), fresh()).eval(), lambda: tuple(map(plain, fresh()))), [each.dtype for each in eager])]), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        place, limit = far.argmax(), 16 * max([*off(e, x).flatten().tolist(), torch.finfo(torch.result_type(e, 1.0)).eps])
        error, at = far.flatten()[place].item(), [*map(int, torch.unravel_index(place, e.shape))]
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        e, a, x = (value.flatten()[place].item() for value in (e, a, x))
        print(f"  at {at}: eager {e}  openvino/cpu@frontend=onnx,precision=f32 {a}  float64 {x}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
