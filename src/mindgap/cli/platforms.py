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
    """List every platform: there or not and why, versions, hardware, options.

    Example: mindgap platforms --json
    """
    with result_stream() as out:
        from mindgap.diff.platform_facts import every_platform

        facts = every_platform()
        if as_json:
            json.dump([dataclasses.asdict(fact) for fact in facts], out, indent=1, default=str)
            out.write("\n")
            return
        table = plain_table("platform", "there", "versions, or why not", "hardware", "options")
        for fact in facts:
            versions = ", ".join(f"{name} {version}" for name, version in fact.versions.items())
            there = ("yes", versions) if fact.available else ("no", fact.reason)
            table.add_row(fact.platform, *there, fact.hardware, ", ".join(fact.options))
        console(out).print(table)
