"""Opens `records:FILE.parquet#ID`: recorded calls of real models, as rows of a Parquet file.

The format is that of the GraphNet conversion: each row has an `id` and three JSON columns, `inputs`, `nodes` and
`outputs`. It holds the mean and deviation of weights, not their values. Weights are drawn from recipes with those
statistics. If the outputs are then not finite, huge or all equal, the weights are drawn at the scales of an
initialised network. A record with more than 1 GiB of weights is captured from shapes alone, and its capture is not
proven.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import logging
import math
import re
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import GraphError, kind_of
from mindgap.sources.files.user_code import cast_floats
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, SourceOptions, one_line, source_options, suggest
from mindgap.sources.type_guards import is_list, is_table
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.records import memory_budget as record_size
from mindgap_zoo.records.allowed_targets import UnknownTarget
from mindgap_zoo.records.memory_budget import MOST_DRAWN, OperationCount, TooLarge, inputs_bytes
from mindgap_zoo.records.recipes import record_recipe, scalar_value
from mindgap_zoo.records.recorded_calls import MalformedRecord, RecordedCalls, RecordedStep, check, decode, names_in

_log = logging.getLogger(__name__)

_COLUMNS = ("inputs", "nodes", "outputs")
#: Outputs of a real network stay below; larger ones come of weights that were sampled instead of trained.
_SANE = 1e4


def open_records(source: Source) -> list[Program]:
    """Returns a program per record that the part after # names: an id, a pattern with * ? [ ], or a part of ids.

    Raises `SourceError` if there is no such file, it is no record file, or no id matches.
    """
    chosen = source_options(source)
    path_text, hash_sign, wanted = source.target.rpartition("#")
    if not hash_sign or not wanted:
        raise SourceError(f"{source.text}: say which record: records:FILE.parquet#ID, or #* for all")
    path = Path(path_text)
    known = record_ids(path)
    programs = _matching(wanted, known)
    if not programs:
        raise SourceError(f"{path}: no record {wanted!r} among {len(known)}{suggest(wanted, known)}")
    suffix = source.text[len("records:") + len(source.target) :]

    def build(index: int, name: str) -> Built:
        return build_record(f"{path}#{name}", functools.partial(read_record, path, index), chosen)

    return [
        Program(name, f"records:{path_text}#{name}{suffix}", functools.partial(build, index, name))
        for index, name in programs
    ]


def record_ids(path: Path) -> list[str]:
    return list(_ids(str(path), path.stat().st_mtime_ns) if path.is_file() else _ids(str(path), 0))


@functools.lru_cache(maxsize=8)
def _ids(path: str, changed: int) -> tuple[str, ...]:
    """Reads the ids, cached by the file's modification time: a campaign opens thousands of records of one file."""
    file = _open(Path(path))
    missing = [column for column in ("id", *_COLUMNS) if column not in file.schema_arrow.names]
    if missing:
        raise SourceError(f"{path}: no records: it has no column {missing[0]!r}")
    try:
        return tuple(str(value) for value in file.read(columns=["id"]).column("id").to_pylist())
    except (ValueError, OSError, RuntimeError) as error:
        raise SourceError(f"{path}: the file is damaged ({one_line(error)}); copy it again") from error


def _open(path: Path) -> Any:
    if not path.is_file():
        raise SourceError(f"{path}: no such file")
    try:
        return pq.ParquetFile(path)
    except (ValueError, OSError, RuntimeError) as error:  # what the library's own errors derive from
        raise SourceError(f"{path}: not a Parquet file ({one_line(error)})") from error


def _matching(wanted: str, known: list[str]) -> list[tuple[int, str]]:
    if wanted in known:
        return [(known.index(wanted), wanted)]
    if any(sign in wanted for sign in "*?["):
        return [(index, name) for index, name in enumerate(known) if fnmatch.fnmatchcase(name, wanted)]
    return [(index, name) for index, name in enumerate(known) if wanted in name]


