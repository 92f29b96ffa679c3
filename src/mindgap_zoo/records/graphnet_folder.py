"""Opens `graphnet:DIR`: one sample in GraphNet's folder layout, or a tree of them.

A sample is a folder with `model.py` (the recorded calls, as the `forward` of a class) and `weight_meta.py` (a class
per tensor: shape, dtype, mean, deviation), usually also `input_meta.py` and `graph_net.json`. If the tracer had to
split a model, each part is a sample in a folder `subgraph_0`, `subgraph_1`, … The Python files are parsed and never
run. They give the same record as a row of a Parquet file (see `parquet`).
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any, Final

from mindgap.sources.program import Program
from mindgap.sources.source import Source, SourceError, one_line, source_options
from mindgap.sources.type_guards import is_list, is_table
from mindgap_zoo.records.forward_parser import read_forward
from mindgap_zoo.records.parquet import build_record
from mindgap_zoo.records.tensor_metadata import entries, read_meta

#: A folder with one of these is a sample, complete or not.
_MARKS: Final = frozenset({"model.py", "weight_meta.py", "graph_net.json"})


def open_graphnet(source: Source) -> list[Program]:
    """Returns a program per sample in the folder, named by its path below it; a single sample has its folder's name.

    Raises `SourceError` if there is no such folder or no sample in it. An error in a sample is raised when it is
    built.
    """
    chosen = source_options(source)
    suffix = source.text[len("graphnet:") + len(source.target) :]
    root = Path(source.target)
    programs: list[Program] = []
    for sample in _samples(root):
        name = sample.relative_to(root).as_posix() if sample != root else root.absolute().name
        build = functools.partial(build_record, str(sample), functools.partial(read_sample, sample, root), chosen)
        programs.append(Program(name, f"graphnet:{sample}{suffix}", build))
    return programs


def _samples(root: Path) -> list[Path]:
    """Returns the folders that are samples, sorted by path. Does not follow links."""
    if not root.is_dir():
        raise SourceError(f"{root}: no such folder")
    folders = sorted(Path(folder) for folder, _, files in os.walk(root) if not _MARKS.isdisjoint(files))
    if not folders:
        raise SourceError(f"{root}: no sample in it; a sample is a folder with model.py and weight_meta.py")
    return folders


def read_sample(sample: Path, root: Path | None = None) -> dict[str, Any]:
    """Returns the sample as a record: `inputs`, `nodes` and `outputs` in the form of a record file's row.

    Reads nothing outside `root` (by default the sample itself). Raises `SourceError` with file and line.
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
    """Returns the path. Raises `SourceError` if it is a link that leads out of the folder."""
    if path.is_symlink() and not path.resolve().is_relative_to(root.resolve()):
        raise SourceError(f"{path}: a link that leads out of {root}; copy the file there")
    return path


def _check_framework(path: Path) -> None:
    """Raises `SourceError` if the sample names a framework other than PyTorch. A sample without a framework passes."""
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
    """Returns a recorded value with its references to arguments renamed as in a record."""
    if is_list(value):
        return [_renamed(item, called) for item in value]
    if not is_table(value):
        return value
    if set(value) == {"ref"} and isinstance(value["ref"], str):
        return {"ref": called.get(value["ref"], value["ref"])}
    return {key: _renamed(item, called) for key, item in value.items()}
