"""rknn/simulator: `scaled_dot_product_attention(q, k, v)` without a mask does not build, unless `q` and `k` come straight from `nn.Linear`

Condition: no mask, and queries and keys that are inputs or come from an elementwise operator or a normalisation
(`relu`, `layer_norm`): both operands of the first product are multiplied by a scale.

Right for: the same with `is_causal=True` or with a mask; `softmax(q @ k.transpose(-1, -2) / 2, -1)` followed by a
product; with numpy 1.26.4 queries and keys that are a linear layer of the model, reshaped and transposed, and
`nn.MultiheadAttention`.

The rule fuse_exmatmul_add_mul_exsoftmax13_exmatmul_to_sdpa takes the attention for one with an addition, and indexes
a list that has no such element.

rknn/simulator was not run by hardware (simulated).

Seen with torch 2.13.0+cpu, rknn-toolkit2 2.5.0, onnx 1.18.0, onnxscript 0.7.2.
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
    from rknn.api import RKNN
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'rknn-toolkit2', 'onnx', 'onnxscript')
PROPERTIES = {'target_platform': 'rk3588'}


FAILURE = ("ValueError", "list index out of range")


class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.nn.functional.scaled_dot_product_attention(x0, x1, x2)


CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4), torch.ones(1, 1, 2, 4))),
    "ordinary size": (Model, lambda: (torch.ones(1, 2, 16, 8), torch.ones(1, 2, 16, 8), torch.ones(1, 2, 16, 8))),
}


def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, opset_version=18, verbose=False).save(f"{folder}/model.onnx")
        rknn = RKNN(verbose=False)
        steps = [rknn.config(**PROPERTIES), rknn.load_onnx(f"{folder}/model.onnx")]
        steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
        found = None if any(steps) else rknn.inference([a.numpy() for a in fresh()], data_format="nchw")
        if found is None:
            raise RuntimeError(f"RKNN-Toolkit2 failed: config, load_onnx, build and init_runtime returned {steps}")
        return [torch.as_tensor(a) for a in found]


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
            print(f"{name}: rknn/simulator runs it")
            continue
        print(f"{name}: rknn/simulator raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
