"""openvino/cpu: an index write through a constant `~mask` that selects nothing ends with SIGFPE

Condition: `~` of a mask that is a constant of the model selects no element, and what it selects is written by
`index_put` with a tensor of indices, or by `index_copy`; or an ONNX model expands an input of a static empty shape
(`repeat` of an empty tensor).

Right for: `x[~mask]` alone; `~mask` that selects an element; `x.index_put((~mask,), value)`, `masked_fill`,
`masked_scatter`, `scatter` with such a mask; the same write with `logical_not(mask)`, `mask > 0` or a mask that is an
input.

A Broadcast whose input is known to have no element when the CPU plugin builds its graph (`~mask` is folded to an
empty list of places only then) divides an integer by zero.

Seen with torch 2.13.0+cpu, openvino 2026.4.1.
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
    import openvino
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}


LIMIT_S = 150
SIGNAL = "SIGFPE"


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tensor([True]))

    def forward(self, x0, x1):
        return x0.index_put((x1[~self.mask],), x0[~self.mask])


class Copy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(16, dtype=torch.bool))

    def forward(self, x0, x1):
        return x0.index_copy(0, x1[~self.mask], 2 * x0[~self.mask])


CASES = {
    "smallest": (Model, lambda: (torch.zeros(1), torch.tensor([0]))),
    "ordinary size": (Copy, lambda: (torch.linspace(-1, 1, 16), torch.arange(16))),
}


def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]


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
            print(f"{name}: openvino/cpu@precision=f32 does not end within {LIMIT_S} s")
            fault = False
        elif status < 0:
            print(f"{name}: openvino/cpu@precision=f32 ends with", signal.Signals(-status).name)
            fault = not False and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: openvino/cpu@precision=f32", "runs it" if status == 0 else "fails in another way")
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
