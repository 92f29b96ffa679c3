"""`graphnet:DIR`: samples in GraphNet's own layout, one or a tree of them.

A sample is a folder with `model.py` (the recorded calls, as the `forward` of a class) and
`weight_meta.py` (a class per tensor: shape, dtype, mean, deviation), as a rule also `input_meta.py`
and `graph_net.json`. A model that the tracer had to break has a folder `subgraph_0`, `subgraph_1`, …
for each part; every one is a sample of its own. The Python files are parsed, never run: they give
the record that `records:` reads from a table, and all that is said there holds here.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, Final

from mindgap.corpus.program import Built, Program
from mindgap.corpus.records.forward_parser import read_forward
from mindgap.corpus.records.parquet import build_record
from mindgap.corpus.records.tensor_metadata import entries, read_meta
from mindgap.corpus.source import Source, SourceError, SourceOptions, one_line, source_options
from mindgap.corpus.type_guards import is_list, is_table

#: A folder with one of these is a sample, complete or not.
_MARKS: Final = frozenset({"model.py", "weight_meta.py", "graph_net.json"})


def open_graphnet(source: Source) -> list[Program]:
    """A program per sample in the folder, called by its path below it; one alone by its folder's name.

    Raises `SourceError`: no such folder, no sample in it. What is wrong with a sample is said when it is built.
    """
    chosen = source_options(source)
    suffix = source.text[len("graphnet:") + len(source.target) :]
    root = Path(source.target)
    programs: list[Program] = []
    for sample in _samples(root):
        name = sample.relative_to(root).as_posix() if sample != root else root.absolute().name
        programs.append(Program(name, f"graphnet:{sample}{suffix}", functools.partial(_build, root, sample, chosen)))
    return programs


def names(folder: str | Path) -> list[str]:
    """What may follow `graphnet:` for each sample below a folder. Raises `SourceError`."""
    return [str(sample) for sample in _samples(Path(folder))]


def _samples(root: Path) -> list[Path]:
    """The folders that are samples, in the order of their paths. Links are not followed."""
    if not root.is_dir():
        raise SourceError(f"{root}: no such folder")
    found = sorted(Path(folder) for folder, _, files in os.walk(root) if not _MARKS.isdisjoint(files))
    if not found:
        raise SourceError(f"{root}: no sample in it; a sample is a folder with model.py and weight_meta.py")
    return found


def _build(root: Path, sample: Path, chosen: SourceOptions) -> Built:
    return build_record(str(sample), functools.partial(read_sample, sample, root), chosen)


def read_sample(sample: Path, root: Path | None = None) -> dict[str, Any]:
    """The sample as a record: `inputs`, `nodes` and `outputs` in the form of a record file's row.

    Nothing outside `root` (the sample itself by default) is read. Raises `SourceError` with file and line.
    """
    _check_framework(_inside(sample / "graph_net.json", root or sample))
    forward = read_forward(_inside(sample / "model.py", root or sample))
    weights = _inside(sample / "weight_meta.py", root or sample)
    inputs = _inside(sample / "input_meta.py", root or sample)
    known = {**(read_meta(inputs) if inputs.is_file() else {}), **read_meta(weights)}
    made = entries(weights, forward.arguments, known)
    called = dict(zip(forward.arguments, (entry["name"] for entry in made), strict=True))
    nodes = [{**node, "args": _renamed(node["args"], called), "kwargs": _renamed(node["kwargs"], called)}
             for node in forward.nodes]  # fmt: skip
    return {"inputs": made, "nodes": nodes, "outputs": _renamed(forward.outputs, called)}


def _inside(path: Path, root: Path) -> Path:
    """The path itself. Raises `SourceError` where it is a link that leads out of the folder."""
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise SourceError(f"{path}: a link that leads out of {root}; copy the file there")
    return path


def _check_framework(path: Path) -> None:
    """Raise `SourceError` where the sample says that it is of another framework. It need not say."""
    if not path.is_file():
        return
    try:
        described = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{path}: not JSON: {one_line(error)}") from None
    framework = described.get("framework", "torch") if is_table(described) else None
    if framework != "torch":
        raise SourceError(f"{path}: its framework is {str(framework)[:40]}; only samples of torch can be run")


def _renamed(value: Any, called: dict[str, str]) -> Any:
    """A recorded value with its references to arguments as the record calls them."""
    if is_list(value):
        return [_renamed(item, called) for item in value]
    if not is_table(value):
        return value
    if set(value) == {"ref"} and isinstance(value["ref"], str):
        return {"ref": called.get(value["ref"], value["ref"])}
    return {key: _renamed(item, called) for key, item in value.items()}
