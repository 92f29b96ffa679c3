"""openvino/cpu: `cat` of an empty 1-d tensor and one of more dimensions does not convert, as a new cache of transformers makes it

Condition: one tensor has the shape [0] and another has two dimensions or more; `DynamicCache` of transformers begins
so, thus a causal language model with `use_cache=True` and no cache yet.

Right for: an empty tensor of the same number of dimensions; 1-d tensors; tensors of equal shapes.

PyTorch leaves tensors of the shape [0] out of a concatenation. The translation gives them to Concat, whose operands
must have one rank.

Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
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


FAILURE = ("OpConversionFailure", "Conversion is failed for: SequenceMark, aten.cat.default")


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cat([torch.tensor([]), x], dim=-2)


class Argument(torch.nn.Module):
    def forward(self, empty, x):
        return torch.cat([empty, x], dim=2)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[1.0]]),)),
    "a cache of keys without any yet": (Model, lambda: (torch.ones(1, 2, 5, 16),)),
    "an argument": (Argument, lambda: (torch.zeros(0), torch.ones(1, 2, 5, 16))),
}


def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def raised(call):
    """What `call` raises, and nothing that it prints; None where it raises nothing."""
    try:
        call()
    except Exception as problem:
        return problem, ""
    return None, ""



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
        problem, printed = raised(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: openvino/cpu@precision=f32 runs it")
            continue
        print(f"{name}: openvino/cpu@precision=f32 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
