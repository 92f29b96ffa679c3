"""Implements `mindgap bisect`, which finds the release from which on a model shows a fault."""

from __future__ import annotations

from typing import Annotated, Final, TextIO

import typer
from rich.text import Text

from mindgap.cli.diff import AsJson, Deadline, Options, seconds
from mindgap.cli.progress import progress
from mindgap.cli.sources import CaptureEnv, Inside, OnlyPlatform, capture_options, source_client, subjects
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.cli.tables import Lines, RowLine, print_rows
from mindgap.cli.trace import json_text
from mindgap.graph import MindgapError, default_tensor_store
from mindgap.own_path.client import OwnPathClient
from mindgap.platforms.registry import canonical
from mindgap.report.words import word_text
from mindgap.results.settings import DEADLINE_S, RunSettings
from mindgap.workflows.diff.session import Session
from mindgap_diagnosis.versions.bisection import Bisection, VersionRuns, bisect_versions, one_program
from mindgap_diagnosis.versions.releases import between, package_of, plain_version, plan, releases

#: MB of environments that are made without --yes.
_MUCH_MB: Final = 1000.0


def bisect(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="As for mindgap diff; a model file too.")],
    platforms: OnlyPlatform,
    good: Annotated[str, typer.Option(metavar="VERSION", help="A release that is right.")],
    bad: Annotated[str, typer.Option(metavar="VERSION", help="A release that shows the fault.")],
    package: Annotated[
        str | None, typer.Option(metavar="NAME", help="Whose releases (default: the runtime's, else torch).")
    ] = None,
    extra: Annotated[
        list[str] | None, typer.Option("--with", metavar="REQUIREMENT", help="Also install this; may repeat.")
    ] = None,
    reference: Annotated[str, typer.Option(metavar="PLATFORM", help="As for mindgap diff.")] = "cpu/eager",
    options: Options = None,
    capture_env: CaptureEnv = None,
    inside: Inside = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the releases and what it may take.")] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help=f"Also where environments may take more than {_MUCH_MB:.0f} MB.")
    ] = False,
    as_json: AsJson = False,
    deadline: Deadline = DEADLINE_S,
) -> int:
    """Find the release of a runtime, or of PyTorch, from which on a model shows a fault. Each release is installed in
    an environment, which is kept, and gets a verdict. One that cannot be installed or run is skipped.

    Exit status: 1 where the first bad release is named; 0 where the good one is newer, and the first good one is named;
    2 where the two releases are alike, or cannot be run.

    Example: mindgap bisect model.onnx -p onnxruntime/cpu --good 1.23.2 --bad 1.26.0
    """
    platform, base = canonical(platforms[0]), canonical(reference)
    if platform.environment or platform.host:
        raise MindgapError(f"platform {platform}: bisect makes its environments: leave out env= and host=")
    if platform.is_import_path:
        raise MindgapError(f"platform {platform}: bisect takes platforms that `mindgap platforms` lists")
    chosen = package_of(platform.device_mode, package, tuple(extra or ()))
    versions = between(chosen.name, releases(chosen.name), good, bad)
    expected, megabytes = plan(chosen, versions)
    complain(f"{chosen.name} {versions[0]} to {versions[-1]}: {expected}")
    if "+" in chosen.own_version:
        complain(f"the build here, {chosen.name} {chosen.own_version}, may be smaller than those of the index")
    if dry_run:
        with result_stream() as out:
            out.write(f"{' '.join(versions)}\n")
        return Exit.NOTHING_FOUND
    if megabytes > _MUCH_MB and not yes:
        raise MindgapError(f"environments may take {megabytes:.0f} MB: repeat the command with --yes")
    settings = RunSettings(base, deadline_s=seconds(deadline))
    tensors = default_tensor_store()
    with result_stream() as out:
        with (
            progress() as tell,
            source_client(tensors, settings.deadline_s, capture_env) as client,
            OwnPathClient(settings.deadline_s, where=client.where) as exporting,
            Session(tensors=tensors) as session,
        ):
            wanted = [*(options or []), *capture_options(inside, False, None)]
            programs = one_program(subjects([source], wanted, client, False, exporting))
            runs = VersionRuns(session, programs, platform, chosen, settings, tell, complain)
            result = bisect_versions(runs, versions, plain_version(good) == plain_version(versions[-1]))
        out.write(json_text(result.as_json())) if as_json else _print(result, out)
    kept = [each.environment for each in result.tried if each.environment]
    if kept:
        complain(f"environments kept: {', '.join(kept)} (mindgap env remove NAME deletes one)")
    return Exit.NOTHING_FOUND if result.mended else Exit.FINDINGS


def _print(result: Bisection, out: TextIO) -> None:
    lines = Lines(out)
    lines.put(Text(f"{result.model} on {result.platform}, releases of {result.package}", style="bold"))
    styles, rows = {"good": "green", "bad": "bold red", "skipped": "yellow"}, list[RowLine]()
    for each in result.tried:
        words = ", ".join(filter(None, (each.state, word_text(each.word))))
        rows.append(RowLine(each.version, Text(words, styles[each.state]), each.remark))
    print_rows(lines, rows)
    (bad,) = (each for each in result.tried if each.version == result.first_bad)
    what = ", ".join(filter(None, (word_text(bad.word), bad.culprit or bad.size)))
    maybe = f"; or {' or '.join(result.unsure)}, which could not be run" if result.unsure else ""
    sentence = f"first bad release: {result.package} {bad.version}{maybe}: {what} (last good: {result.last_good})"
    if result.mended:
        sentence = f"mended in {result.package} {result.last_good}{maybe} (last bad: {bad.version}, {what})"
    lines.put(Text(sentence, style="bold"))
