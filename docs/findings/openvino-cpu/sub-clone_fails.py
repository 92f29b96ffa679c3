"""openvino/cpu: a model that returns one value twice does not convert, such as `(v, dropout(v))`

Condition: two outputs are the same value: the same tensor, its `clone`, `contiguous`, or `dropout` in evaluation.

Right for: an input that is returned twice; `(a - b, (a - b).clone())`, where the value is computed twice.

translate_session.cpp of the PyTorch front end asks for outputs whose names are numbers, as TorchScript has them;
those of an exported program are texts.

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


FAILURE = ("GeneralFailure", "Tensor name is not a number")


class Model(torch.nn.Module):
    def forward(self, x0):
        v0 = torch.relu(x0)
        return v0, torch.nn.functional.dropout(v0, 0.5, self.training)


class Clone(torch.nn.Module):
    def forward(self, x0):
        v0 = 2 * x0
        return v0, v0.clone()


CASES = {
    "smallest": (Clone, lambda: (torch.zeros(1),)),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 24).reshape(4, 6),)),
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
