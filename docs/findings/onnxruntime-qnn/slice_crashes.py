"""onnxruntime/qnn: `x[1:]` of five dimensions ends the process (SIGSEGV) (v68)

Condition: a slice of the first of five dimensions (`x[1:]`, `x[:1]`, `x[::2]`), on a chip of v68, which is the
provider's default.

Right for: four dimensions; other dimensions of five; SM8550.

Memory is read or written outside of the process's own while the compiled graph runs.

onnxruntime/qnn was not run by hardware (simulated).

Seen with torch 2.13.0+cpu, onnxruntime-qnn 2.7.0, onnxruntime 1.32.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import signal
import subprocess
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
PROPERTIES = {}


LIMIT_S = 150
SIGNAL = "SIGSEGV"


class Model(torch.nn.Module):
    def forward(self, x0):
        return x0[1:]


CASES = {
    "smallest": (Model, lambda: (torch.ones(2, 1, 1, 1, 2),)),
    "frames of a video": (Model, lambda: (torch.ones(8, 3, 4, 16, 16),)),
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
            print(f"{name}: onnxruntime/qnn does not end within {LIMIT_S} s")
            fault = False
        elif status < 0:
            print(f"{name}: onnxruntime/qnn ends with", signal.Signals(-status).name)
            fault = not False and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: onnxruntime/qnn", "runs it" if status == 0 else "fails in another way")
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
