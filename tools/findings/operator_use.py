"""Counts which calls of operators occur in captured models; severity of causes is ranked by it.

    python tools/findings/operator_use.py GRAPHNET.parquet [--most N --out FILE]

Replays GraphNet's computation graphs (one row per model) on tensors without data, sees every call of an operator of
ATen, both whole (`conv2d`) and in parts (`convolution`), and writes the distinct calls, each with the models that make
it, to src/mindgap/findings/causes/operator_calls.txt.gz. Small recorded values are computed, because calls read numbers
from them. After a call that cannot be replayed, the calls that need its result are not counted; such models are listed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as parquet
import torch

from mindgap.aten.operators import overload
from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode
from mindgap.aten.torch_private.overloads import schema_of
from mindgap.aten.torch_private.pre_dispatch import (
    PreDispatchMode,
    call_without_python_dispatcher,
    in_function_transform,
    redispatch_below,
    run_under_pre_dispatch,
    tensors_in,
)
from mindgap.findings.causes.call_predicate import OperatorCall
from mindgap.findings.causes.operator_calls import TABLE, table_bytes
from mindgap_zoo.records.parquet import assemble
from mindgap_zoo.records.recorded_calls import RecordedCalls, RecordedStep, names_in

#: Tensors of so many elements or fewer are computed where all their operands are.
_SMALL: Final = 1 << 16
_READS: Final = ("item", "torch.ops.aten._local_scalar_dense")
_WRITES: Final = ("operator.setitem",)
#: Overload, arguments, names of tensors, their dtypes and their shapes.
Call = tuple[str, tuple[tuple[str, Any], ...], tuple[str, ...], tuple[str, ...], tuple[tuple[int, ...], ...]]


class Seen:
    """The distinct calls of one step of a record, or of a program."""

    def __init__(self) -> None:
        self.calls: set[Call] = set()


class _Whole(PreDispatchMode):
    """Sees calls above autocast and autograd, where composite operators are whole."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if in_function_transform():
            with self:
                return redispatch_below(func, args, kwargs)
        self.seen.calls.add(described(func, args, kwargs))
        return call_without_python_dispatcher(func, args, kwargs)


class _Parts(TorchDispatchMode):
    """Sees the calls that kernels answer."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        self.seen.calls.add(described(func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def seen_calls(seen: Seen) -> Any:
    """A context in which every call is noted, whole and in parts."""
    return run_under_pre_dispatch(_Parts(seen), _Whole(seen))


def described(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    """A call as a value that can be compared: overload, arguments, names, dtypes and shapes of tensors."""
    given: list[tuple[str, Any]] = []
    operands: list[tuple[str, torch.Tensor]] = []
    arguments = schema_of(func).arguments
    by_name = [(each, kwargs[each.name]) for each in arguments if each.name in kwargs]
    for argument, value in [*zip(arguments, args, strict=False), *by_name]:
        tensors = list(tensors_in(value))
        operands += [(argument.name, tensor) for tensor in tensors]
        if not tensors:
            given.append((argument.name, _plain(value)))
    return (
        str(func), tuple(given), tuple(name for name, _ in operands),
        tuple(str(tensor.dtype).removeprefix("torch.") for _, tensor in operands),
        tuple(tuple(map(int, tensor.shape)) for _, tensor in operands),
    )  # fmt: skip


def _plain(value: Any) -> Any:
    """An argument without types of PyTorch."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return "cpu" if isinstance(value, torch.device) else str(value).removeprefix("torch.")


