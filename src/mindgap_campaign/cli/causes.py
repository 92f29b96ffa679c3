"""Implements `mindgap causes`, which runs the reproducers of known causes again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.numbers import finite
from mindgap.cli.streams import Exit, complain, result_stream

if TYPE_CHECKING:
    from mindgap_campaign.causes_check import Reproduction

causes = typer.Typer(no_args_is_help=True, help="Root causes of findings: run their reproducers again.")


@causes.callback()
def _causes() -> None:
    """Keeps `check` a separate command."""


@causes.command()
def check(
    path: Annotated[
        Path, typer.Argument(metavar="LEDGER|DIR", help="A ledger, or a directory of scripts or with causes.json.")
    ],
    python: Annotated[
        str | None,
        typer.Option(
            "--python", metavar="PATH", help="One interpreter for all (default: of each platform's environment)."
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=1, callback=finite, help="How long one script may take.")] = 400.0,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Scripts at a time.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="The answers as JSON on standard output.")] = False,
) -> int:
    """Run each reproducer and say whether the fault is still there, is fixed, or cannot be checked.

    Exit status: 1 where a fault is still there, 0 where all are fixed, 2 where none is there and some could not be
    checked.

    Example: mindgap causes check docs/findings --python other/bin/python
    """
    from mindgap_campaign.causes_check import check_reproducers, counts, reproducers_of

    with result_stream() as stream:

        def show(each: Reproduction) -> None:
            if not as_json:
                stream.write(f"{each.answer}: {each.name}{f' ({each.reason})' if each.reason else ''}\n")
                stream.flush()

        reproductions = check_reproducers(
            reproducers_of(path), python=python, timeout_s=seconds, jobs=jobs, progress=show
        )
        total = counts(reproductions)
        if as_json:
            stream.write(
                json.dumps({"counts": total, "reproducers": [asdict(each) for each in reproductions]}, indent=1) + "\n"
            )
        else:
            stream.write(", ".join(f"{count} {answer}" for answer, count in total.items()) + "\n")
    if total["still there"]:
        return Exit.FINDINGS
    if total["not checked"]:
        complain(f"{total['not checked']} of {len(reproductions)} reproducers could not be checked")
        return Exit.WRONG_USE
    return Exit.NOTHING_FOUND
