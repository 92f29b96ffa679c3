"""`records:FILE.parquet#ID`: graphs of calls recorded from real models, as rows of a Parquet file.

The format is the one of the GraphNet conversion: per row an `id` and three JSON columns, `inputs`,
`nodes` and `outputs`. Weights are not in it, only their mean and deviation: they are drawn from
recipes with those statistics. Where that gives outputs that are not finite or all alike (sampled
weights are no trained weights), they are drawn at tamer scales instead.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from mindgap.corpus.ledger import Ledger, seed_of
from mindgap.corpus.program import Built, Program
from mindgap.corpus.record_module import MalformedRecord, RecordedCalls, Step, check, decode, names_in
from mindgap.corpus.record_recipes import record_recipe, scalar_value
from mindgap.corpus.record_targets import UnknownTarget
from mindgap.corpus.source import Settings, Source, SourceError, one_line, settings, suggest
from mindgap.corpus.user_code import cast_floats

_COLUMNS = ("inputs", "nodes", "outputs")


def open_records(source: Source) -> list[Program]:
    """A program per record that the part after # names: an id, else a pattern with * ? [ ], else a part of ids.

    Raises `SourceError`: no such file, not such a file, no such id.
    """
    chosen = settings(source)
    path_text, hash_sign, wanted = source.target.rpartition("#")
    if not hash_sign or not wanted:
        raise SourceError(f"{source.text}: say which record: records:FILE.parquet#ID, or #* for all")
    path = Path(path_text)
    known = record_ids(path)
    found = _matching(wanted, known)
    if not found:
        raise SourceError(f"{path}: no record {wanted!r} among {len(known)}{suggest(wanted, known)}")
    suffix = source.text[len("records:") + len(source.target) :]
    return [
        Program(name, f"records:{path_text}#{name}{suffix}", functools.partial(_build, path, index, name, chosen))
        for index, name in found
    ]


def record_ids(path: Path) -> list[str]:
    """The ids of a record file, in its order. Raises `SourceError`."""
    return list(_ids(str(path), path.stat().st_mtime_ns) if path.is_file() else _ids(str(path), 0))


@functools.lru_cache(maxsize=8)
def _ids(path: str, changed: int) -> tuple[str, ...]:
    """Cached by the file's time stamp: a campaign opens thousands of records of one file."""
    file = _open(Path(path))
    missing = [column for column in ("id", *_COLUMNS) if column not in file.schema_arrow.names]
    if missing:
        raise SourceError(f"{path}: no records: it has no column {missing[0]!r}")
    return tuple(str(value) for value in file.read(columns=["id"]).column("id").to_pylist())


def _open(path: Path) -> Any:
    """The file, untyped as the library is."""
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
    """The parsed `inputs`, `nodes` and `outputs` of the row with this number."""
    file = _open(path)
    for group in range(file.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if index < rows:
            table = file.read_row_group(group, columns=list(_COLUMNS)).slice(index, 1)
            return {column: json.loads(table.column(column)[0].as_py()) for column in _COLUMNS}
        index -= rows
    raise IndexError(index)


def _build(path: Path, index: int, name: str, chosen: Settings) -> Built:
    try:
        record = read_record(path, index)
        built = assemble(record, chosen.seed, tame=False)
        if not _says_something(built):
            tamed = assemble(record, chosen.seed, tame=True)
            built = tamed if _says_something(tamed) else built
    except UnknownTarget as error:
        raise SourceError(f"{path}#{name}: it calls {error}, which is not on the list of allowed functions") from None
    except (MalformedRecord, KeyError, TypeError, ValueError, IndexError) as error:
        raise SourceError(f"{path}#{name}: not a well-formed record: {one_line(error)}") from error
    except (RuntimeError, NotImplementedError, AttributeError) as error:
        raise SourceError(f"{path}#{name}: running its calls raised {one_line(error)}") from error
    return cast_floats(built, chosen.dtype)


def assemble(record: Mapping[str, Any], seed: int, tame: bool) -> Built:
    """The module and the arguments of a parsed record.

    Raises `MalformedRecord`, `UnknownTarget`, KeyError or TypeError for a record that breaks the format.
    """
    ledger = Ledger()
    tensors: dict[str, torch.Tensor] = {}
    constants: dict[str, Any] = {}
    side = _image_side(record["inputs"])
    for entry in record["inputs"]:
        name, kind = entry["name"], entry["kind"]
        if kind == "symint":
            constants[name] = side if re.fullmatch(r"s\d+", entry.get("original_name", "")) else entry["data"][0]
        elif entry.get("scalar"):
            constants[name] = scalar_value(entry)
        else:
            recipe = record_recipe(entry, seed_of(name, seed), tame)
            tensors[name] = ledger.draw(recipe, entry["dtype"], tuple(entry["shape"]))
    arguments = [entry["name"] for entry in record["inputs"] if entry["kind"] == "input" and entry["name"] in tensors]
    outputs = [decode(value, set()) for value in record["outputs"]]
    module = RecordedCalls(_steps(record["nodes"], outputs), outputs, arguments, constants)
    for entry in record["inputs"]:
        if entry["kind"] in ("parameter", "buffer") and entry["name"] in tensors:
            place = entry.get("path") or entry["name"]
            module.place(entry["name"], place, tensors[entry["name"]], entry["kind"] == "parameter")
    return Built(module.eval(), tuple(tensors[name] for name in arguments), {}, ledger)


def _steps(nodes: list[dict[str, Any]], outputs: Any) -> list[Step]:
    """The record's nodes decoded, each with the values that die after it."""
    needed = set(names_in(outputs))
    steps: list[Step] = []
    for node in reversed(nodes):
        used: set[str] = set()
        args = tuple(decode(arg, used) for arg in node["args"])
        kwargs = {key: decode(arg, used) for key, arg in node["kwargs"].items()}
        dying = tuple(sorted((used | {node["name"]}) - needed))
        step = Step(node["name"], node["op"], node["target"], args, kwargs, dying)
        check(step)
        steps.append(step)
        needed |= used
    return steps[::-1]


def _image_side(inputs: list[dict[str, Any]]) -> int:
    """The last size of the first picture: what the recorded symbolic sides stand for. 224 without a picture."""
    for entry in inputs:
        if entry["kind"] == "input" and len(entry["shape"]) == 4:
            return int(entry["shape"][-1])
    return 224


def _says_something(built: Built) -> bool:
    """Every floating output is finite, and not the same everywhere. Pins the numbers that the calls read."""
    module = built.program
    assert isinstance(module, RecordedCalls)
    module.pinned.clear()
    with torch.no_grad():
        outputs = module.pin_numbers(*(argument.clone() for argument in built.args))
    floats = [value for value in outputs if isinstance(value, torch.Tensor) and value.is_floating_point()]
    finite = all(bool(torch.isfinite(value).all()) for value in floats)
    wide = [value for value in floats if value.numel() > 1]
    return finite and (not wide or any(float(value.double().std()) > 0.0 for value in wide))
