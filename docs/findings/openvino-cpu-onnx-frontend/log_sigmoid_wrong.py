"""openvino/cpu: `logsigmoid(x)` is -inf from -104 down (here from -87), and 0 for `x` above 17

Condition: `x` is large in magnitude (float32: -inf from -87 down here, from -104 down with an exact sigmoid; 0 from
17.5 up, 0.05 % off at 10 and 2.6 % at 15; bfloat16: 0 from 7 up).

Right for: float32 from -86 to 0.

`aten_log_sigmoid` in onnxscript/function_libs/torch_lib/ops/nn.py is Log(Sigmoid(x)): the sigmoid underflows to 0 on
one side and rounds to 1 on the other, in any runtime. Between -104 and -87 a second fault makes it -inf here:
OpenVINO's Sigmoid is 0 there (openvino-cpu/log_sigmoid_wrong.py is the PyTorch front end's own formula).

Seen with torch 2.13.0+cpu, openvino 2026.4.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import tempfile
import traceback
from importlib.metadata import version

try:
    import torch
    import openvino
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'openvino', 'onnx', 'onnxscript')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}


COMPARE = "element"


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.logsigmoid(x0)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([-120.0]),)),
    "ordinary size": (Model, lambda: (torch.linspace(9, 20, 48).reshape(6, 8),)),
    "bfloat16": (Model, lambda: (torch.linspace(7, 12, 6).to(torch.bfloat16),)),
}


class Boundary(torch.nn.Module):
    """A model whose operands and results have dtypes that numpy holds; the conversions are exact."""

    def __init__(self, model, dtypes):
        super().__init__()
        self.model, self.dtypes = model, dtypes

    def forward(self, *given):
        given = [convert(value, dtype) for value, dtype in zip(given, self.dtypes, strict=True)]
        results = self.model(*given)
        return tuple(plain(value) for value in (results if isinstance(results, tuple) else (results,)))


def plain(value):
    if value.is_complex():
        return torch.view_as_real(value.resolve_conj())
    return value.float() if value.is_floating_point() and value.itemsize < 4 and value.dtype != torch.float16 else value


def convert(value, dtype):
    """The inverse of `plain`; a value of any other dtype stays as it is."""
    if dtype.is_complex:
        return torch.view_as_complex(value)
    return value.to(dtype) if dtype.is_floating_point and dtype.itemsize < 4 and dtype != torch.float16 else value


def bounded(Model, fresh):
    return Boundary(Model(), [value.dtype for value in fresh()]).eval(), lambda: tuple(map(plain, fresh()))


def declared(results, expected):
    pairs = zip(results, expected, strict=True) if expected else ()
    return [convert(value, right.dtype) for value, right in pairs]


def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]


def error(found, exact):
    """The largest difference, relative to the element of `exact`.

    Infinity where shapes, NaN or infinities differ, and where results that are no floats differ at all.
    """
    if found.shape != exact.shape:
        return float("inf")
    if not (exact.is_floating_point() or exact.is_complex()):
        return 0.0 if torch.equal(found, exact) else float("inf")
    if exact.is_complex():
        found, exact = torch.view_as_real(found.resolve_conj()), torch.view_as_real(exact.resolve_conj())
    found, exact = found.double(), exact.double()
    finite = exact.isfinite()
    same = torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isfinite(), finite)
    if not same or not torch.equal(found[exact.isinf()], exact[exact.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
    apart = (found - exact)[finite].abs()
    return float((apart / exact[finite].abs())[apart > 0].max()) if apart.any() else 0.0


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
    widened = [
        x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
        for x in fresh()
    ]
    exacts = as_tuple(Model().double().eval()(*widened))  # in float64
    founds = as_tuple(declared(run(*bounded(Model, fresh)), expecteds))
    fault = False
    for number, (found, expected, exact) in enumerate(zip(founds, expecteds, exacts, strict=True)):
        eps = torch.finfo(expected.dtype).eps if expected.is_floating_point() or expected.is_complex() else 0.0
        off, limit = error(found, exact), 16 * max(error(expected, exact), eps)
        wrong = found.dtype != expected.dtype or off > limit
        fault |= wrong
        kind = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
        print(f"{name}, output {number}: {kind}, error {off:.3g}, limit {limit:.3g}{': wrong' if wrong else ''}")
        if found.dtype != expected.dtype or found.shape != expected.shape:
            print("  eager:", expected.dtype, list(expected.shape), " openvino/cpu@frontend=onnx,precision=f32:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
            values = " ".join(f"{side} {value[place].item():.9g} " for side, value in (
                ("eager", expected), ("openvino/cpu@frontend=onnx,precision=f32", found), ("float64", exact)))
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
