"""Implements `mindgap cache`, which shows and empties the cache of weights and inputs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from mindgap.cli.streams import complain, result_stream
from mindgap.graph.tensor_cache import LIMIT, trim, usage
from mindgap.graph.tensors import home


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Remove all tensors that no running process uses.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Show the size and the place of the cache of weights and inputs (MINDGAP_HOME), and its limit (MINDGAP_CACHE_GIB).

    The least recently used tensors are removed when a command ends and the cache is above its limit. FILE.graph needs
    its tensors in the cache; FILE.mindgap holds them itself.

    Example: mindgap cache --clear
    """
    folder = home() / "tensors"
    removed = trim(folder, 0) if clear else 0
    usage_now = usage(folder)
    with result_stream() as out:
        if as_json:
            about = {"directory": str(folder), **asdict(usage_now), "removed": removed}
            out.write(json.dumps(about, indent=1) + "\n")
            return
        if clear:
            out.write(f"removed {_size(removed)}\n")
        out.write(
            f"{folder}: {_size(usage_now.nbytes)} in {usage_now.files:,} files, "
            f"at most {usage_now.limit / (1 << 30):g} GiB ({LIMIT})\n"
        )
    if clear and usage_now.files:
        complain(f"{usage_now.processes} running processes use the cache: {_size(usage_now.nbytes)} stay")


def _size(nbytes: int) -> str:
    return f"{nbytes / (1 << 30):.2f} GiB" if nbytes >= 1 << 30 else f"{nbytes / (1 << 20):.1f} MiB"
