"""rknn/simulator: `sum` and `mean` over all of four or five dimensions come back as [1], with `keepdim=True` and without

Condition: a sum or mean over all of four dimensions is the model's result, with the dimensions kept or without; over
all of five, with them kept.
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
        return x0.sum((0, 1, 2, 3), keepdim=True)

class Mean(torch.nn.Module):
    def forward(self, x0):
        return x0.mean((0, 1, 2, 3), keepdim=True)

CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 1, 1, 2),)),
    "an image": (Model, lambda: (torch.ones(1, 3, 16, 16),)),
    "mean": (Mean, lambda: (torch.ones(1, 3, 8, 8),)),
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
