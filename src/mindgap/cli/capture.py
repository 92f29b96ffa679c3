"""Implements `mindgap capture`, which writes a model as a graph file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mindgap.cli.report import write_file
from mindgap.cli.sources import with_options
from mindgap.cli.streams import result_stream
from mindgap.graph import Graph, MindgapError, default_tensor_store, digest

if TYPE_CHECKING:
    from mindgap.corpus import CaptureFailure


def capture(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="FILE.py:callable, timm:NAME, transformers:NAME, …")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where the graph goes.")],
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Of the source: size=64, batch=2, seed=1 …"),
    ] = None,
    backward: Annotated[
        bool, typer.Option("--backward", help="With the gradients, as a backend is handed them below autograd.")
    ] = False,
    optimizer: Annotated[
        str | None, typer.Option(metavar="sgd|adamw", help="A whole training step, gradients included.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was captured, as JSON.")] = False,
) -> None:
    """Capture a model as a portable graph, proven to replay it. Several models are numbered FILE-1, FILE-2, …

    Example: mindgap capture timm:resnet18 --set size=64 -o resnet18.graph
    """
    with result_stream() as out:
        from mindgap.corpus import capture_source
        from mindgap.graph import encode

        named = with_options(source, options or [])
        step = _optimizer(optimizer)
        found = list(capture_source(named, default_tensor_store(), backward=backward, optimizer=step))
        files = [output] if len(found) == 1 else [_numbered(output, n + 1) for n in range(len(found))]
        told: list[dict[str, Any]] = []
        for (name, graph), file in zip(found, files, strict=True):
            captured = _captured(name, graph)
            write_file(file, encode(captured))
            told.append(_told(name, captured, file))
        if as_json:
            json.dump(told, out, indent=1)
            out.write("\n")
            return
        for each in told:
            out.write(f"{each['file']}: {each['name']}, {each['nodes']} nodes, {each['operators']} operators\n")


def _optimizer(name: str | None) -> Literal["sgd", "adamw"] | None:
    if name is None or name == "sgd" or name == "adamw":
        return name
    raise MindgapError(f"--optimizer {name}: sgd or adamw")


def _captured(name: str, found: Graph | CaptureFailure) -> Graph:
    if isinstance(found, Graph):
        return found
    raise MindgapError(f"{name}: {found.reason}")


def _told(name: str, graph: Graph, file: Path) -> dict[str, Any]:
    counts = Counter(node.op for node in graph.nodes)
    return {
        "file": str(file),
        "name": name,
        "digest": digest(graph),
        "nodes": len(graph.nodes),
        "operators": len(counts),
        "inputs": [str(i.spec) for i in graph.inputs if i.role == "input"],
        "outputs": [str(graph.values[n]) for n in graph.outputs],
        "bytes": file.stat().st_size,
        "ops": dict(counts.most_common()),
    }


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}-{number}{path.suffix}")
