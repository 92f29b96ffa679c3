"""Implements `mindgap stress`: `diff` over sets of arguments that are derived from the given ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from mindgap.cli.diff import AsJson, Deadline, Html, Junit, Options, diff, seconds
from mindgap.cli.outputs import make_directory
from mindgap.cli.sources import CaptureEnv, only_program, source_client, with_options
from mindgap.cli.streams import complain
from mindgap.graph import MindgapError, default_tensor_store, materialise
from mindgap.results.settings import DEADLINE_S


def stress(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="As for mindgap diff; it names one model.")],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="DEVICE/MODE[@key=value,…]; may repeat.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the sets are kept, a file each.")] = Path("stress"),
    reference: Annotated[
        str, typer.Option(metavar="PLATFORM", help="What the others are compared with.")
    ] = "cpu/eager",
    options: Options = None,
    capture_env: CaptureEnv = None,
    own_path: Annotated[bool, typer.Option("--own-path/--no-own-path", help="As for mindgap diff.")] = True,
    as_json: AsJson = False,
    html: Html = None,
    junit: Junit = None,
    deadline: Deadline = DEADLINE_S,
) -> int:
    """Compare a model on its arguments, and on sets derived from them: constant areas, zeros, one large channel,
    eight times as large, a picture, sorted, repeated tokens, padded rows.

    Real data has these, and random numbers have not. One verdict for each platform over all sets, of the worst; the
    detail names the set. Exit status: as for mindgap diff.

    Example: mindgap stress model.py:make -p onnxruntime/cpu
    """
    # Imported late: other commands need no PyTorch.
    from mindgap_diagnosis.stress import derived_sets, standard_normal

    if "inputs=" in source or any(each.startswith("inputs=") for each in options or []):
        raise MindgapError("mindgap stress derives sets from the arguments that SOURCE gives: leave inputs=FILE out")
    tensors = default_tensor_store()
    with source_client(tensors, seconds(deadline), capture_env) as client:
        graph = client.capture(only_program(client, with_options(source, options or [])), 0)
    names = graph.labels.inputs or tuple(f"arr_{n}" for n in range(len(graph.inputs)))
    named = zip(names, graph.inputs, strict=True)
    given = {name: materialise(one, tensors) for name, one in named if one.role == "input"}
    for name, array in given.items():
        if array.dtype.isbuiltin != 1:
            raise MindgapError(f"{source}: argument {name} is of {array.dtype}, which .npz files do not hold")
    if standard_normal(given):
        complain("note: all floats among the arguments are standard normal. Real ones differ: --inputs of mindgap diff")
    sets = derived_sets(given)
    if len(sets) == 1:
        raise MindgapError(f"{source}: no set can be derived from its arguments: none is a tensor with a dimension")
    make_directory(out)
    files = [out / f"{name}.npz" for name in sets]
    for file, arrays in zip(files, sets.values(), strict=True):
        np.savez(file, allow_pickle=False, **arrays)
    return diff(
        [source], platforms, reference, options, capture_env, as_json=as_json, html=html, junit=junit,
        inputs=[str(file) for file in files], own_path=own_path, deadline=deadline,
    )  # fmt: skip
