"""Implements `mindgap study deviations --collect FILE [SOURCE…] [-p PLATFORM…]`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mindgap.cli.numbers import seconds_of
from mindgap.cli.outputs import check_files
from mindgap.cli.progress import counting
from mindgap.cli.sources import source_client, subjects
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.graph import MindgapError, TensorStore

if TYPE_CHECKING:
    from mindgap_studies.machines.observations import MachineObservations
    from mindgap_studies.machines.subjects import Runnable

#: Seconds for opening a source, and for a capture.
_DEADLINE_S: Final = 300.0


def collect_machine(
    path: Path, sources: Sequence[str], platforms: Sequence[str], options: Sequence[str], samples: int | None,
    probes: int | None, quick: bool, budget: str | None,
) -> int:  # fmt: skip
    """Without `sources`: the models of the study. Without `platforms`: the settings of `cpu/eager`."""
    from mindgap_studies.machines.collecting import PROBES, collect
    from mindgap_studies.machines.settings import all_settings, given_settings, quick_settings

    check_files(("--collect", path))
    if not sources and (samples is not None or options):
        raise MindgapError("--samples and --set are for models of your own: name a SOURCE, as in timm:resnet18")
    if files := [each for each in sources if each.endswith(".json.zst")]:
        raise MindgapError(f"{files[0]} is a collected file, no model: to make tables of it, leave out --collect")
    if quick and sources and platforms:
        raise MindgapError("--quick chooses among the study's models and settings, and you named both: leave it out")
    budget_s = math.inf if budget is None else seconds_of("--budget", budget)
    settings = given_settings(platforms) if platforms else quick_settings() if quick else all_settings()
    refused: list[str] = []

    def subjects_of(store: TensorStore) -> list[Runnable]:
        from mindgap_studies.machines.subjects import full_suite, quick_suite

        if not sources:
            return (quick_suite if quick else full_suite)(store)
        return _given_models(sources, options, samples or 1, store, refused)

    with result_stream() as out:
        with counting() as tick:
            found = collect(
                path, subjects_of, settings, budget_s=budget_s, probes=PROBES if probes is None else probes,
                on_progress=tick,
            )  # fmt: skip
        out.write(_summary(path, found))
        left = len(settings) - len(found.settings)
        if left:
            out.write(f"{left} platforms are left: the same command goes on with them\n")
    return Exit.WRONG_USE if refused else Exit.NOTHING_FOUND


def _given_models(
    sources: Sequence[str], options: Sequence[str], samples: int, store: TensorStore, refused: list[str]
) -> list[Runnable]:
    """Returns what is to be run. Sources that cannot be captured are named on standard error, and in `refused`.

    Raises `MindgapError` where none can be captured.
    """
    from mindgap_studies.machines.subjects import given_model

    found: dict[str, list[Runnable]] = {}
    reasons: list[str] = []
    with source_client(store, _DEADLINE_S, None) as client:
        for each in subjects(sources, options, client):
            if each.name in found:
                raise MindgapError(f"{each.name}: two sources have this name; models are told apart by it")
            try:
                found[each.name] = list(given_model(each.name, each.captured(), samples, store))
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
