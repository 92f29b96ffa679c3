"""Implements `mindgap causes`: runs the reproducers of known causes again, and their programs on other platforms."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.diff import AsJson, Deadline, Jobs, seconds
from mindgap.cli.numbers import budget_left, finite
from mindgap.cli.progress import counting
from mindgap.cli.sources import subjects
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.graph import default_tensor_store
from mindgap.own_path.client import OwnPathClient
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical
from mindgap.results.settings import DEADLINE_S, OWN_PATH
from mindgap.source_worker.client import SourceClient
from mindgap.workflows.diff import DiffInterrupted, RunSettings, Session

if TYPE_CHECKING:
    from mindgap.findings.causes import Cause
    from mindgap_campaign.causes_check import Reproduction
    from mindgap_campaign.causes_siblings import ListedCauses, SiblingsOfCause

causes = typer.Typer(no_args_is_help=True, help="Root causes of findings: run them again, or on other platforms.")


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
    as_json: AsJson = False,
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


@causes.command()
def siblings(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="A directory with causes.json and scripts, or the file.")],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CAUSE…]", help="Ids, or parts of scripts' paths (default: all).")
    ] = None,
    platforms: Annotated[
        list[str] | None, typer.Option("-p", "--platform", metavar="PLATFORM", help="May repeat (default: all here).")
    ] = None,
    own_path: Annotated[
        bool, typer.Option("--own-path/--no-own-path", help="Also go the way of each platform's users, and compare.")
    ] = OWN_PATH,
    deadline: Deadline = DEADLINE_S,
    budget: Annotated[
        str | None, typer.Option(metavar="TIME", help="For everything together: 90s, 10m, 1h. The rest is counted.")
    ] = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> int:
    """Run the programs of each cause on platforms of other makes and say which have a fault there too.

    Exit status: 1 where one has, 0 where none has, 2 where none has and some did not run.

    Example: mindgap causes siblings docs/findings cpu-inductor/ -p onnxruntime/cpu -p cpu/jit
    """
    from mindgap_campaign.causes_siblings import ListedCauses

    left, settings = budget_left("--budget", budget) if budget else None, RunSettings(deadline_s=seconds(deadline))
    listed = ListedCauses.read(path)
    chosen = listed.chosen(names or [])
    wanted = [canonical(name) for name in platforms] if platforms else listed.makes()
    done: list[SiblingsOfCause] = []
    status = Exit.NOTHING_FOUND
    with result_stream() as out:
        try:
            for each in _searched(listed, chosen, wanted, settings, left, own_path, jobs):
                done.append(each)
                out.writelines([] if as_json else _lines(each))
                out.flush()
        except DiffInterrupted:
            status = Exit.INTERRUPTED
            complain(f"interrupted: {len(done)} of {len(chosen)} causes are done")
        counts = _counts(done)
        if as_json:
            out.write(json.dumps({"counts": counts, "causes": [asdict(each) for each in done]}, indent=1) + "\n")
        else:
            out.write(", ".join(f"{count:,} {name}" for name, count in counts.items()) + "\n")
    if status or counts["broken"]:
        return status or Exit.TOOL_FAILED
    if counts["siblings"]:
        return Exit.FINDINGS
    return Exit.WRONG_USE if counts["left out"] or counts["not run"] else Exit.NOTHING_FOUND


def _searched(
    listed: ListedCauses, chosen: Sequence[Cause], platforms: Sequence[PlatformName], settings: RunSettings,
    limit: float | None, own_path: bool, jobs: int | None,
) -> Iterator[SiblingsOfCause]:  # fmt: skip
    """Yields what each cause gave, one cause after another. `limit`: seconds for all. Raises `DiffInterrupted`."""
    from mindgap_campaign.causes_siblings import siblings_of

    tensors, began = default_tensor_store(), time.monotonic()
    with (
        Session(tensors=tensors, jobs=jobs) as session,
        SourceClient(tensors, settings.deadline_s) as client,
        OwnPathClient(settings.deadline_s) as exporting,
        TemporaryDirectory(prefix="mindgap-causes-") as folder,
        counting() as tick,
    ):
        opened = partial(subjects, options=(), client=client, own_path=exporting if own_path else None)
        for number, cause in enumerate(chosen, 1):
            left = replace(settings, budget_s=limit and max(limit - (time.monotonic() - began), 0.1))
            yield siblings_of(cause, listed, platforms, session, opened, left, Path(folder))
            tick(number, len(chosen), cause.findings[0].script)


def _counts(done: Sequence[SiblingsOfCause]) -> dict[str, int]:
    """Counts causes, rows and siblings."""
    words = sum((Counter(each.words) for each in done), Counter[str]())
    broken = words.pop("broken", 0)
    found = Counter(one.novelty for each in done for one in each.siblings)
    return {
        "causes": len(done), "left out": sum(len(each.left_out) for each in done), "rows": words.total(),
        "not run": words["not_run"], "unsupported": words["unsupported"], "broken": broken, "siblings": found.total(),
        **found,
    }  # fmt: skip


def _lines(each: SiblingsOfCause) -> Iterator[str]:
    """A line for each sibling of a cause, and for what did not run."""
    for one in each.siblings:
        near = f" ({', '.join(one.near[:2])})" if one.near else ""
        fault = f"{one.verdict}: {one.culprit or 'no operator'}{' of the reference' * (one.blame == 'reference')}"
        yield f"{one.novelty}: {each.script} on {one.platform}: {fault}{near}\n"
    yield from (f"left out: {each.script}: {reason}\n" for reason in each.left_out)
