"""rknn/simulator: a result without dimensions comes back as [1] where elementwise operators follow a reduction: `mse_loss`, `var`

Condition: the model's result has no dimensions, and elementwise operators make it behind a reduction or a `Squeeze`
(`x.sum() * 2`), or several of them do (`lerp` or `where` of `x[0]`).
Seen with torch 2.13.0+cpu, rknn-toolkit2 2.5.0, onnx 1.18.0, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
from rknn.api import RKNN
PACKAGES = ('torch', 'rknn-toolkit2', 'onnx', 'onnxscript')
PROPERTIES = {'target_platform': 'rk3588'}

class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.sum() * 2

class Loss(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.mse_loss(x0, x1)

class Variance(torch.nn.Module):
    def forward(self, x0):
        return torch.var(x0)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0]),)),
    "mse_loss": (Loss, lambda: (torch.ones(4, 16), torch.zeros(4, 16))),
    "var": (Variance, lambda: (torch.arange(64.0).reshape(4, 16),)),
}

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, opset_version=18, verbose=False).save(f"{folder}/model.onnx")
        rknn = RKNN(verbose=False)
        steps = [rknn.config(**PROPERTIES), rknn.load_onnx(f"{folder}/model.onnx")]
        steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
        found = None if any(steps) else rknn.inference([a.numpy() for a in fresh()], data_format="nchw")
        if found is None:
            raise RuntimeError(f"RKNN-Toolkit2 failed: config, load_onnx, build and init_runtime returned {steps}")
        return [torch.as_tensor(a) for a in found]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  rknn/simulator {a.flatten()[:4].tolist()}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
