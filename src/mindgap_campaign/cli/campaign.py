"""Implements `mindgap campaign`: run, resume, add, status, judge, merge, export and import."""

from __future__ import annotations

import json
import os
import platform as machine
import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from mindgap.cli.numbers import finite
from mindgap.cli.outputs import check_directory, check_files, check_local
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.graph import MindgapError
from mindgap.graph.tensors import home
from mindgap_campaign.cli.campaign_view import print_status, running_line, watching

if TYPE_CHECKING:
    from mindgap_campaign.campaign.cases.case import CaseSourceFactory
    from mindgap_campaign.campaign.session import RunOptions, SessionPlace
    from mindgap_campaign.campaign.state.directory import CampaignDirectory
    from mindgap_campaign.campaign.state.status import CampaignStatus
    from mindgap_campaign.campaign.state.steps import StepTracker

campaign = typer.Typer(
    no_args_is_help=True, help="Variants of real graphs by the thousand, run on many platforms, and judged."
)
Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the campaign.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Support = Annotated[
    Path | None, typer.Option(metavar="STORE", help="What `mindgap coverage` knows (default: the user's).")
]
NoSupport = Annotated[bool, typer.Option("--no-support", help="Run what is known to be refused too, and ask nothing.")]
CoverageMinutes = Annotated[
    float | None,
    typer.Option(metavar="M", min=0, callback=finite, help="Minutes to ask each platform what it lacks (plan: 5)."),
]
NoCoverage = Annotated[bool, typer.Option("--no-coverage", help="Ask no platform; use what is known.")]
Ray = Annotated[
    str,
    typer.Option(metavar="ADDRESS", help="Run on the nodes of a Ray cluster: HOST:PORT, ray://HOST:PORT, or auto."),
]
Jobs = Annotated[int | None, typer.Option("-j", "--jobs", min=1, help="Workers at a time (default: one per core).")]


@campaign.command()
def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml|BUNDLE", help="A plan, or what `export` wrote elsewhere.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="A new directory (default: out/NAME-OF-THE-PLAN).")
    ] = None,
    store: Annotated[
        str, typer.Option(metavar="URL", help="Results go there (s3://BUCKET/NAME), not into the directory.")
    ] = "",
    shard: Annotated[str, typer.Option(metavar="i/n", help="Only every n-th block, from the i-th: 0/4.")] = "0/1",
    support: Support = None,
    no_support: NoSupport = False,
    coverage_minutes: CoverageMinutes = None,
    no_coverage: NoCoverage = False,
    ray: Ray = "",
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> int:
    """Begin a campaign and run it. May be killed at any moment: `resume` goes on.

    Platforms are asked first which of the campaign's operator calls they refuse, unless that is known.

    Example: mindgap campaign run campaign.toml --out out/campaign
    """
    from mindgap_campaign.campaign.cases.bundle import is_bundle, plan_of
    from mindgap_campaign.campaign.cases.case import Shard
    from mindgap_campaign.campaign.plan import read_plan

    part = Shard.parse(shard)
    bundled = plan.is_file() and is_bundle(plan)
    meant, text = plan_of(plan) if bundled else read_plan(plan)
    where = Path("out") / plan.stem if out is None else out
    check_local("--out", where, "give the URL of the results by --store")
    check_directory("--out", where)
    with result_stream() as stream:
        with _shown() as steps:
            from mindgap_campaign.campaign.cases.bundle import BundleSourceFactory
            from mindgap_campaign.campaign.session import begin

            options = _survey_options(jobs, steps, support, no_support, coverage_minutes, no_coverage)
            source: CaseSourceFactory = BundleSourceFactory(plan) if bundled else _catalogue_source(jobs, steps)
            here = re.sub(r"[^A-Za-z0-9_.]+", "_", machine.node()) if bundled else ""
            outcome = begin(
                meant, text, where, source, shard=part, where=here, options=replace(options, store_url=store),
                place=_place(ray),
            )  # fmt: skip
        return _print_end(outcome, where, stream, as_json)


@campaign.command()
def resume(directory: Directory, ray: Ray = "", jobs: Jobs = None, as_json: AsJson = False) -> int:
    """Run what a campaign has not finished, after a kill or a stop.

    Example: mindgap campaign resume out/campaign
    """
    from mindgap_campaign.campaign.state.directory import open_directory

    folder = open_directory(directory)
    with result_stream() as stream:
        with _shown() as steps:
            from mindgap_campaign.campaign.session import resume_campaign

            source, options = _source_of(folder, jobs, steps), _run_options(jobs, steps)
            outcome = resume_campaign(directory, source, options=options, place=_place(ray))
        return _print_end(outcome, directory, stream, as_json)


