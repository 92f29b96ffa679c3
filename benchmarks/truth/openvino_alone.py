"""Prints the results of OpenVINO's PyTorch front end and of eager for every OpenVINO case, without mindgap.

    python benchmarks/truth/openvino_alone.py [NAME…]

Only torch and openvino are imported: `torch.export.export`, `openvino.convert_model`, `compile_model` with the
precision of the case.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import openvino
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from truth.case import Case
from truth.cases_ort_ov import CASES


class Program(torch.nn.Module):
    """The case's function as a module, which is what users export."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


def main() -> int:
    chosen = [case for case in CASES if not sys.argv[1:] or case.name in sys.argv[1:]]
    for case in chosen:
        if case.platform.startswith("openvino/cpu") and "frontend=onnx" not in case.platform:
            print(f"{case.name} ({case.expected})", flush=True)
            show(case)
    return 0


def show(case: Case) -> None:
    """Eager's outputs, then OpenVINO's, or its error."""
    copies = [argument.clone() for argument in case.args]
    for value in flat(case.program(*copies)):
        print(f"  eager    {text(value)}")
    settings = {} if "precision=default" in case.platform else {"INFERENCE_PRECISION_HINT": "f32"}
    try:
        model = openvino.convert_model(torch.export.export(Program(case.program), case.args))
        compiled = openvino.Core().compile_model(model, "CPU", settings)
        found = compiled([tensor(argument) for argument in case.args])
        for port in compiled.outputs:
            kind = port.get_element_type().to_string()
            value = torch.from_numpy(found[port].copy())
            print(f"  openvino {kind} {text(value.view(torch.bfloat16) if kind == 'bf16' else value)}")
    except Exception as error:
        print(f"  openvino {type(error).__name__}: {' '.join(str(error).split())[:300]}")


def tensor(argument: torch.Tensor) -> Any:
    """The argument as OpenVINO takes it; numpy has no bfloat16."""
    if argument.dtype != torch.bfloat16:
        return argument.numpy()
    return openvino.Tensor(argument.view(torch.uint16).numpy(), list(argument.shape), openvino.Type.bf16)


def flat(found: Any) -> list[torch.Tensor]:
    return [found] if isinstance(found, torch.Tensor) else [value for part in found for value in flat(part)]


def text(value: torch.Tensor) -> str:
    return f"{tuple(value.shape)} {value.reshape(-1)[:6].tolist()}"


if __name__ == "__main__":
    raise SystemExit(main())
