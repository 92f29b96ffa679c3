"""`mindgap campaign reduce`: each cause that a campaign found as a script that a vendor can run."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.cause_outputs import CauseOutputs, LedgerFile, SarifFile, UpdateLedger
from mindgap.cli.numbers import finite
from mindgap.cli.outputs import write_file
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.platforms.name import recorded

if TYPE_CHECKING:
    from mindgap_campaign.campaign.results.reduce import GroupReduction


def reduce(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the campaign.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where scripts, reports and the index go.")],
    words: Annotated[
        list[str] | None, typer.Option("--word", help="Only findings of this verdict; may repeat.")
    ] = None,
    platform: Annotated[str, typer.Option("-p", "--platform", metavar="PLATFORM", help="Only on this platform.")] = "",
    cases: Annotated[
        list[str] | None, typer.Option("--case", metavar="CASE", help="Only this case; may repeat.")
    ] = None,
    checks: Annotated[int, typer.Option(min=1, help="How often a platform may be tried for one finding.")] = 1000,
    seconds: Annotated[float, typer.Option(min=1, callback=finite, help="How long one reduction may take.")] = 120.0,
    most: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only N groups: wrong results first, and the most frequent.")
    ] = None,
    no_stage: Annotated[bool, typer.Option("--no-stage", help="Do not look for the stage at fault: faster.")] = False,
    no_condition: Annotated[
        bool, typer.Option("--no-condition", help="Do not look for what triggers a fault: up to 30 s faster for each.")
    ] = False,
    jobs: Annotated[int, typer.Option("-j", "--jobs", min=1, help="Reductions at a time.")] = 1,
    ledger: LedgerFile = None,
    update_ledger: UpdateLedger = False,
    sarif: SarifFile = None,
) -> int:
    """Reduce one case of each group of findings to a small program, and write a script that shows it without mindgap.

    Findings with one cause are one line of index.md and one entry of causes.json, worst first. With a ledger, each
    cause is new, known, or back. Exit status 1 where anything was reduced.

    Example: mindgap campaign reduce out/campaign --out out/findings -j 2
    """
    from mindgap.findings.reduction import ReductionLimits
    from mindgap.findings.reduction.files import summary_text
    from mindgap.graph import MindgapError
    from mindgap_campaign.campaign.results.reduce import (
        causes_of_groups,
        complete_platforms,
        index_text,
        reduce_groups,
    )
    from mindgap_campaign.campaign.state.directory import open_directory

    outputs = CauseOutputs.checked(out, ledger, update_ledger, sarif)
    opened, limits = open_directory(directory), ReductionLimits(checks, seconds, not no_stage)
    limits = replace(limits, condition_s=0.0) if no_condition else limits
    with result_stream() as stream:

        def show(each: GroupReduction) -> None:
            if each.summary is None:
                complain(f"not reduced: {each.group.case} on {each.group.platform}: {each.reason}")
            else:
                stream.write(f"{each.group.count} rows: {summary_text(each.summary, out)}\n")
                stream.flush()

        outcome = reduce_groups(
            opened,
            out,
            limits,
            words=words or (),
            platform=platform,
            cases=cases or (),
            most=most,
            jobs=jobs,
            progress=show,
        )
        chosen = () if words or most or cases else [recorded(platform)] if platform else opened.plan.platforms
        causes = outputs.write(causes_of_groups(outcome), complete_platforms(chosen, outcome))
        write_file(out / "index.md", index_text(causes, outcome))
        reduced = [each.summary for each in outcome if each.summary is not None]
        if not reduced:
            raise MindgapError("NOTHING WAS REDUCED: every group ended for the reason above")
        verified = sum(summary.verified for summary in reduced)
        scripts = f"{verified} of {len(reduced)} reproducers verified"
        states = "".join(
            f", {count} {state}" for state, count in Counter(cause.state for cause in causes).items() if state
        )
        stream.write(f"{len(causes)} causes{states} in {len(outcome)} groups; {scripts}: {out / 'index.md'}\n")
        return Exit.FINDINGS
