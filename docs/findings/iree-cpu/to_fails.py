"""iree/cpu: `to(float8)` of float16 does not compile

Condition: the input is float16 and the dtype float8_e4m3fn, float8_e5m2, float8_e4m3fnuz or float8_e5m2fnuz.

Right for: the same dtypes of float32, which give PyTorch's numbers.

Code generation for llvm-cpu expands `arith.truncf` to a float8 from f32 only. From f16 it stays, and the last
conversion refuses it.

Seen with torch 2.13.0+cpu, iree-base-compiler 3.13.0, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import tempfile
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


FAILURE = ("RuntimeError", "failed to legalize operation 'arith.truncf'")


class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.to(torch.float8_e4m3fn).float()


class Wide(torch.nn.Module):
    def forward(self, x0):
        return x0.to(torch.float8_e5m2).float()


class Narrow(torch.nn.Module):
    def forward(self, x0):
        return x0.to(torch.float8_e4m3fnuz).float()


class OneZero(torch.nn.Module):
    def forward(self, x0):
        return x0.to(torch.float8_e5m2fnuz).float()


CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0, 2.0], dtype=torch.float16),)),
    "ordinary size": (Model, lambda: (torch.linspace(-2, 2, 64, dtype=torch.float16).reshape(4, 16),)),
    "float8_e5m2": (Wide, lambda: (torch.linspace(-2, 2, 8, dtype=torch.float16),)),
    "float8_e4m3fnuz": (Narrow, lambda: (torch.linspace(-2, 2, 8, dtype=torch.float16),)),
    "float8_e5m2fnuz": (OneZero, lambda: (torch.linspace(-2, 2, 8, dtype=torch.float16),)),
}


def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    loaded = iree.runtime.load_vm_module(module, config)
    found = loaded.main(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


def diagnosed(call):
    """What `call` raises, None where it raises nothing, and what is printed on standard error meanwhile."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as printed:
        kept, problem = os.dup(2), None
        os.dup2(printed.fileno(), 2)
        try:
            call()
        except Exception as found:
            problem = found
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
        printed.seek(0)
        return problem, printed.read().decode(errors="replace")


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def is_the_failure(problem, printed):
    """Whether an exception, or one that it follows from, is the failure that this script shows."""
    while problem is not None:
        if FAILURE is not None and type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = diagnosed(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: iree/cpu@float64=kept,threads=1 runs it")
            continue
        print(f"{name}: iree/cpu@float64=kept,threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        if not is_the_failure(problem, printed):
            print("It is another failure than the one that this script shows.")
            return 2
        found = True
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