@campaign.command()
def add(
    directory: Directory,
    platforms: Annotated[list[str], typer.Argument(metavar="PLATFORM…", help="Platforms that it does not have yet.")],
    variants: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Of each, the N cases with most that is new (default: all).")
    ] = None,
    cpu_minutes: Annotated[
        float | None,
        typer.Option(metavar="M", min=0.001, callback=finite, help="Of each, as many as fit into M minutes."),
    ] = None,
    batch: Annotated[int, typer.Option(metavar="N", min=1, help="Cases that are compiled at once.")] = 1,
    support: Support = None,
    no_support: NoSupport = False,
    coverage_minutes: CoverageMinutes = None,
    no_coverage: NoCoverage = False,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> int:
    """Run the cases of a finished campaign on further platforms, in the same run and against the same reference.

    May be killed like `run`: once cases run, `resume` goes on.

    Example: mindgap campaign add out/campaign onnxruntime/cpu 'cuda/eager@host=box'
    """
    from mindgap_campaign.campaign.plan import platform_plans
    from mindgap_campaign.campaign.state.directory import open_directory

    folder = open_directory(directory)
    added = platform_plans(platforms, variants=variants, cpu_minutes=cpu_minutes, batch=batch)
    with result_stream() as stream:
        with _shown() as steps:
            from mindgap_campaign.campaign.session import add_platforms

            options = _survey_options(jobs, steps, support, no_support, coverage_minutes, no_coverage)
            outcome = add_platforms(directory, added, _source_of(folder, jobs, steps), options=options)
        return _print_end(outcome, directory, stream, as_json)


def begin_or_resume(plan: Path, directory: Path, jobs: int) -> CampaignStatus:
    """Runs the plan's campaign without a support survey; goes on where the directory holds it already."""
    from mindgap_campaign.campaign.plan import read_plan
    from mindgap_campaign.campaign.session import begin, resume_campaign

    meant, text = read_plan(plan)
    with _shown() as steps:
        source, options = _catalogue_source(jobs, steps), _run_options(jobs, steps)
        if directory.exists():
            return resume_campaign(directory, source, options=options)
        return begin(meant, text, directory, source, options=options)


@campaign.command()
def status(directory: Directory, as_json: AsJson = False) -> int:
    """Show the status of a campaign: running, killed or finished. Reads files and runs nothing.

    Example: mindgap campaign status out/campaign --json
    """
    from mindgap_campaign.campaign.state.directory import open_directory
    from mindgap_campaign.campaign.state.status import campaign_status, starting

    with result_stream() as stream:
        session = starting(directory)
        if session is None:
            _print(campaign_status(open_directory(directory)), stream, as_json)
        elif as_json:
            stream.write(json.dumps({"state": "running", "running": asdict(session)}, indent=1) + "\n")
        else:
            stream.write(running_line(session) + "\n")
        return Exit.NOTHING_FOUND


@campaign.command()
def judge(
    directory: Directory,
    words: Annotated[
        list[str] | None,
        typer.Option("--word", help="Only rows of this verdict; may repeat (default: all but failed)."),
    ] = None,
    platform: Annotated[
        str, typer.Option("-p", "--platform", metavar="PLATFORM", help="Only rows on this platform.")
    ] = "",
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> int:
    """Run and judge a campaign's findings again, after the judge has been improved; the new rows replace the old.

    Example: mindgap campaign judge out/campaign --word discrepant
    """
    with result_stream() as stream:
        with _shown() as steps:
            from mindgap_campaign.campaign.rejudge import judge_again

            changed = judge_again(directory, words or (), platform, options=_run_options(jobs, steps))
        counts = [{"before": old, "now": new, "rows": count} for (old, new), count in sorted(changed.items())]
        if as_json:
            stream.write(json.dumps(counts, indent=1) + "\n")
        else:
            stream.writelines(f"{each['rows']:>7,}  {each['before']} -> {each['now']}\n" for each in counts)
        return Exit.NOTHING_FOUND


@campaign.command()
def merge(
    directory: Directory,
    others: Annotated[list[Path], typer.Argument(metavar="OTHER…", help="Other shards of the same campaign.")],
    as_json: AsJson = False,
) -> int:
    """Copy the results of other shards into a campaign. Merging twice changes nothing more.

    Example: mindgap campaign merge out/shard0 out/shard1 out/shard2
    """
    from mindgap_campaign.campaign.state.directory import open_directory
    from mindgap_campaign.campaign.state.status import campaign_status

    with result_stream() as stream:
        folder = open_directory(directory)
        for other in others:
            run = open_directory(other).run
            if run != folder.run:
                raise MindgapError(f"{other} is another campaign ({run}, not {folder.run}): its plan or cases differ")
        store = folder.store
        for other in others:
            merged = store.merge(open_directory(other).store)
            complain(f"{other}: {merged.segments} segments and {merged.graphs} graphs were new")
        _print(campaign_status(folder), stream, as_json)
        return Exit.NOTHING_FOUND


@campaign.command("export")
def export_(
    directory: Directory,
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="The file to write (a zip file).")],
    platforms: Annotated[
        list[str] | None,
        typer.Option("-p", "--platform", metavar="PLATFORM", help="To run there, instead of the plan's. May repeat."),
    ] = None,
) -> int:
    """Write the cases that have run into one file, for `mindgap campaign run FILE` without network or catalogue.

    Example: mindgap campaign export out/campaign cases.bundle -p cuda/eager
    """
    from mindgap_campaign.campaign.state.bundle_transfer import export
    from mindgap_campaign.campaign.state.directory import open_directory
    from mindgap_campaign.campaign.state.steps import StepTracker

    check_files(("BUNDLE", bundle))
    with result_stream() as stream:
        folder = open_directory(directory)
        source = _source_of(folder, None, StepTracker())
        exported = export(folder, source.reopen(folder.plan, folder.path), bundle, platforms or ())
        stream.write(f"{bundle}: {exported.cases} cases, {exported.nbytes:,} bytes\n")
        return Exit.NOTHING_FOUND


