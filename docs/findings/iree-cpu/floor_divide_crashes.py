"""iree/cpu: `x // 3` and `x % 7` of uint8 and int8 end the process (SIGSEGV)

Condition: uint8 or int8, divided by a number (`//`, `%`, `div(rounding_mode=...)`).

Right for: int16 and int32; `x.int() // 3`. `//` by a tensor fails with a message and does not crash.

torch-mlir's lowering calls `convertScalarToDtype` to 8 bits without the destination's dtype of PyTorch. It emits the
error "for conversion to byte or char type dstOriginalDtype has to be passed" and returns no value, which the lowering
then uses.

Seen with torch 2.13.0+cpu, iree-base-compiler 3.13.0, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import signal
import subprocess
import sys
import traceback
from importlib.metadata import version

os.environ.update({'IREE_PY_RUNTIME_FLAGS': '--task_topology_group_count=1'})  # before PyTorch is imported

try:
    import torch
    import iree.runtime
    import iree.turbine.aot
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'iree-base-compiler', 'iree-base-runtime', 'iree-turbine')
PROPERTIES = {'iree-hal-target-backends': 'llvm-cpu', 'iree-input-demote-f64-to-f32': 'false'}


LIMIT_S = 150
SIGNAL = ""


class Model(torch.nn.Module):
    def forward(self, x):
        return x // 3


class Remainder(torch.nn.Module):
    def forward(self, x):
        return x % 7


CASES = {
    "smallest": (Model, lambda: (torch.tensor([7], dtype=torch.uint8),)),
    "ordinary size": (Model, lambda: (torch.arange(256).to(torch.uint8).reshape(16, 16),)),
    "int8": (Model, lambda: (torch.arange(-128, 128).to(torch.int8).reshape(16, 16),)),
    "x % 7": (Remainder, lambda: (torch.arange(256).to(torch.uint8).reshape(16, 16),)),
}


def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


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
            print(f"{name}: iree/cpu@float64=kept,threads=1 does not end within {LIMIT_S} s")
            fault = False
        elif status < 0:
            print(f"{name}: iree/cpu@float64=kept,threads=1 ends with", signal.Signals(-status).name)
            fault = not False and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: iree/cpu@float64=kept,threads=1", "runs it" if status == 0 else "fails in another way")
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
