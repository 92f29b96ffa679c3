"""executorch/cpu: `max_pool2d`, `avg_pool2d` of (C, H, W) and `PReLU` of any rank but 4 fail (XNNPACK)

Condition: pools: an input (C, H, W), also behind a `conv2d`; `PReLU`: an input of 1, 2, 3 or 5 dimensions.

Right for: (N, C, H, W); the same model without the partitioner; `conv2d` and `max_pool1d` without a batch.

The pass takes these operators for ones that need channels last, and channels last exists for four dimensions only:
`input_to_nhwc` in executorch/backends/xnnpack/_passes/channels_last_tagged_reshape_pass.py raises. The partitioner
does not look at the rank.

Seen with torch 2.13.0+cpu, executorch 1.5.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import tempfile
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


FAILURE = ("AssertionError", "Attempting to convert non-NHWC compatible node to NHWC")


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.max_pool2d(x0, 2)


class Average(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.avg_pool2d(x0, 2)


class Parametric(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.PReLU()

    def forward(self, x0):
        return self.layer(x0)


CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 2, 2),)),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 192).reshape(3, 8, 8),)),
    "avg_pool2d": (Average, lambda: (torch.linspace(-1, 1, 192).reshape(3, 8, 8),)),
    "PReLU": (Parametric, lambda: (torch.linspace(-1, 1, 192).reshape(3, 8, 8),)),
}


def run(model, fresh):
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    found = loaded.load_method("forward").execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-len(program.graph_signature.user_outputs) :]]


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
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = diagnosed(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: executorch/cpu@threads=1 runs it")
            continue
        print(f"{name}: executorch/cpu@threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
