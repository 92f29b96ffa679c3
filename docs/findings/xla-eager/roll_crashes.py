"""xla/eager: `roll`, `fftshift` and `ifftshift` along a dimension of size 0 end the process

Condition: the dimension that is rolled has size 0, or `dims` is not given and the tensor is empty.

Right for: an empty tensor that is rolled along a dimension with elements.

`BuildRoll` in torch_xla/csrc/xla_lower_util.cpp computes `offset % dim_size`, a division by 0.

Seen with torch 2.9.0, torch_xla 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import signal
import subprocess
import sys
import traceback
from importlib.metadata import version

os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported

try:
    import torch
    import torch_xla
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'torch_xla')


LIMIT_S = 150
SIGNAL = "SIGFPE"


class Roll(torch.nn.Module):
    def forward(self, x):
        return (torch.roll(x, 1, 0),)


class Shift(torch.nn.Module):
    def forward(self, x):
        return (torch.fft.fftshift(x),)


CASES = {
    "smallest": (Roll, lambda: (torch.empty(0),)),
    "ordinary size": (Roll, lambda: (torch.empty(0, 16),)),
    "fftshift": (Shift, lambda: (torch.empty(0, 16),)),
}


def run(model, fresh):
    found = model(*(a.to("xla") for a in fresh()))
    return [value.cpu() for value in found]


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
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        print(f"{name}: eager gives", Model().eval()(*fresh()), flush=True)
        status = child(name)
        if status is None:
            print(f"{name}: xla/eager@threads=1 does not end within {LIMIT_S} s")
            fault = False
        elif status < 0:
            print(f"{name}: xla/eager@threads=1 ends with", signal.Signals(-status).name)
            fault = not False and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: xla/eager@threads=1", "runs it" if status == 0 else "fails in another way")
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
