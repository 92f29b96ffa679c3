"""openvino/cpu: `embedding_bag` with `per_sample_weights` of a dynamic length does not compile

Condition: `per_sample_weights` is given and its length or that of the indices is dynamic, as for every converted
exported program (`torch.nn.EmbeddingBag` and indices with offsets too).

Right for: the same without `per_sample_weights`; the same model after `model.reshape` to static shapes, also with a
dynamic table.

The CPU plugin asks for the static shape of the indices or weights of EmbeddingBagOffsets (opset 15) and
EmbeddingBagOffsetsSum (opset 3) when they are dynamic.

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


FAILURE = ("RuntimeError", "to_shape was called on a dynamic shape")


class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.nn.functional.embedding_bag(x0, x1, mode='sum', per_sample_weights=x2)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[0]]), torch.ones(1, 1), torch.ones(1, 1))),
    "ordinary size": (Model, lambda: (torch.tensor([[0, 1, 2], [3, 5, 4]]), torch.linspace(-1, 1, 48).reshape(6, 8), torch.ones(2, 3))),
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
