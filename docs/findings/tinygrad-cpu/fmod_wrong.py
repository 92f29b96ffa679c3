"""tinygrad/cpu: `fmod(x, y)` of floats is `x - y * trunc(x / y)`: 1.0 by 0.1 is -1.5e-8, 1e9 by 7 is 48

Condition: the quotient rounds up to a whole number (1.0 by 0.1), or is so large that its rounding counts (1e9 by 7;
3e38 by 0.5 is -inf), or the divisor is inf (NaN); float64 too.
Seen with torch 2.13.0+cpu, tinygrad 0.14.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'DEV': 'CPU', 'PARALLEL': '0'})  # before PyTorch is imported
import torch, numpy as np
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner
PACKAGES = ('torch', 'tinygrad', 'onnx', 'onnxscript')
import torch

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.fmod(x0, x1)

class Phase(torch.nn.Module):
    """The time within a period of a tenth of a second."""
    def forward(self, seconds):
        return torch.fmod(seconds, torch.full_like(seconds, 0.1))

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0]), torch.tensor([0.1]))),
    "seconds": (Phase, lambda: (torch.arange(1.0, 17.0).reshape(4, 4),)),
}

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
    found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, fresh(), strict=True)})
    return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]

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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  tinygrad/cpu {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
