"""iree/cpu@float64=kept,threads=1: aten.grid_sampler.default of float32: fails

Seen with torch 2.13.0+cpu, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback

os.environ.update({'IREE_PY_RUNTIME_FLAGS': '--task_topology_group_count=1'})  # before PyTorch is imported

import numpy as np
import torch

PROPERTIES = {'iree-hal-target-backends': 'llvm-cpu', 'iree-input-demote-f64-to-f32': 'false'}


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        v2 = torch.grid_sampler(x0, x1, 0, 0, False)
        return (v2,)


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


x0 = torch.tensor([[[[[0.0]]]]], dtype=torch.float32)
x1 = torch.full((1, 1, 1, 1, 3), 0.0, dtype=torch.float32)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0, x1)]))
    except Exception as problem:
        print("iree/cpu@float64=kept,threads=1 fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("iree/cpu@float64=kept,threads=1 gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
