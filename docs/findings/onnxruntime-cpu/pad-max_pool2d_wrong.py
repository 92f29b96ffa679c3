"""onnxruntime/cpu: aten.pad.default+aten.max_pool2d.default of float32: gives a wrong result

Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.nn.functional.pad(x0, [1, 1, 1, 1], 'constant', 0.0)
        v2 = torch.max_pool2d(v1, [3, 3])
        return (v2,)


def run(model, arguments):
    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), arguments, strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def error(found, exact):
    """The largest difference, relative to the largest magnitude of `exact`.

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
    worst, size = (found - exact)[finite].abs().max(), exact[finite].abs().max()
    return float(worst / size) if size else float(worst)


x0 = torch.tensor([[[[-1.0]]]], dtype=torch.float32)


def main():
    print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0,)]))
    except Exception as problem:
        print("onnxruntime/cpu fails:", type(problem).__name__, str(problem)[-3000:])
        print("It fails: another fault than the one that this script shows.")
        return 2
    widened = [x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x for x in [x.clone() for x in (x0,)]]
    exact = Model()(*widened)  # in float64
    found = False
    for number, (a, e, x) in enumerate(zip(actual, expected, exact, strict=True)):
        print(f"output {number}:")
        print("  eager:", e.dtype, e)
        print("  onnxruntime/cpu:", a.dtype, a)
        print("  float64:", x)
        eps = torch.finfo(e.dtype).eps if e.is_floating_point() or e.is_complex() else 0.0
        found |= a.dtype != e.dtype or error(a, x) > 16 * max(error(e, x), eps)
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
