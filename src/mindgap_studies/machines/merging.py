"""Merges the observations of several machines into one set of platforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindgap.platforms.name import PlatformName, recorded
from mindgap_studies.equivalence.prefix_digests import Prefixes
from mindgap_studies.machines.collected_file import CollectedFileError, content_digest, read
from mindgap_studies.machines.observations import Deviating, Machine, MachineObservations, Observation, ObservedSubject


@dataclass(frozen=True, slots=True)
class MachinePlatform:
    """A platform of one machine. `machine`: its name, with `#2` for the second file of such a machine."""

    machine: str
    platform: PlatformName


@dataclass(frozen=True)
class SubjectColumn:
    """A subject on every platform that ran it. `prefixes`: for each value of the subject, one entry per platform.

    An entry is None where the platform does not show an inner value; `hidden` has the reason. `failed`: platforms that
    did not run it, with the status and the reason. `nondeterministic`: those whose repeated runs differ; their first
    run counts.
    """

    subject: ObservedSubject
    platforms: tuple[MachinePlatform, ...]
    prefixes: Mapping[int, tuple[Prefixes | None, ...]]
    failed: tuple[tuple[MachinePlatform, str, str], ...]
    nondeterministic: tuple[MachinePlatform, ...]
    hidden: Mapping[MachinePlatform, str]

    def output(self, number: int) -> tuple[Prefixes, ...]:
        """Returns the entries of an output, which every platform shows."""
        return tuple(each for each in self.prefixes[number] if each is not None)


@dataclass(frozen=True)
class MergedMachines:
    """All machines' observations. Mappings by machine have the names of `MachinePlatform.machine`."""

    machines: Mapping[str, Machine]
    settings: Mapping[MachinePlatform, Mapping[str, Any]]
    columns: Mapping[str, SubjectColumn]
    deviating: Mapping[str, tuple[Deviating, ...]]

    def of(self, experiment: str) -> tuple[SubjectColumn, ...]:
        """Returns the columns of an experiment that at least one platform ran."""
        return tuple(c for c in self.columns.values() if c.subject.experiment == experiment and c.platforms)


def read_and_merge(paths: Sequence[Path]) -> MergedMachines:
    """Reads files of `write` and merges them.

    Raises `CollectedFileError` for a file that cannot be read, that is given twice (also as a copy), or in which a
    subject of some name is another graph than in the files before.
    """
    if not paths:
        raise CollectedFileError("no files of observations: give at least one")
    files: dict[str, MachineObservations] = {}
    seen: dict[str, Path] = {}
    graphs: dict[str, tuple[object, Path]] = {}
    for path in paths:
        collected = read(path)
        content = content_digest(collected)
        if content in seen:
            raise CollectedFileError(f"{path} holds the same observations as {seen[content]}: give it once")
        seen[content] = path
        for subject in collected.subjects:
            graph = subject.digest, tuple(value.number for value in subject.values)
            known, other = graphs.setdefault(subject.name, (graph, path))
            if known != graph:
                raise CollectedFileError(
                    f"{path} has another model set than {other}: {subject.name} is another graph there. Collect both "
                    "with one version of mindgap and torch"
                )
        name = _unused(collected.machine.name, files)
        files[name] = collected
    return merged(files)


def merged(files: Mapping[str, MachineObservations]) -> MergedMachines:
    """Merges observations. `files`: by the machine's name, with subjects of one name alike."""
    subjects: dict[str, ObservedSubject] = {}
    for collected in files.values():
        for subject in collected.subjects:
            subjects.setdefault(subject.name, subject)
    return MergedMachines(
        machines={name: collected.machine for name, collected in files.items()},
        settings={
            MachinePlatform(name, recorded(platform)): facts
            for name, collected in files.items()
            for platform, facts in collected.settings.items()
        },
        columns=_columns(subjects, files),
        deviating={name: collected.deviating for name, collected in files.items()},
    )


def _columns(
    subjects: Mapping[str, ObservedSubject], files: Mapping[str, MachineObservations]
) -> dict[str, SubjectColumn]:
    seen: dict[str, list[_Seen]] = {name: [] for name in subjects}
    for machine, collected in files.items():
        for each in collected.observations:
            seen[each.subject].append((MachinePlatform(machine, each.platform), each, collected.prefixes))
    return {name: _column(subject, seen[name]) for name, subject in subjects.items()}


#: An observation of a subject, and the digests of the classes on its machine.
_Seen = tuple[MachinePlatform, Observation, Mapping[tuple[str, int], tuple[Prefixes, ...]]]


def _column(subject: ObservedSubject, seen: Sequence[_Seen]) -> SubjectColumn:
    ran = [each for each in seen if each[1].classes]

    def entries(place: int, value: int) -> tuple[Prefixes | None, ...]:
        numbers = [(each.classes[place], prefixes) for _, each, prefixes in ran]
        return tuple(None if n is None else prefixes[subject.name, value][n] for n, prefixes in numbers)

    return SubjectColumn(
        subject,
        tuple(where for where, _, _ in ran),
        {value.number: entries(place, value.number) for place, value in enumerate(subject.values)},
        tuple((where, each.status, each.message) for where, each, _ in seen if not each.classes),
        tuple(where for where, each, _ in ran if each.status == "nondeterministic"),
        {where: each.message for where, each, _ in ran if None in each.classes},
    )


def _unused(name: str, taken: Mapping[str, object]) -> str:
    number = 1
    while (found := name if number == 1 else f"{name}#{number}") in taken:
        number += 1
    return found
