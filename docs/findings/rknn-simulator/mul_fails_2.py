"""rknn/simulator: `x * 2` and `x + 1` of five dimensions, all larger than 1, do not build

Condition: a number is multiplied with or added to a tensor of five dimensions that are all larger than 1.
Seen with torch 2.13.0+cpu, rknn-toolkit2 2.5.0, onnx 1.18.0, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
from rknn.api import RKNN
PACKAGES = ('torch', 'rknn-toolkit2', 'onnx', 'onnxscript')
PROPERTIES = {'target_platform': 'rk3588'}

FAILURE = ("ValueError", "'IRGraph' object has no attribute 'node_use_target_const'")

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.sigmoid(x0) + x0 * 2

CASES = {
    "small": (Model, lambda: (torch.ones(2, 3, 4, 5, 6),)),
    "ordinary size": (Model, lambda: (torch.ones(2, 8, 4, 16, 16),)),
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
log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 2)  # there it reports
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    log.seek(0), log.truncate()
    try:
        run(Model().eval(), fresh)
        print(f"{name}: rknn/simulator runs it")
    except Exception as problem:
        printed = log.seek(0) or log.read().decode(errors="replace")
        print(f"{name}: rknn/simulator raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
