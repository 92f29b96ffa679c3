"""xla/eager@threads=1: aten.fft_ifftshift.default of float32: fails

Seen with torch 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import signal
import subprocess
import sys
import traceback

os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported

import torch
import torch_xla


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.fft.ifftshift(x0)
        return (v1,)


def run(model, arguments):
    found = model(*(a.to("xla") for a in arguments))
    return [value.cpu() for value in found]


x0 = torch.empty((0,), dtype=torch.float32)


LIMIT_S = 150  # the platform's process is ended after so many seconds


def main():
    arguments = tuple([x.clone() for x in (x0,)])
    if sys.argv[1:] == ["run"]:
        run(Model().eval(), arguments)
        return 0
    print("torch", torch.__version__, "torch_xla", torch_xla.__version__, platform.machine())
    print("eager:", Model()(*arguments), flush=True)
    child = subprocess.Popen([sys.executable, __file__, "run"], start_new_session=True)
    try:
        status = child.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        print(f"xla/eager@threads=1 does not end within {LIMIT_S} s")
        print("Another fault than the one that this script shows.")
        return 2
    if status < 0:
        print("xla/eager@threads=1 ends with", signal.Signals(-status).name)
        print("FAULT")
        return 1
    print("NO FAULT" if status == 0 else "It fails in another way.")
    return 0 if status == 0 else 2


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
