"""Computes the values of a recording on the given arguments, where its calls run on tensors without values."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

import torch

from mindgap.aten.operators import bind
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import to_torch, torch_dtype_name
from mindgap.aten.torch_private.fake_tensors import unset_fake_temporarily
from mindgap.graph import Arg, Input, TensorSpec
from mindgap.graph.materialisation import materialise
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.origin import current_line
from mindgap.graph_capture.recording import CallRecording, RecordedInput


class ActualValues:
    """Runs the recorded calls for real, each once and in their order, as far as values are needed.

    At first only those that depend on constants and unchanged buffers alone; all of them from the first value on that
    depends on more. Inputs are copied when they are first read.
    """

    def __init__(self, recorded: CallRecording) -> None:
        self._recorded = recorded
        self._values: dict[int, torch.Tensor] = {}
        self._evaluated = 0
        self._everything = False

    def of(self, number: int) -> torch.Tensor:
        """Returns the value that a `Ref` of this number names."""
        with unset_fake_temporarily():
            self._catch_up(True)
            return self._value(number)

    def run(
        self,
        func: Any,
        args: tuple[Arg, ...],
        kwargs: tuple[tuple[str, Arg], ...],
        stand_ins: Mapping[int, torch.Tensor] = types.MappingProxyType({}),
        everything: bool = False,
    ) -> Any:
        """Runs a call that is not recorded. `stand_ins`: by position, operands whose values do not matter.

        `everything`: its operands depend on more than constants and unchanged buffers.
        """
        with unset_fake_temporarily():
            self._catch_up(everything)
            operands = [stand_ins[i] if i in stand_ins else bind(a, self._value) for i, a in enumerate(args)]
            return func(*operands, **{k: bind(a, self._value) for k, a in kwargs})

    def _catch_up(self, everything: bool) -> None:
        if everything and not self._everything:
            # Once more from the beginning: calls write, and their order counts.
            self._everything, self._evaluated = True, 0
            self._values.clear()
        for call in self._recorded.calls[self._evaluated :]:
            if call.fixed or self._everything:
                operands = [bind(a, self._value) for a in call.args]
                result = call.func(*operands, **{k: bind(a, self._value) for k, a in call.kwargs})
                for offset, slot in enumerate(flatten_result(result)):
                    if slot is not None:
                        self._values[call.first + offset] = slot
        self._evaluated = len(self._recorded.calls)

    def _value(self, index: int) -> torch.Tensor:
        if index not in self._values:
            source = self._recorded.inputs[-index - 1]
            real = source.real if source.real is not None else _made(source)
            if real.device.type == "meta":
                raise CaptureError(
                    "the program reads a value that was never set (a meta tensor)"
                    if source.role != "input"
                    else "values decide its path, and its arguments have none (device meta)",
                    current_line(),
                )
            self._values[index] = real.clone()
        return self._values[index]


def _made(source: RecordedInput) -> torch.Tensor:
    assert source.recipe is not None
    spec = spec_of_fake(source.fake)
    return to_torch(materialise(Input(spec, source.recipe)), spec)


def spec_of_fake(tensor: torch.Tensor) -> TensorSpec:
    """Returns the spec of a tensor of the program. Raises `CaptureError` for one that graphs do not hold."""
    try:
        return TensorSpec(
            torch_dtype_name(tensor.dtype), tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
        )
    except KeyError:
        raise CaptureError(f"a tensor of dtype {tensor.dtype}, which graphs do not hold", current_line()) from None
    except RuntimeError:
        raise CaptureError(f"a tensor of layout {tensor.layout}; graphs hold strided ones", current_line()) from None
