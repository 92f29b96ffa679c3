"""executorch/cpu: `x.unfold(0, 1, 1)` of a 0-d tensor ends the process

Condition: a 0-d tensor, size 0 or 1.

Right for: `unfold` of 1-d.

The kernel of unfold asks the tensor for size(0), which the runtime answers with an assertion (tensor_impl.h:136) that
ends the process, as in `sum`, which is another kernel.

Seen with torch 2.13.0+cpu, executorch 1.5.1.
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
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'executorch')


LIMIT_S = 150
SIGNAL = "SIGABRT"


class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.unfold(0, 1, 1)


class Inner(torch.nn.Module):
    def forward(self, x0):
        return torch.mean(x0).unfold(0, 1, 1) + x0


CASES = {
    "smallest": (Model, lambda: (torch.tensor(0.5),)),
    "ordinary size": (Inner, lambda: (torch.linspace(-1, 1, 64).reshape(4, 16),)),
}


def run(model, fresh):
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    found = loaded.load_method("forward").execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-len(program.graph_signature.user_outputs) :]]


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
            print(f"{name}: executorch/cpu@threads=1 does not end within {LIMIT_S} s")
            fault = False
        elif status < 0:
            print(f"{name}: executorch/cpu@threads=1 ends with", signal.Signals(-status).name)
            fault = not False and SIGNAL in ("", signal.Signals(-status).name)
        else:
            print(f"{name}: executorch/cpu@threads=1", "runs it" if status == 0 else "fails in another way")
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
