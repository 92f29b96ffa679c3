"""Implements `mindgap study deviations --collect FILE [SOURCE…] [-p PLATFORM…]`."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mindgap.cli.numbers import seconds_of
from mindgap.cli.outputs import check_files
from mindgap.cli.sources import source_client, subjects
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.graph import MindgapError, TensorStore

if TYPE_CHECKING:
    from mindgap_studies.machines.observations import MachineObservations
    from mindgap_studies.machines.settings import Setting
    from mindgap_studies.machines.subjects import Runnable

#: Seconds for opening a source, and for a capture.
_DEADLINE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Collection:
    """What to collect. Without `sources`: the models of the study. Without `platforms`: the settings of `cpu/eager`.

    `options`: of the sources. None stands for the default.
    """

    path: Path
    sources: tuple[str, ...]
    platforms: tuple[str, ...]
    options: tuple[str, ...]
    samples: int | None
    probes: int | None
    quick: bool
    budget: str | None


def collect_machine(wanted: Collection) -> int:
    from mindgap_studies.machines.collecting import PROBES, collect

    check_files(("--collect", wanted.path))
    if not wanted.sources and (wanted.samples is not None or wanted.options):
        raise MindgapError("--samples and --set are for models of your own: name a SOURCE, as in timm:resnet18")
    if files := [each for each in wanted.sources if each.endswith(".json.zst")]:
        raise MindgapError(f"{files[0]} is a collected file, no model: to make tables of it, leave out --collect")
    if wanted.quick and wanted.sources and wanted.platforms:
        raise MindgapError("--quick chooses among the study's models and settings, and you named both: leave it out")
    budget_s = math.inf if wanted.budget is None else seconds_of("--budget", wanted.budget)
    settings = _settings(wanted)
    refused: list[str] = []
    with result_stream() as out:
        found = collect(
            wanted.path,
            lambda store: _runnables(wanted, store, refused),
            settings,
            complete=not wanted.quick,
            budget_s=budget_s,
            probes=PROBES if wanted.probes is None else wanted.probes,
            on_progress=_progress(),
        )
        out.write(_summary(wanted.path, found))
        left = len(settings) - len(found.settings)
        if left:
            out.write(f"{left} platforms are left: the same command goes on with them\n")
    return Exit.WRONG_USE if refused else Exit.NOTHING_FOUND


def _settings(wanted: Collection) -> tuple[Setting, ...]:
    from mindgap_studies.machines.settings import all_settings, given_settings, quick_settings

    if wanted.platforms:
        return given_settings(wanted.platforms)
    return quick_settings() if wanted.quick else all_settings()


def _runnables(wanted: Collection, store: TensorStore, refused: list[str]) -> list[Runnable]:
    """Returns what is to be run. Sources that cannot be captured are named on standard error, and in `refused`.

    Raises `MindgapError` where none can be captured.
    """
    from mindgap_studies.machines.subjects import full_suite, given_model, quick_suite

    if not wanted.sources:
        return (quick_suite if wanted.quick else full_suite)(store)
    found: dict[str, list[Runnable]] = {}
    reasons: list[str] = []
    with source_client(store, _DEADLINE_S, None) as client:
        for each in subjects(wanted.sources, wanted.options, client):
            if each.name in found:
                raise MindgapError(f"{each.name}: two sources have this name; models are told apart by it")
            try:
                found[each.name] = list(given_model(each.name, each.captured(), wanted.samples or 1, store))
            except MindgapError as error:
                reasons.append(str(error) if str(error).startswith(each.name) else f"{each.name}: {error}")
    if not found:
        raise MindgapError(f"nothing ran: {'; '.join(reasons) or 'the sources name no model'}")
    for reason in reasons:
        complain(f"refused: {reason}")
    refused += reasons
    return [each for runnables in found.values() for each in runnables]


def _summary(path: Path, observations: MachineObservations) -> str:
    """Says what the file holds: what ran, and what did not with the reason."""
    missing = {name: facts["unavailable"] for name, facts in observations.settings.items() if "unavailable" in facts}
    failed = [each for each in observations.observations if not each.classes]
    lines = [
        f"{path}: {path.stat().st_size / 1e3:.0f} kB, {observations.machine.name}: {len(observations.subjects)} "
        f"subjects on {len(observations.settings) - len(missing)} platforms ({len(missing)} not available here), "
        f"{len(failed)} runs failed or were refused"
    ]
    lines += [f"not available: {name}: {reason}" for name, reason in missing.items()]
    lines += [f"{each.status}: {each.subject} on {each.platform}: {each.message}" for each in failed]
    return "\n".join(lines) + "\n"


def _progress() -> Callable[[int, int, str], None]:
    started = time.monotonic()

    def tell(done: int, total: int, name: str) -> None:
        seconds = time.monotonic() - started
        print(f"{seconds:6.0f} s  {done:>3}/{total}  {name}", file=sys.stderr, flush=True)  # noqa: T201

    return tell
