"""Implements `mindgap platforms`, the list of platforms on this machine."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer

from mindgap.cli.streams import result_stream
from mindgap.cli.tables import console, plain_table


def platforms(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per platform, in a list.")] = False,
) -> None:
    """List every platform: there (in which environment, if not mindgap's own) or not and why, versions, hardware,
    options.

    Example: mindgap platforms --json
    """
    with result_stream() as out:
        from mindgap.platforms.listing import list_platforms

        found = list_platforms()
        if as_json:
            json.dump([dataclasses.asdict(info) for info in found], out, indent=1, default=str)
            out.write("\n")
            return
        table = plain_table("platform", "there", "versions, or why not", "hardware", "options")
        for info in found:
            versions = ", ".join(f"{name} {version}" for name, version in info.versions.items())
            yes = f"in {info.environment}" if info.environment else "yes"
            there = (yes, versions) if info.available else ("no", info.reason)
            hardware = ", ".join(filter(None, (info.hardware, info.execution)))
            table.add_row(info.platform, *there, hardware, ", ".join(info.options))
        console(out).print(table)
