"""rknn/simulator: `pad` before a `max_pool2d` that pads is merged into it: zeros and reflected elements become -inf

Condition: a padding of images, of zeros or reflected, goes into a maximum pool that has a padding of its own.
rknn/simulator was not run by hardware (simulated).
Seen with torch 2.13.0+cpu, rknn-toolkit2 2.5.0, onnx 1.18.0, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
from rknn.api import RKNN
PACKAGES = ('torch', 'rknn-toolkit2', 'onnx', 'onnxscript')
PROPERTIES = {'target_platform': 'rk3588'}
COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.max_pool2d(torch.nn.functional.pad(x0, (1, 1, 1, 1)), 3, 2, 1) > -0.5

class Reflected(torch.nn.Module):
    def forward(self, x0):
        padded = torch.nn.functional.pad(x0, (1, 1, 1, 1), mode="reflect")
        return torch.nn.functional.max_pool2d(padded, 3, 2, 1) > 20.0

CASES = {
    "smallest": (Model, lambda: (-torch.ones(1, 1, 2, 2),)),
    "ordinary size": (Model, lambda: (-torch.ones(1, 8, 16, 16),)),
    "reflected": (Reflected, lambda: (torch.arange(256.0).reshape(1, 1, 16, 16) % 37,)),
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
        error, limit = far.max().item(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  rknn/simulator {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
