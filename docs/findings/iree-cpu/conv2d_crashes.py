"""iree/cpu@float64=kept,threads=1: aten.conv2d.default of float32: fails

Seen with torch 2.13.0+cpu, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import signal
import subprocess
import sys
import traceback

os.environ.update({'IREE_PY_RUNTIME_FLAGS': '--task_topology_group_count=1'})  # before PyTorch is imported

import numpy as np
import torch

PROPERTIES = {'iree-hal-target-backends': 'llvm-cpu', 'iree-input-demote-f64-to-f32': 'false'}


class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        v3 = torch.conv2d(x0, x1, x2, [1], [0], [2])
        return (v3,)


def run(model, arguments):
    import iree.runtime
    import iree.turbine.aot

    output = iree.turbine.aot.export(model, args=arguments)
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(a.numpy() for a in arguments))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


x0 = torch.tensor(
    [[[-0.66157764, 2.818221, -2.3141525],
      [-1.0883663, -3.251024, -2.3341587],
      [2.968513, 6.640909, 6.746877]]],
    dtype=torch.float32,
)
x1 = torch.tensor([[[[-5.578238, 6.847036]]]], dtype=torch.float32)
x2 = torch.tensor([0.87421113], dtype=torch.float32)


LIMIT_S = 150  # the platform's process is ended after so many seconds


def main():
    arguments = tuple([x.clone() for x in (x0, x1, x2)])
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
        print(f"iree/cpu@float64=kept,threads=1 does not end within {LIMIT_S} s")
        print("Another fault than the one that this script shows.")
        return 2
    if status < 0:
        print("iree/cpu@float64=kept,threads=1 ends with", signal.Signals(-status).name)
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