@dataclass(slots=True)
class Replay:
    """Replays records. `known`: for each step that was run, its calls and the form of its results.

    Values are tensors on the CPU where they are small and known, and tensors on the device `meta` elsewhere.
    """

    seen: Seen = field(default_factory=Seen)
    known: dict[Any, tuple[frozenset[Call], Any]] = field(default_factory=dict[Any, Any])

    def calls(self, record: Mapping[str, Any]) -> tuple[set[Call], list[str]]:
        """The distinct calls of a record, and for each step that raised what it raised."""
        built = assemble(record, 0, tame=False, described=True)
        module = built.program
        assert isinstance(module, RecordedCalls)
        calls: set[Call] = set()
        failed: list[str] = []
        original = module._run  # pyright: ignore[reportPrivateUsage] # a benchmark of this package
        literal = {each["name"]: tensor for each in record["inputs"] if (tensor := _literal(each)) is not None}

        def run(step: RecordedStep, values: dict[str, Any]) -> Any:
            used = (*names_in(step.args), *names_in(step.kwargs))
            for name in used:
                if name in literal:
                    values[name] = literal.pop(name)
            if any(values[name] is _LOST for name in used):
                return _LOST
            try:
                found, result = self._step(step, values, used, original)
            except Exception as error:  # a step may raise anything on tensors without data
                failed.append(f"{step.target}: {type(error).__name__}: {str(error)[:100]}")
                return _LOST
            calls.update(found)
            return result

        module._run = run
        with torch.no_grad():
            module.forward(*built.args)
        return calls, failed

    def _step(
        self, step: RecordedStep, values: dict[str, Any], used: Sequence[str], original: Callable[..., Any]
    ) -> tuple[frozenset[Call], Any]:
        operands = {name: values[name] for name in used}
        if step.target in _READS and isinstance(operands[used[0]], torch.Tensor) and operands[used[0]].is_meta:
            return frozenset(), 1  # a number that is not known
        if in_function_transform() or step.target.endswith("_vmap_increment_nesting"):
            return frozenset(), original(step, operands)  # masks of attention: wrapped tensors have no form
        tensors = list(tensors_in(operands))
        mixed = any(t.is_meta for t in tensors) and not all(t.is_meta for t in tensors)
        if mixed:
            masks = step.target == "operator.getitem"
            operands = {name: _meta(value, masks=masks and name != used[0]) for name, value in operands.items()}
            if step.target.endswith("_") or step.target in _WRITES or step.target.startswith("operator.i"):
                values[used[0]] = operands[used[0]]
        meta = any(t.is_meta for t in tensors)
        key = (step.kind, step.target, _form(step.args, operands), _form(step.kwargs, operands))
        if key in self.known:
            calls, made = self.known[key]
            return calls, (_made(made) if meta else _bounded(original(step, operands)))
        if meta:
            step = replace(step, args=_on_meta(step.args), kwargs=_on_meta(step.kwargs))
        calls, result = self._traced(step, operands, original, seen_calls(self.seen))
        if not in_function_transform():
            self.known[key] = calls, _form(_bounded(result), {})
        return calls, _bounded(result)

    def _traced(
        self, step: RecordedStep, operands: Mapping[str, Any], original: Callable[..., Any], modes: Any
    ) -> tuple[frozenset[Call], Any]:
        """The calls of a step, seen by `modes`, and its result."""
        self.seen.calls = set()
        with modes:
            result = original(step, operands)
        return frozenset(self.seen.calls), result


_LOST: Final = object()


def _literal(entry: Mapping[str, Any]) -> torch.Tensor | None:
    """The values of an input where the record has all of them."""
    if entry.get("data") is None or entry.get("scalar") or entry["kind"] == "symint" or len(entry["data"]) > _SMALL:
        return None
    array = np.asarray(entry["data"], dtype=np.float64 if "float" in entry["dtype"] else np.int64)
    return torch.from_numpy(array.reshape(entry["shape"])).to(TORCH_DTYPES[entry["dtype"]])


def _meta(value: Any, *, masks: bool) -> Any:
    """The value with its tensors on the device `meta`; a mask that selects becomes positions."""
    if isinstance(value, torch.Tensor):
        if masks and value.dtype == torch.bool and value.dim() == 1 and not value.is_meta:
            value = value.nonzero().squeeze(1)
        if value.is_meta or value.dim() == 0:
            return value  # a tensor without dimensions counts as a number, on any device
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, (list, tuple)):
        return type(value)(_meta(each, masks=masks) for each in value)
    return value


