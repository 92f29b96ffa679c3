"""Implements `mindgap selftest`, which measures how many injected faults mindgap finds."""

from __future__ import annotations

from typing import Annotated

import typer

from mindgap.cli.progress import counting
from mindgap.cli.streams import Exit, result_stream


def selftest(
    quick: Annotated[bool, typer.Option("--quick", help="A sample of the faults, within a minute.")] = False,
    seed: Annotated[int, typer.Option(help="Of the sample and of the graphs' inputs.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Faults, recall, culprit accuracy, false alarms.")] = False,
) -> int:
    """Inject faults into real graphs and see that each is found, traced to its operator, and nothing else is.

    The exit status is 0 when all of that holds, and 3, mindgap's own failure, when it does not.

    Example: mindgap selftest --quick
    """
    with result_stream() as out:
        from mindgap_campaign.selftest import run

        with counting() as tell:
            result = run(quick=quick, seed=seed, progress=tell)
        out.write((result.to_json() if as_json else result.to_text()) + "\n")
    return Exit.NOTHING_FOUND if result.passed else Exit.TOOL_FAILED
