"""executorch/cpu@threads=1: aten.sum.dim_IntList of float32: fails

Seen with torch 2.13.0+cpu, executorch 1.5.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import signal
import subprocess
import sys
import traceback

import torch


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.sum(x0, [0], True)
        return (v1,)


def run(model, arguments):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime

    program = torch.export.export(model, arguments)
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    return loaded.load_method("forward").execute(list(arguments))


x0 = torch.tensor(0.41288373, dtype=torch.float32)


LIMIT_S = 150  # the platform's process is ended after so many seconds


def main():
    arguments = tuple([x.clone() for x in (x0,)])
    if sys.argv[1:] == ["run"]:
        run(Model().eval(), arguments)
        return 0
    print("torch", torch.__version__, platform.machine())
    print("eager:", Model()(*arguments), flush=True)
    child = subprocess.Popen([sys.executable, __file__, "run"], start_new_session=True)
    try:
        status = child.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        print(f"executorch/cpu@threads=1 does not end within {LIMIT_S} s")
        print("Another fault than the one that this script shows.")
        return 2
    if status < 0:
        print("executorch/cpu@threads=1 ends with", signal.Signals(-status).name)
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
