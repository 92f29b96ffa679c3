"""onnxruntime/webgpu: `addmm` whose addend has no dimensions ends the process where a size is above 8

Condition: the first operand of `torch.addmm` is a 0-d tensor, which becomes `C` of `Gemm`, and the rows, the columns
or the inner size are above 8.

Right for: an addend of one element with one dimension or more; sizes up to 8; `a @ b + 0.5`.

The process ends with SIGABRT ("terminate called without an active exception") as the node runs. ONNX takes a `C`
without dimensions, which broadcasts to the result. Up to a size of 8 the provider has another shader for `Gemm`,
which is right.

Seen with torch 2.13.0+cpu, onnxruntime-webgpu 1.27.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import ctypes
import ctypes.util
import os
import platform
import signal
import subprocess
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


LIMIT_S = 150
SIGNAL = "SIGABRT"


class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.addmm(x0, x1, x2)


CASES = {
    "smallest": (Model, lambda: (torch.tensor(0.5), torch.ones(9, 1), torch.ones(1, 1))),
    "ordinary size": (Model, lambda: (torch.tensor(0.5), torch.ones(64, 32), torch.ones(32, 16))),
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


def child(name):
    """Runs one case on the platform in a process of its own. Returns its exit status, None where it did not end."""
    running = subprocess.Popen([sys.executable, __file__, name], start_new_session=True)
    try:
        return running.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        return None


def main():
    if sys.argv[1:]:
        Model, fresh = CASES[sys.argv[1]]
        run(Model().eval(), fresh)
        return 0
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        print(f"{name}: eager gives", Model().eval()(*fresh()), flush=True)
        status = child(name)
        if status is None:
            print(f"{name}: onnxruntime/webgpu@device=swiftshader does not end within {LIMIT_S} s")
            fault = False
        elif status < 0:
            print(f"{name}: onnxruntime/webgpu@device=swiftshader ends with", signal.Signals(-status).name)
            fault = not False and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: onnxruntime/webgpu@device=swiftshader", "runs it" if status == 0 else "fails in another way")
            fault = False
        if not fault and status != 0:
            print("Another fault than the one that this script shows.")
            return 2
        found |= fault
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
