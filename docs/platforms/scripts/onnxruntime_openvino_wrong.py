"""What ONNX Runtime's OpenVINO provider computes wrongly or does not load, with torch and onnxruntime-openvino alone.

    python onnxruntime_openvino_wrong.py
Exit status 1: a fault is there; 0: none is; 2: this onnxruntime has no OpenVINO provider.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings

import onnxruntime
import torch

PROVIDERS = ["OpenVINOExecutionProvider", "CPUExecutionProvider"]


class Constant(torch.nn.Module):
    """One output is a weight."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.tensor([1.0, 2.0]))

    def forward(self, x):
        return torch.relu(x), self.weight * 2


class Product(torch.nn.Module):
    def forward(self, x):
        return (x * x,)


class Relu(torch.nn.Module):
    def forward(self, x):
        return (torch.relu(x),)


CASES = {
    "an output that is a weight": (Constant(), torch.tensor([-1.0, 3.0])),
    "int64: 100000 * 100000": (Product(), torch.tensor([100_000])),
    "int64: relu(3000000000)": (Relu(), torch.tensor([3_000_000_000])),
    "int8: 100 * 100": (Product(), torch.tensor([100], dtype=torch.int8)),
}


def run(model, x, providers):
    """The outputs, or the last line of the error."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        proto = torch.onnx.export(model.eval(), (x,), dynamo=True, verbose=False).model_proto
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), settings, providers=providers, enable_fallback=0
        )
        assert session.get_providers() == providers
        return [torch.as_tensor(each) for each in session.run(None, {session.get_inputs()[0].name: x.numpy()})]
    except Exception as error:
        return str(error).strip().splitlines()[-1]


def main():
    print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__)
    if PROVIDERS[0] not in onnxruntime.get_available_providers():
        print("this onnxruntime has no OpenVINO provider")
        return 2
    found = False
    for name, (model, x) in CASES.items():
        expected = list(model(x))
        print(f"{name}\n  eager    {expected}")
        for providers in (PROVIDERS[1:], PROVIDERS):
            actual = run(model, x, providers)
            print(f"  {providers[0].removesuffix('ExecutionProvider'):<8} {actual}")
            wrong = isinstance(actual, str) or not all(map(torch.equal, actual, expected))
            found |= wrong and providers == PROVIDERS
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    sys.exit(main())
