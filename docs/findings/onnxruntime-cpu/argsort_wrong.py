"""onnxruntime/cpu: `topk`, `sort` and `argsort` misplace and drop finite values where one is NaN

Condition: the input holds a NaN.

Right for: inputs without NaN.

ONNX Runtime's TopK on the CPU (core/providers/cpu/math/top_k.cc) compares with `a > b || (a == b && i < j)`
(GreaterValueCmp, LesserValueCmp), which is no order where a value is NaN, so its heap and its sort leave finite
values in wrong places too.

Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version
from math import inf, nan

try:
    import torch
    import onnxruntime
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')


class Model(torch.nn.Module):
    """The greatest finite one of the two largest: it is the same wherever NaN is placed."""

    def forward(self, x0):
        return torch.topk(torch.topk(x0, 2).values.nan_to_num(nan=-1000.0), 1).values


class TopK(torch.nn.Module):
    def forward(self, x0):
        return torch.topk(torch.topk(x0, 5).values.nan_to_num(nan=-1000.0), 4).values


class Sort(torch.nn.Module):
    """The pairs of finite values that are in the wrong order: none, wherever NaN is placed."""

    def forward(self, x0):
        ordered = torch.sort(x0, dim=1).values
        later = torch.ones(32, 32, dtype=torch.bool).triu(1)
        return ((ordered.unsqueeze(2) > ordered.unsqueeze(1)) & later).sum((1, 2))


def numbers():
    torch.manual_seed(0)
    numbers = torch.randn(4, 32)
    numbers[:, 3] = float("nan")
    return numbers


CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0, float("nan"), 3.0, 2.0]),)),
    "ordinary size": (TopK, lambda: (numbers(),)),
    "sort": (Sort, lambda: (numbers(),)),
}
COMPARE = "equal"


def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def error(found, expected):
    """0 where shapes and elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    if found.shape != expected.shape:
        return float("inf")
    equal = (found == expected) | ((found != found) & (expected != expected))
    return 0.0 if equal.all() else float("inf")


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def as_tuple(results):
    return tuple(value.detach() for value in (results if isinstance(results, (tuple, list)) else (results,)))


def furthest(found, right):
    """The place of the element that is furthest off; NaN where the other is none comes first."""
    apart = (found.to(torch.complex128) - right.to(torch.complex128)).abs().nan_to_num(nan=0.0)
    apart[(found != found) != (right != right)] = float("inf")
    return tuple(int(i) for i in torch.unravel_index(apart.flatten().argmax(), apart.shape))


def shows(name, Model, fresh):
    """Whether one case shows the fault."""
    expecteds = as_tuple(Model().eval()(*fresh()))
    exacts = expecteds  # eager PyTorch is the measure
    founds = as_tuple(run(Model().eval(), fresh))
    fault = False
    for number, (found, expected, exact) in enumerate(zip(founds, expecteds, exacts, strict=True)):
        eps = torch.finfo(expected.dtype).eps if expected.is_floating_point() or expected.is_complex() else 0.0
        off, limit = error(found, expected), 16 * eps
        wrong = found.dtype != expected.dtype or off > limit
        fault |= wrong
        kind = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
        print(f"{name}, output {number}: {kind}, error {off:.3g}, limit {limit:.3g}{': wrong' if wrong else ''}")
        if found.dtype != expected.dtype or found.shape != expected.shape:
            print("  eager:", expected.dtype, list(expected.shape), " onnxruntime/cpu:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, expected)
            values = " ".join(f"{side} {value[place].item():.9g} " for side, value in (
                ("eager", expected), ("onnxruntime/cpu", found), ("float64", exact)))
            print(f"  at {list(place)}: {values}")
    return fault


def main():
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        try:
            found |= shows(name, Model, fresh)
        except Exception:
            traceback.print_exc()
            print(f"{name}: it fails, which is another fault than the one that this script shows.")
            return 2
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