def read_record(path: Path, index: int) -> dict[str, Any]:
    """Returns the parsed `inputs`, `nodes` and `outputs` of the row with this number.

    Raises `SourceError` if the file is damaged, ValueError or TypeError for a cell that is not JSON.
    """
    file = _open(path)
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if index < rows:
            try:
                table = file.read_row_group(group, columns=list(_COLUMNS)).slice(index, 1)
            except (ValueError, OSError, RuntimeError) as error:
                raise SourceError(f"{path}: the file is damaged ({one_line(error)}); copy it again") from error
            return {column: json.loads(table.column(column)[0].as_py()) for column in _COLUMNS}
        index -= rows
    raise IndexError(index)


def names(file: str | Path) -> list[str]:
    """Returns the ids of a record file: what may follow `records:FILE#`. Raises `SourceError`."""
    return record_ids(Path(file))


def build_record(where: str, load: Callable[[], dict[str, Any]], chosen: SourceOptions) -> Built:
    """Builds the program of the record that `load` returns. Raises `SourceError`; its message starts with `where`."""
    with _refusing(where, "not a well-formed record:"):
        record = _parsed(load())
        if inputs_bytes(record["inputs"]) > MOST_DRAWN:
            _log.info("%s: captured from shapes: its weights take more than 1 GiB", where)
            return assemble(record, chosen.seed, tame=True, described=True, dtype=chosen.dtype)
        built = assemble(record, chosen.seed, tame=False)
    with _refusing(where, "running its calls raised"):
        with OperationCount() as work:
            largest = _largest(built)
        if work.done > record_size.MOST_WORK:
            _log.info("%s: captured from shapes: one run takes %.0e multiplications", where, work.done)
            described = assemble(record, chosen.seed, tame=True, described=True, dtype=chosen.dtype)
            assert isinstance(described.program, RecordedCalls) and isinstance(built.program, RecordedCalls)
            described.program.remember(built.program)
            return described
        if not largest <= _SANE:
            built = _rescaled(record, chosen.seed, built, largest)
    return cast_floats(built, chosen.dtype)


@contextlib.contextmanager
def _refusing(where: str, what: str) -> Generator[None]:
    """Raises `SourceError` for all errors: a field of a stranger's record may be of any type, and its calls may raise
    anything."""
    try:
        yield
    except SourceError:
        raise
    except TooLarge as error:
        raise SourceError(f"{where}: too large: {error}") from None
    except UnknownTarget as error:
        raise SourceError(f"{where}: it calls {error}, which is not on the list of allowed functions") from None
    except (MalformedRecord, GraphError) as error:
        raise SourceError(f"{where}: {what} {error}") from None
    except Exception as error:
        raise SourceError(f"{where}: {what} {one_line(error)}") from error


def _parsed(record: dict[str, Any]) -> dict[str, Any]:
    """Returns the record after a check of its outermost form. Raises `MalformedRecord`."""
    for column in _COLUMNS:
        if not is_list(record[column]):
            raise MalformedRecord(f"{column} is a {type(record[column]).__name__}, not a list")
    seen: set[str] = set()
    for entry in [*record["inputs"], *record["nodes"]]:
        if not is_table(entry) or not isinstance(entry.get("name"), str):
            raise MalformedRecord(f"an input or node without a name: {str(entry)[:60]}")
        if entry["name"] in seen:
            raise MalformedRecord(f"two values are called {entry['name']}")
        seen.add(entry["name"])
    return record


def _rescaled(record: Mapping[str, Any], seed: int, built: Built, largest: float) -> Built:
    """Returns the record at the scales of an initialised network if that brings its outputs into range."""
    tamed = assemble(record, seed, tame=True)
    other = _largest(tamed)
    if other < largest or (not math.isfinite(largest) and math.isfinite(other)):
        _log.info("weights drawn at the scales of an initialised network: outputs of %g become %g", largest, other)
        return tamed
    return built


