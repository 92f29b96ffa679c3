"""onnxruntime/qnn: `exp(x)` of large `x` is -0 and then negative: -0 at 112, -131008 at 200 (SM8550)

Condition: `x` is above about 100, on a chip that computes in 16 bits (SM8550).

Right for: `x` from -88 up to 11; above it the greatest number of the format, 131008, up to about 100.

The chip's 16-bit format has no infinity and ends at 131008. Results beyond it are that number, but from about 112 on
the exponent wraps around, and so it does where the result is too small for the format: as an output of the model
`exp` of -90 to -150 is -131008, of -300 131008, and `softplus(-100)` is -131008, `mish(-100)` 100. (Compared with -1
within the graph, `exp(-100)` is not below it.)

onnxruntime/qnn@soc=SM8550 was not run by hardware (simulated).

Seen with torch 2.13.0+cpu, onnxruntime-qnn 2.7.0, onnxruntime 1.32.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    import onnxruntime
    import onnxruntime_qnn
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'onnxruntime-qnn', 'onnxruntime', 'onnx', 'onnxscript')
PROPERTIES = {'soc_model': '43'}


COMPARE = "equal"


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.exp(x0) > 1.0


class Logarithm(torch.nn.Module):
    def forward(self, x0):
        return torch.logsumexp(x0, -1) > -10.0


CASES = {
    "smallest": (Model, lambda: (torch.tensor([200.0]),)),
    "ordinary size": (Model, lambda: (torch.linspace(1, 200, 64).reshape(4, 16),)),
    "logsumexp": (Logarithm, lambda: (torch.linspace(1, 5, 64).reshape(4, 16) - 100.0 * (torch.arange(16) == 3),)),
}


def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    if not any(each.ep_name == onnxruntime_qnn.EP_NAME for each in onnxruntime.get_ep_devices()):
        onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), **PROPERTIES})
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), options)
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
            print("  eager:", expected.dtype, list(expected.shape), " onnxruntime/qnn@soc=SM8550:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, expected)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("onnxruntime/qnn@soc=SM8550", found), ("float64", exact)))
            print(f"  at {list(place)}: {values}")
    return fault


def main():
    torch.set_printoptions(precision=17)
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
