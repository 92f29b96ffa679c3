"""openvino/cpu: `cross_entropy` of one sample without a batch dimension, (C,), does not run

Condition: the input is 1-d, of shape (C,), and the target is 0-d; any `reduction`.
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

FAILURE = ("RuntimeError", "Conversion is failed for: SoftmaxCrossEntropyLoss")

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.cross_entropy(x0, x1)

CASES = {
    "smallest": (Model, lambda: (torch.zeros(1), torch.tensor(0))),
    "ordinary size": (Model, lambda: (torch.linspace(-2, 2, 10), torch.tensor(3))),
}

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: openvino/cpu@frontend=onnx,precision=f32 runs it")
    except Exception as problem:
        print(f"{name}: openvino/cpu@frontend=onnx,precision=f32 raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
