"""rknn/simulator: `max_pool3d` ends the process (SIGABRT, std::out_of_range)

Condition: a pool over five dimensions with two channels or more.

Right for: `avg_pool3d`; `max_pool2d`.

The compiler reads a vector of four sizes beyond its end (vector::_M_range_check). The same message ends a `Slice` of
two dimensions of a five-dimensional tensor, `interpolate` of one, and `conv_transpose3d`.

rknn/simulator was not run by hardware (simulated).

Seen with torch 2.13.0+cpu, rknn-toolkit2 2.5.0, onnx 1.18.0, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import signal
import subprocess
import sys
import tempfile
import traceback
from importlib.metadata import version

try:
    import torch
    from rknn.api import RKNN
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'rknn-toolkit2', 'onnx', 'onnxscript')
PROPERTIES = {'target_platform': 'rk3588'}


LIMIT_S = 150
SIGNAL = "SIGABRT"


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.max_pool3d(x0, 2)


CASES = {
    "small": (Model, lambda: (torch.ones(1, 2, 4, 6, 8),)),
    "ordinary size": (Model, lambda: (torch.ones(1, 8, 8, 16, 16),)),
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
            print(f"{name}: rknn/simulator does not end within {LIMIT_S} s")
            fault = False
        elif status < 0:
            print(f"{name}: rknn/simulator ends with", signal.Signals(-status).name)
            fault = not False and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: rknn/simulator", "runs it" if status == 0 else "fails in another way")
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
