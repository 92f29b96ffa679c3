"""openvino/cpu: `avg_pool1d` to `3d` with `ceil_mode` and padding divide the last window by the kernel

Condition: `ceil_mode=True`, `padding` is not 0, padding counts (`count_include_pad=True`, the default), and the last
window reaches beyond the padded input (a kernel of 3, stride 2 and padding 1 on any even size).
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

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.avg_pool1d(x0, 3, 2, 1, ceil_mode=True)

class Image(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.avg_pool2d(x0, 3, 2, 1, ceil_mode=True)

CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 1, 2),)),
    "ordinary size": (Image, lambda: (torch.linspace(-1, 1, 2 * 3 * 14 * 14).reshape(2, 3, 14, 14).cos(),)),
}

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r = found.to(torch.complex128), right.to(torch.complex128)
    apart = (f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1)
    apart = apart if right.is_floating_point() or right.is_complex() else apart + torch.inf
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, apart.nan_to_num(torch.inf, torch.inf))

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    exact = flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
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
