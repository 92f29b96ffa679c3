"""openvino/cpu: `cross_entropy` of one sample without a batch dimension, (C,), does not run

Condition: the input is 1-d, of shape (C,), and the target is 0-d; any `reduction`.

Right for: (N, C) with (N,), (N, C, H) with (N, H), (1, C) with (1,); `nll_loss` of (C,).

`aten_cross_entropy_loss` in onnxscript/function_libs/torch_lib/ops/nn.py gives the input as it is to
SoftmaxCrossEntropyLoss, which needs a batch and a class dimension; `aten_nll_loss` beside it adds the batch
dimension.

Seen with torch 2.13.0+cpu, openvino 2026.4.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import tempfile
import traceback
from importlib.metadata import version

try:
    import torch
    import openvino
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

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


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def raised(call):
    """What `call` raises, and nothing that it prints; None where it raises nothing."""
    try:
        call()
    except Exception as problem:
        return problem, ""
    return None, ""



def is_the_failure(problem, printed):
    """Whether an exception, or one that it follows from, is the failure that this script shows."""
    while problem is not None:
        if FAILURE is not None and type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def main():
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = raised(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: openvino/cpu@frontend=onnx,precision=f32 runs it")
            continue
        print(f"{name}: openvino/cpu@frontend=onnx,precision=f32 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        if not is_the_failure(problem, printed):
            print("It is another failure than the one that this script shows.")
            return 2
        found = True
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
