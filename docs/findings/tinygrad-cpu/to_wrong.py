"""tinygrad/cpu: `x.half().float()` keeps the digits of float32

Condition: a float32 tensor, or what was computed in float32, is converted to float16 and back with nothing in
between.
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

class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.half().float()

CASES = {
    "smallest": (Model, lambda: (torch.tensor([100.7]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-100.0, 100.0, 64).reshape(8, 8),)),
}
EXACT = False

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
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        far = off(a, e) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  tinygrad/cpu {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