@campaign.command("import")
def import_(
    directory: Directory,
    parts: Annotated[
        list[str],
        typer.Argument(
            metavar="DIR|URL|PARQUET…", help="A campaign or store written elsewhere, or segments of tables."
        ),
    ],
) -> int:
    """Import results of another machine: every platform there, compared with the reference there.

    Example: mindgap campaign import out/campaign from-the-other-machine/
    """
    from mindgap_campaign.campaign.state.bundle_transfer import import_results
    from mindgap_campaign.campaign.state.directory import open_directory

    with result_stream() as stream:
        merged = import_results(open_directory(directory), parts)
        stream.write(f"{directory}: {merged.segments} segments and {merged.graphs} graphs were new\n")
        return Exit.NOTHING_FOUND


@contextmanager
def _shown() -> Generator[StepTracker]:
    """What a session does, shown from its first second: importing PyTorch takes several on a busy machine."""
    from mindgap_campaign.campaign.state.steps import StepTracker

    # Operators that are deprecated are run on purpose; PyTorch reads this when it is imported.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    steps = StepTracker("importing PyTorch")
    with watching(steps):
        yield steps


def _place(ray: str) -> SessionPlace:
    """Returns where a session runs: on the cluster at this address, or on this machine without one."""
    from mindgap_campaign.campaign.session import THIS_MACHINE

    if not ray:
        return THIS_MACHINE
    from mindgap_campaign.campaign.cluster_session import RayCluster

    return RayCluster(ray)


def _catalogue_source(jobs: int | None, steps: StepTracker) -> CaseSourceFactory:
    from mindgap_campaign.campaign.variant_source_factory import VariantSourceFactory

    return VariantSourceFactory(jobs, steps, complain)


def _source_of(folder: CampaignDirectory, jobs: int | None, steps: StepTracker) -> CaseSourceFactory:
    """Where the cases of a campaign that has begun come from."""
    from mindgap_campaign.campaign.cases.bundle import BundleSourceFactory

    return BundleSourceFactory(folder.bundle) if folder.bundle is not None else _catalogue_source(jobs, steps)


def _run_options(jobs: int | None, steps: StepTracker) -> RunOptions:
    from mindgap_campaign.campaign.session import RunOptions

    return RunOptions(jobs=jobs, steps=steps, notify=complain, whole_process=True)


def _survey_options(
    jobs: int | None, steps: StepTracker, support: Path | None, no_support: bool, minutes: float | None,
    no_coverage: bool,
) -> RunOptions:  # fmt: skip
    """Returns the options of a session that surveys its platforms first."""
    known = None if no_support else support or home() / "support"
    return replace(_run_options(jobs, steps), support=known, coverage_minutes=0.0 if no_coverage else minutes)


def _print_end(status: CampaignStatus, directory: Path, out: TextIO, as_json: bool) -> int:
    """The end of a session: its figures, what must not be overlooked, the exit status."""
    from mindgap_campaign.campaign.state.status import warnings_of

    _print(status, out, as_json)
    if status.stopped:
        complain(f"stopped: {status.stopped}; `mindgap campaign resume {directory}` goes on")
    unjudged = status.totals.words.get("unjudged", 0)
    if unjudged:
        complain(f"{unjudged} differences were not judged within the plan's limits: nothing is known of them")
    nothing = warnings_of(status)
    if status.totals.broken:
        complain(f"{status.totals.broken} rows were not judged because mindgap failed on them")
    if nothing:
        raise MindgapError("; ".join(nothing))
    if status.totals.broken:
        return Exit.TOOL_FAILED
    return Exit.FINDINGS if status.totals.findings else Exit.NOTHING_FOUND


def _print(status: CampaignStatus, out: TextIO, as_json: bool) -> None:
    if as_json:
        out.write(status.to_json() + "\n")
    else:
        print_status(status, out)
    sys.stderr.flush()
