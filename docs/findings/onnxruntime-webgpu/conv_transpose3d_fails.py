"""onnxruntime/webgpu: `ConvTranspose3d` is taken from the CPU provider, and fails when it runs

Condition: a transposed convolution of three spatial dimensions.

Right for: `conv_transpose1d`, `conv_transpose2d`, `conv3d`.

The session gives the provider the node although the CPU provider has a kernel for it. Only when the model runs does
the kernel look at the number: "Only Conv2d or Conv1d are supported".

Seen with torch 2.13.0+cpu, onnxruntime-webgpu 1.27.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import ctypes
import ctypes.util
import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'VK_DRIVER_FILES': '/usr/lib/chromium/vk_swiftshader_icd.json'})  # before PyTorch is imported

try:
    import torch
    import onnxruntime
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'onnxruntime-webgpu', 'onnx', 'onnxscript')
PROPERTIES = {}


FAILURE = ("InvalidArgument", "Only Conv2d or Conv1d are supported")


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv_transpose3d(x0, x1)


class Upsampling(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv_transpose3d(x0, x1, stride=2)


CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 1, 1, 1, 1), torch.ones(1, 1, 1, 1, 1))),
    "ordinary size": (Upsampling, lambda: (torch.linspace(-1, 1, 2048).reshape(1, 32, 4, 4, 4), torch.full((32, 16, 2, 2, 2), 0.1))),
}


def run(model, fresh):
    driver = os.environ.get("VK_DRIVER_FILES", "")
    ctypes.CDLL(ctypes.util.find_library("vulkan") or f"{os.path.dirname(driver)}/libvulkan.so.1", ctypes.RTLD_GLOBAL)
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), options, enable_fallback=0,
        providers=[("WebGpuExecutionProvider", PROPERTIES)],
    )  # fmt: skip
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
            print(f"{name}: onnxruntime/webgpu@device=swiftshader runs it")
            continue
        print(f"{name}: onnxruntime/webgpu@device=swiftshader raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