def _on_meta(value: Any) -> Any:
    """Recorded arguments in which the device is that of tensors without data."""
    if isinstance(value, torch.device):
        return torch.device("meta")
    if isinstance(value, (list, tuple)):
        return type(value)(map(_on_meta, value))
    return {key: _on_meta(each) for key, each in value.items()} if isinstance(value, dict) else value


def _bounded(result: Any) -> Any:
    """The result, with large tensors on the device `meta`."""
    if isinstance(result, torch.Tensor):
        return result if result.is_meta or result.numel() <= _SMALL else _meta(result, masks=False)
    if isinstance(result, (list, tuple)) and next(tensors_in(result), None) is not None:
        return tuple(_bounded(each) for each in result)
    return result


def _form(value: Any, values: Mapping[str, Any]) -> Any:
    """A value that can be compared, in which a tensor is its shape, strides and dtype."""
    if type(value).__name__ == "ValueName":
        value = values[value.text]
    if isinstance(value, torch.Tensor):
        return ("tensor", tuple(value.shape), value.stride(), value.dtype, value.is_meta)
    if isinstance(value, torch.Size):
        return ("size", *value)
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(_form(each, values) for each in value))
    if isinstance(value, Mapping):
        return ("dict", *((key, _form(each, values)) for key, each in value.items()))
    if isinstance(value, slice):
        return ("slice", *(_form(each, values) for each in (value.start, value.stop, value.step)))
    return (type(value).__name__, value)


def _made(form: Any) -> Any:
    """A value of a form that `_form` gave."""
    kind, *rest = form
    if kind == "tensor":
        shape, stride, dtype, _ = rest
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    if kind == "size":
        return torch.Size(rest)
    if kind in ("list", "tuple"):
        return tuple(map(_made, rest))
    if kind == "dict":
        return {key: _made(each) for key, each in rest}
    return slice(*map(_made, rest)) if kind == "slice" else rest[0]


def records(table: Path) -> Iterator[dict[str, Any]]:
    """The records of a Parquet file, in its order."""
    for batch in parquet.ParquetFile(table).iter_batches(64, columns=["inputs", "nodes", "outputs"]):
        for row in batch.to_pylist():
            yield {column: json.loads(text) for column, text in row.items()}


def defaults(op: str) -> dict[str, Any]:
    """The arguments of an overload, each with its default, or None."""
    arguments = schema_of(overload(op)).arguments
    return {each.name: _plain(each.default_value) if each.has_default_value() else None for each in arguments}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path, help="the Parquet file of GraphNet's graphs")
    parser.add_argument("--most", type=int, help="models to replay (default: all)")
    parser.add_argument("--out", type=Path, default=TABLE, help="instead of the file in the package")
    asked = parser.parse_args()
    started, replay = time.process_time(), Replay()
    calls: dict[int, list[OperatorCall]] = {}
    failures: Counter[str] = Counter()
    unfinished = 0
    for number, record in enumerate(itertools.islice(records(asked.table), asked.most)):
        found, failed = replay.calls(record)
        calls[number] = [OperatorCall(call[0], dict(call[1]), *call[2:]) for call in found]
        failures.update(failed)
        unfinished += bool(failed)
    overloads = {call.op for made in calls.values() for call in made}
    content = table_bytes(calls, {op: defaults(op) for op in overloads}, unfinished)
    asked.out.write_bytes(content)
    spent = time.process_time() - started
    print(f"{len(calls):,} models, {len(overloads)} overloads, {len(content):,} bytes, {spent:.0f} s of processor time")
    print(f"{unfinished} models have calls that could not be replayed")
    for reason, count in failures.most_common(20):
        print(f"  {count} x {reason}")


if __name__ == "__main__":
    main()
