"""Implements `mindgap capture`, which writes a model as a graph file."""

from __future__ import annotations

import json
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from mindgap.cli.diff import seconds
from mindgap.cli.outputs import check_files, write_file
from mindgap.cli.sources import CaptureEnv, Inside, Steps, TakenPath, Text, capture_options, source_client, with_options
from mindgap.cli.streams import result_stream
from mindgap.graph import Graph, MindgapError, ModelFile, default_tensor_store, digest, encode, write_model
from mindgap.graph.model_file import SUFFIX


def capture(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="FILE.py:callable, timm:NAME, transformers:NAME, …")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where the graph goes.")],
    options: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="OPTION=VALUE", help="Of the source: size=64, batch=2, seed=1 …"),
    ] = None,
    capture_env: CaptureEnv = None,
    inside: Inside = None,
    path_taken: TakenPath = False,
    steps: Steps = None,
    text: Text = None,
    backward: Annotated[
        bool, typer.Option("--backward", help="With the gradients, as a backend is handed them below autograd.")
    ] = False,
    optimizer: Annotated[
        str | None, typer.Option(metavar="sgd|adamw", help="A whole training step, gradients included.")
    ] = None,
    deadline: Annotated[
        float, typer.Option(metavar="SECONDS", help="For opening the source, and for each capture.")
    ] = 300.0,
    no_weights: Annotated[
        bool, typer.Option("--no-weights", help="Leave weights and inputs out of a .mindgap file.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="What was captured, as JSON.")] = False,
) -> None:
    """Capture a model as one file that runs on another machine: `mindgap diff FILE.mindgap`.

    A FILE.mindgap holds the graph, the weights and the inputs; any other name gets the graph alone, whose tensors stay
    in this machine's cache. Replaying the graph gives the model's bits. Several models are numbered FILE-1, FILE-2, …

    Example: mindgap capture timm:resnet18 --set size=64 -o resnet18.mindgap
    """
    check_files(("--output", output))
    travels = output.suffix == SUFFIX
    if no_weights and not travels:
        raise MindgapError(f"--no-weights is for FILE{SUFFIX}: {output.name} holds no weights anyway")
    deadline = seconds(deadline)
    tensors = default_tensor_store()
    with result_stream() as out, source_client(tensors, deadline, capture_env) as client:
        step = _optimizer(optimizer)
        opened = client.open(
            with_options(source, [*(options or []), *capture_options(inside, path_taken, steps, text)])
        )
        count = len(opened.programs)
        numbered = [output.with_name(f"{output.stem}-{n + 1}{output.suffix}") for n in range(count)]
        files = numbered if count > 1 else [output]
        records: list[dict[str, Any]] = []
        for index, (one, file) in enumerate(zip(opened.programs, files, strict=True)):
            graph = client.capture(opened, index, backward=backward, optimizer=step)
            if travels:
                made_by = {"mindgap": version("mindgap"), "torch": version("torch")}
                write_model(file, ModelFile(one.name, source, graph, made_by), tensors, weights=not no_weights)
            else:
                write_file(file, encode(graph))
            records.append(_graph_record(one.name, graph, file))
        if as_json:
            json.dump(records, out, indent=1)
            out.write("\n")
            return
        for each in records:
            out.write(f"{each['file']}: {each['name']}, {each['nodes']} nodes, {each['operators']} operators\n")


def _optimizer(name: str | None) -> Literal["sgd", "adamw"] | None:
    if name is None or name == "sgd" or name == "adamw":
        return name
    raise MindgapError(f"--optimizer {name}: sgd or adamw")


def _graph_record(name: str, graph: Graph, file: Path) -> dict[str, Any]:
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
