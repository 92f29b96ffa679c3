"""onnxruntime/openvino: A model with a constant among its outputs does not load

Condition: an output of the model is a constant (as the indices of a sort of a 0-d tensor are).

Right for: the same model without that output.

The provider hands OpenVINO a part of the graph whose output is an initialiser, as a model in which no node makes that
output.

Seen with torch 2.13.0+cpu, onnxruntime-openvino 1.24.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    import onnxruntime
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'onnxruntime-openvino', 'onnx', 'onnxscript')
PROPERTIES = {'device_type': 'CPU', 'num_of_threads': '1', 'precision': 'FP32'}


class Model(torch.nn.Module):
    def forward(self, x0):
        return x0 + 1, torch.zeros(3)


class Sort(torch.nn.Module):
    def forward(self, x0):
        return torch.sort(x0, 0)


CASES = {
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 32).reshape(4, 8),)),
    "sort of a number": (Sort, lambda: (torch.tensor(1.5),)),
}
FAILURE = ("Fail", "node not found in graph cache")


def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    providers = [("OpenVINOExecutionProvider", PROPERTIES), "CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, providers=providers, enable_fallback=0
    )
    assert len(session.get_providers()) == len(providers), "this onnxruntime has no OpenVINO provider"
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


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
            print(f"{name}: onnxruntime/openvino@precision=f32,threads=1 runs it")
            continue
        print(f"{name}: onnxruntime/openvino@precision=f32,threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