def assemble(
    record: Mapping[str, Any], seed: int, tame: bool, described: bool = False, dtype: str | None = None
) -> Built:
    """Returns the module and the arguments of a parsed record.

    `described`: tensors have no values, the registry keeps their recipes, and floating-point ones have `dtype`. Raises
    `MalformedRecord`, `UnknownTarget`, KeyError or TypeError for a record that breaks the format.
    """
    registry = TensorRegistry()
    tensors: dict[str, torch.Tensor] = {}
    entries: list[dict[str, Any]] = record["inputs"]
    constants = _numbers(entries)
    kinds: dict[str, str] = {e["name"]: e["kind"] for e in entries if e["name"] not in constants}
    arguments = [name for name, kind in kinds.items() if kind == "input"]
    outputs = [decode(value, set()) for value in record["outputs"]]
    module = RecordedCalls(_steps(record, outputs), outputs, arguments, constants)
    for entry in entries:
        name = entry["name"]
        if name not in kinds:
            continue
        own = {**entry, "dtype": dtype} if described and dtype and kind_of(entry["dtype"]) == "float" else entry
        recipe = record_recipe(own, seed_of(name, seed), tame)
        shape: Any = tuple(own["shape"])
        if described:
            tensors[name] = torch.empty(shape, dtype=TORCH_DTYPES[own["dtype"]], device="meta")
        else:
            # In memory of PyTorch's own, since the proof of a capture shares parameters until one is written to.
            tensors[name] = registry.draw(recipe, own["dtype"], shape).clone()
        if kinds[name] == "input":
            label = f"inputs.{arguments.index(name)}"
        else:
            label = module.place(name, own.get("path") or name, tensors[name], kinds[name] == "parameter")
        if described:
            registry.describe(label, recipe)
    return Built(module.eval(), tuple(tensors[name] for name in arguments), {}, registry)


def _numbers(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the inputs that stand for Python numbers, by name. Raises `MalformedRecord` for an input of unknown
    kind."""
    # Symbolic sides have the last size of the first image.
    images = (e["shape"] for e in entries if e["kind"] == "input" and len(e["shape"]) == 4)
    side = next((int(shape[-1]) for shape in images), None)
    numbers: dict[str, Any] = {}
    for entry in entries:
        name, kind = entry["name"], entry["kind"]
        if kind == "symint":
            symbol = re.fullmatch(r"s\d+", entry.get("original_name", ""))
            numbers[name] = side if symbol and side is not None else entry["data"][0]
        elif entry.get("scalar"):
            numbers[name] = scalar_value(entry)
        elif kind not in ("input", "parameter", "buffer"):
            raise MalformedRecord(f"{name} is of kind {str(kind)[:40]!r}")
    return numbers


def _steps(record: Mapping[str, Any], outputs: Any) -> list[RecordedStep]:
    """Returns the record's decoded nodes, each with the values that are not needed after it.

    Raises `MalformedRecord` for a node that refers to no input and no earlier node.
    """
    needed = set(names_in(outputs))
    steps: list[RecordedStep] = []
    for node in reversed(record["nodes"]):
        used: set[str] = set()
        args = tuple(decode(arg, used) for arg in node["args"])
        kwargs = {key: decode(arg, used) for key, arg in node["kwargs"].items()}
        dying = tuple(sorted((used | {node["name"]}) - needed))
        step = RecordedStep(node["name"], node["op"], node["target"], args, kwargs, dying)
        check(step)
        steps.append(step)
        needed |= used
    known = {entry["name"] for entry in record["inputs"]}
    for step in reversed(steps):
        for name in (*names_in(step.args), *names_in(step.kwargs)):
            if name not in known:
                raise MalformedRecord(f"node {step.name} refers to {name}, which nothing before it gives")
        known.add(step.name)
    for name in names_in(outputs):
        if name not in known:
            raise MalformedRecord(f"an output refers to {name}, which nothing gives")
    return steps[::-1]


def _largest(built: Built) -> float:
    """Returns the largest absolute value among the floating-point outputs; NaN if one is not finite or all are
    constant.

    Also pins the numbers that the calls read (see `RecordedCalls.pin_numbers`).
    """
    module = built.program
    assert isinstance(module, RecordedCalls)
    module.pinned.clear()
    with torch.no_grad():
        outputs = module.pin_numbers(*(argument.clone() for argument in built.args))
    floats = [v for v in outputs if isinstance(v, torch.Tensor) and v.is_floating_point() and v.numel()]
    wide = [value for value in floats if value.numel() > 1]
    if wide and not any(float(value.double().std()) > 0.0 for value in wide):
        return math.nan
    return max((float(v.double().abs().max()) if bool(v.isfinite().all()) else math.nan for v in floats), default=0.0)
