"""onnxruntime/qnn: `sign` and `tan` of five dimensions are taken, and do not compile (SM8550)

Condition: `sign` or `tan` of a tensor of five dimensions on SM8550 or SM8750, of any sizes; ONNX's `Gather` along the
first of five too.

Right for: four dimensions; `abs` and `prelu` of five; `floor` of five, which the provider leaves to the CPU.

The provider asks QNN whether it supports a node, takes it, and QNN's compiler then has no implementation for five
dimensions. Of `floor` QNN says so, and the node runs on the CPU provider.

onnxruntime/qnn@soc=SM8550 was not run by hardware (simulated).

Seen with torch 2.13.0+cpu, onnxruntime-qnn 2.7.0, onnxruntime 1.32.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    import onnxruntime
    import onnxruntime_qnn
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'onnxruntime-qnn', 'onnxruntime', 'onnx', 'onnxscript')
PROPERTIES = {'soc_model': '43'}


FAILURE = ("EPFail", "Failed to finalize QNN graph")


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.sign(x0)


class Tan(torch.nn.Module):
    def forward(self, x0):
        return torch.tan(x0)


CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 1, 1, 1, 2),)),
    "a volume": (Model, lambda: (torch.ones(1, 2, 4, 16, 16),)),
    "tan": (Tan, lambda: (torch.ones(1, 2, 3, 4, 5),)),
}


def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    if not any(each.ep_name == onnxruntime_qnn.EP_NAME for each in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **PROPERTIES})
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
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
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = raised(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: onnxruntime/qnn@soc=SM8550 runs it")
            continue
        print(f"{name}: onnxruntime/qnn@soc=SM8550 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
