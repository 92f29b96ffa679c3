"""Compares the translation of each node with ONNX's reference evaluator, on the same operands."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.onnx_files.model_proto import op_of
from mindgap.sources.source import one_line
from mindgap.sources.translated_model import Untranslated, apart

#: Elements of an operand from which the evaluator, which loops in Python, is not used.
_ELEMENTS: Final = 1 << 24
_SHOWN: Final = 4
#: How the evaluator reports that it lacks a version of an operator, and a version of the operator set that it has
#: whole.
_NO_VERSION: Final = "No implementation for operator"
_NEWER: Final = 21
#: Operators that the evaluator (onnx 1.23) computes wrongly below an operator set. `BatchNormalization` of 9 to 13 with
#: one output is inference by its specification; the evaluator takes the statistics of the batch into account.
#: `Softmax`, `LogSoftmax` and `Hardmax` before 13 treat all dimensions from the axis on as one; the evaluator takes the
#: axis alone.
FAULTY_BEFORE: Final[Mapping[str, int]] = {"BatchNormalization": 14, "Softmax": 13, "LogSoftmax": 13, "Hardmax": 13}
#: Operators that the evaluator (onnx 1.23) computes wrongly: agreement counts, a difference does not. Its `LRN` sums
#: the squares of as many channels as there are examples, and takes 0 for the others. Its `GlobalMaxPool` takes two axes
#: of any number. Its `SVMClassifier` couples the probabilities of more than two classes otherwise than libsvm. Its
#: recurrent operators leave out operand 4, the lengths of sequences.
_FAULTY: Final = frozenset({"LRN", "GlobalMaxPool", "ai.onnx.ml.SVMClassifier"})
_RECURRENT: Final = frozenset({"GRU", "LSTM", "RNN"})
#: A float32 result is right where it is off by so many times as much as the evaluator's, from float64.
_ROUNDING: Final = 8.0


@dataclass
class ReferenceCheck:
    """Compares nodes as they are translated. Nodes that differ in names alone are compared once.

    seconds: after which no more nodes are compared. unchecked: the reason and the type of each node that was not.
    """

    model: Any
    seconds: float
    checked: int = 0
    unchecked: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    _spent: float = 0.0
    _known: set[bytes] = field(default_factory=set[bytes])

    def __call__(
        self, node: Any, operands: Sequence[torch.Tensor | None], results: Sequence[torch.Tensor | None]
    ) -> None:
        """Raises `Untranslated` if the evaluator gives something else."""
        form = _form(node, operands)
        if form in self._known:
            return
        reason = self._left_out(node, operands)
        if not reason:
            started = time.monotonic()
            reason = self._compared(node, operands, results)
            self._spent += time.monotonic() - started
        if reason:
            self.unchecked[reason, op_of(node)] += 1
        else:
            self._known.add(form)
            self.checked += 1

    @property
    def _opset(self) -> int:
        return max((each.version for each in self.model.opset_import if each.domain in ("", "ai.onnx")), default=_NEWER)

    def _compared(
        self, node: Any, operands: Sequence[torch.Tensor | None], results: Sequence[torch.Tensor | None]
    ) -> str:
        """Compares a node. Returns why that was not possible, empty if it was."""
        if self._opset < FAULTY_BEFORE.get(op_of(node), 0):
            return self._compared_newer(node, operands, results)
        try:
            expected = _evaluated(self.model, node, operands)
        except NotImplementedError:
            return "the evaluator does not have it"
        except Exception as error:  # of any type, by operator
            if isinstance(error, RuntimeError) and _NO_VERSION in str(error):
                return self._compared_newer(node, operands, results)
            return f"the evaluator fails: {one_line(error)[:80]}"
        try:
            _compare(node, results, expected)
        except Untranslated:
            if is_faulty(node):
                return "the evaluator computes it wrongly"
            if not self._differs_by_rounding(node, operands, results, expected):
                raise
        return ""

    def _differs_by_rounding(
        self, node: Any, operands: Sequence[torch.Tensor | None], results: Sequence[Any], expected: Sequence[Any]
    ) -> bool:
        """Whether results are about as near to those in float64 as what the evaluator gives in float32."""
        wide = [each.double() if each is not None and each.dtype == torch.float32 else each for each in operands]
        try:
            exact = _evaluated(self.model, node, wide)
        except Exception:  # of any type: it takes no float64 here
            return False
        for ours, theirs, right in zip(results, expected, exact, strict=True):
            if ours is None or theirs is None:
                continue
            if ours.shape != np.shape(right):
                return False
            sides = (np.asarray(each).astype(np.complex128) for each in (to_numpy(ours), theirs))
            off, rounding = (float(np.abs(side - right).max(initial=0.0)) for side in sides)
            if not off <= _ROUNDING * rounding:
                return False
        return True

    def _compared_newer(
        self, node: Any, operands: Sequence[torch.Tensor | None], results: Sequence[torch.Tensor | None]
    ) -> str:
        """Compares with a newer version of the operator, whose agreement counts and whose difference does not."""
        import onnx

        newer = onnx.ModelProto()
        newer.opset_import.add(domain="", version=_NEWER)
        try:
            _compare(node, results, _evaluated(newer, node, operands))
        except Exception:  # an attribute or an operand that the newer version does not have, or another result
            return "the evaluator does not have this version of it"
        return ""

    def _left_out(self, node: Any, operands: Sequence[torch.Tensor | None]) -> str:
        if node.domain not in ("", "ai.onnx"):
            return f"{node.domain} is no part of ONNX"
        if self._spent > self.seconds:
            return f"after {self.seconds:.0f} s"
        if any(each is not None and each.numel() > _ELEMENTS for each in operands):
            return "too large for it"
        return ""

    def words(self) -> str:
        """Returns what was not compared; empty if all was."""
        parts: list[str] = []
        for reason in dict.fromkeys(reason for reason, _ in self.unchecked):
            ops = [f"{op}{f' × {n}' if n > 1 else ''}" for (r, op), n in self.unchecked.items() if r == reason]
            more = f" and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
            parts.append(f"{', '.join(ops[:_SHOWN])}{more} ({reason})")
        return "; ".join(parts)


def is_faulty(node: Any) -> bool:
    """Whether the evaluator computes a node wrongly in every operator set."""
    return op_of(node) in _FAULTY or (op_of(node) in _RECURRENT and any(node.input[4:5]))


def _form(node: Any, operands: Sequence[torch.Tensor | None]) -> bytes:
    """What two nodes that need one comparison have in common."""
    import onnx

    plain = onnx.NodeProto(op_type=node.op_type, domain=node.domain, attribute=node.attribute)
    outputs = [bool(name) for name in node.output]
    specs = [None if each is None else (str(each.dtype), tuple(each.shape)) for each in operands]
    return plain.SerializeToString(deterministic=True) + repr((specs, outputs)).encode()


def _evaluated(model: Any, node: Any, operands: Sequence[torch.Tensor | None]) -> list[Any]:
    """Runs one node in the reference evaluator."""
    import onnx
    from onnx import reference

    given = {f"i{i}": to_numpy(each) for i, each in enumerate(operands) if each is not None}
    one = onnx.NodeProto()
    one.CopyFrom(node)
    del one.input[:], one.output[:]
    one.input.extend(f"i{i}" if each is not None else "" for i, each in enumerate(operands))
    one.output.extend(f"o{i}" if name else "" for i, name in enumerate(node.output))
    helper = onnx.helper
    inputs: Any = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    wanted = [name for name in one.output if name]
    outputs = [onnx.ValueInfoProto(name=name) for name in wanted]
    made = helper.make_model(
        helper.make_graph([one], "node", inputs, outputs), opset_imports=list(model.opset_import),
        functions=list(model.functions),
    )  # fmt: skip
    with np.errstate(all="ignore"):
        evaluator: Any = reference.ReferenceEvaluator(made)  # typed in parts
        values = iter(evaluator.run(wanted, given))
    return [next(values) if name else None for name in one.output]


def _compare(node: Any, results: Sequence[torch.Tensor | None], expected: Sequence[Any]) -> None:
    for name, result, one in zip(node.output, results, expected, strict=True):
        if one is None or result is None:
            continue
        ours, theirs = to_numpy(result), np.asarray(one)
        if ours.shape != theirs.shape or (ours.dtype != theirs.dtype and ours.dtype.itemsize == theirs.dtype.itemsize):
            raise Untranslated(
                f"its translation gives {name} as {ours.dtype}{list(ours.shape)}, the reference evaluator as "
                f"{theirs.dtype}{list(theirs.shape)}"
            )
        wrong = apart(ours, theirs)
        if wrong:
            raise Untranslated(
                f"its translation gives other values than the reference evaluator in {wrong} of {ours.size} elements "
                f"of {name}"
            )
