"""ncnn/cpu: `roll` by the size of the dimension or more ends the process, or has no output (9 of 8)

Condition: the shift, forwards or backwards, of any dimension is at least its size; beyond the size, with 4 to 8 or 12
rows, the process ends, by SIGABRT or SIGSEGV as it happens; with 2 or 3 rows, of one dimension, or by just the size,
there is no output.

Right for: shifts that are less than the size, forwards and backwards.

pnnx writes `roll` as a Slice at minus the shift, without taking the shift modulo the size, and a Concat. A Slice at
-9 of 8 has a part of -1 columns, whose size in bytes wraps around: ncnn allocates too little and copies beyond it,
and glibc ends the process (SIGABRT or SIGSEGV, "corrupted double-linked list").

Seen with torch 2.13.0+cpu, ncnn 1.0.20261020, pnnx 20261020.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

from functools import cache
import os
import platform
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from importlib.metadata import version

try:
    import torch
    import ncnn
    import pnnx
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'ncnn', 'pnnx')
PROPERTIES = {'use_fp16_packed': False, 'use_fp16_storage': False, 'use_fp16_arithmetic': False, 'use_bf16_packed': False, 'use_bf16_storage': False, 'num_threads': 1}


LIMIT_S = 150
SIGNAL = ""


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.roll(x0, 9, 1)


class Back(torch.nn.Module):
    def forward(self, x0):
        return torch.roll(x0, -65, 1)


class Large(torch.nn.Module):
    def forward(self, x0):
        return torch.roll(x0, 65, 1)


CASES = {
    "smallest": (Model, lambda: (torch.arange(64.0).reshape(8, 8),)),
    "ordinary size": (Large, lambda: (torch.arange(256.0).reshape(4, 64),)),
    "back": (Back, lambda: (torch.arange(256.0).reshape(4, 64),)),
}


def run(model, fresh):
    class Net(ncnn.Net):
        def __init__(self):
            super().__init__()
            for name, value in PROPERTIES.items():
                setattr(self.opt, name, value)
            self.load_param, self.load_model = cache(self.load_param), cache(self.load_model)

        def __exit__(self, *_):
            """Keeps the model: the script would load it again with each call."""

    assert ncnn.get_gpu_count() or not PROPERTIES.get("use_vulkan_compute"), "ncnn finds no Vulkan device"
    net = Net()
    with tempfile.TemporaryDirectory() as folder:
        # pnnx traces the model and writes a script that runs it on random numbers: these are the operands here.
        pnnx.export(model, f"{folder}/model.pt", fresh(), fp16="use_fp16_storage" not in PROPERTIES)
        script = runpy.run_path(f"{folder}/model_ncnn.py")
        net.load_param(f"{folder}/model.ncnn.param")
        net.load_model(f"{folder}/model.ncnn.bin")

    def infer(given):
        original = ncnn.Net, torch.manual_seed, torch.rand, torch.randint
        ncnn.Net, torch.manual_seed = lambda: net, lambda seed: None
        torch.rand = torch.randint = lambda *shape, dtype: next(given).to(dtype)
        try:
            return script["test_inference"]()
        finally:
            ncnn.Net, torch.manual_seed, torch.rand, torch.randint = original

    found = infer(iter(fresh()))
    return [each.clone() for each in (found if isinstance(found, tuple) else (found,))]


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
            print(f"{name}: ncnn/cpu@precision=f32,threads=1 does not end within {LIMIT_S} s")
            fault = False
        elif status < 0:
            print(f"{name}: ncnn/cpu@precision=f32,threads=1 ends with", signal.Signals(-status).name)
            fault = not False and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: ncnn/cpu@precision=f32,threads=1", "runs it" if status == 0 else "fails in another way")
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
