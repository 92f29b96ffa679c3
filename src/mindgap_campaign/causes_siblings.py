"""Runs the programs of listed causes, the `CASES` of their scripts, on other makes of platform, and finds which have a
fault there too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from mindgap.findings.causes import Cause
from mindgap.findings.causes.files import FILE_NAME, read_causes
from mindgap.findings.causes.packets import functions_of
from mindgap.findings.script.form import case_part
from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import OperatorCulprit
from mindgap.graph.model_file import SUFFIX
from mindgap.platforms.listing import list_platforms
from mindgap.platforms.name import CPU_EAGER, PlatformName, parse
from mindgap.results.rows import Report, Row
from mindgap.workflows.diff import RunSettings, Session, Subject

#: `listed`: a cause of this make has the operator and the verdict; `operator listed`: the operator.
Novelty = Literal["new", "operator listed", "listed"]
#: Available, and no make: the reference, injected faults, and providers whose library must be named.
_NO_MAKE: Final = frozenset({CPU_EAGER.device_mode, "faulty/eager", "onnxruntime/provider"})
_MODULE: Final = """\
from math import inf, nan

import torch

{cases}

def make():
    return [(model().eval(), fresh()) for model, fresh in CASES.values()]
"""


@dataclass(frozen=True, slots=True)
class Sibling:
    """A fault that programs of a cause show on another make. `programs`: the cases that show it. `verdict` to `detail`:
    as in `Row`. `near`: scripts of listed causes of this make with its operator, those of the same verdict first."""

    programs: tuple[str, ...]
    platform: PlatformName
    verdict: str
    culprit: str
    blame: str
    detail: str
    novelty: Novelty
    near: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SiblingsOfCause:
    """What the programs of one cause gave. `left_out`: the reasons of those that did not run. `words`: rows by verdict
    or status; `broken` are rows and programs that mindgap itself failed on."""

    cause: str
    script: str
    siblings: tuple[Sibling, ...] = ()
    left_out: tuple[str, ...] = ()
    words: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class ListedCauses:
    """The causes of a `causes.json`. `directory`: where their scripts are."""

    directory: Path
    causes: tuple[Cause, ...]

    @staticmethod
    def read(path: Path) -> ListedCauses:
        """Reads a `causes.json`, or that of a directory. Raises `MindgapError`."""
        file = path / FILE_NAME if path.is_dir() else path
        return ListedCauses(file.parent, tuple(cause for cause in read_causes(file) if cause.findings))

    def chosen(self, names: Sequence[str]) -> list[Cause]:
        """Returns the causes with these ids, or with these texts in the paths of their scripts; all for no name. Raises
        `MindgapError` for a name of no cause, and where there is none."""
        if not self.causes:
            raise MindgapError(f"{self.directory} has no cause with a script")
        for name in names:
            if not any(_is_named(cause, name) for cause in self.causes):
                raise MindgapError(f"{name}: no cause of {self.directory} has this id, or this in its script's path")
        return [cause for cause in self.causes if not names or any(_is_named(cause, name) for name in names)]

    def makes(self) -> list[PlatformName]:
        """Returns the available platforms, each with the options that most causes of its make have."""
        listed = [name for name, _ in Counter(name for cause in self.causes for name in cause.platforms).most_common()]
        here = [info.platform for info in list_platforms() if info.available and info.platform not in _NO_MAKE]
        return [next((name for name in listed if name.device_mode == make), parse(make)) for make in here]

    def near(self, row: Row, cause: Cause) -> tuple[Novelty, tuple[str, ...]]:
        """Returns whether the fault of a row is listed, and the scripts of causes with its operator (those of `cause`
        where it has none): of its make, or of the reference as the fault is."""
        named = row.culprit.ops if isinstance(row.culprit, OperatorCulprit) else cause.operators
        wanted = set(functions_of(named))
        of_reference = row.blame == "reference"
        near = [
            each
            for each in self.causes
            if (each.blame == "reference" if of_reference else _is_of(each, row.platform))
            and not wanted.isdisjoint(functions_of(each.operators))
        ]
        near.sort(key=lambda each: each.verdict != row.verdict)
        listed = bool(near) and near[0].verdict == row.verdict
        return "listed" if listed else "operator listed" if near else "new", tuple(map(_script, near))


def siblings_of(
    cause: Cause, listed: ListedCauses, platforms: Iterable[PlatformName], session: Session,
    open_sources: Callable[[Sequence[str]], Iterable[Subject]], settings: RunSettings, folder: Path,
) -> SiblingsOfCause:  # fmt: skip
    """Compares the programs of a cause on the platforms of other makes. `folder`: where its programs are written.
    Raises what `Session.diff_many` raises."""
    others = [platform for platform in platforms if not _is_of(cause, platform)]
    try:
        if not others:
            raise MindgapError("all platforms are of its make")
        source = _source_of(cause, listed.directory, folder)
    except MindgapError as reason:
        return SiblingsOfCause(cause.id, _script(cause), left_out=(str(reason),))
    report = session.diff_many(open_sources([source]), others, settings=settings)
    left_out = [each.reason.replace(source, _script(cause)) for each in report.refused]
    left_out += [f"{row.platform}: mindgap failed: {row.broken.splitlines()[-1]}" for row in report.rows if row.broken]
    words = {**report.totals.words, "broken": report.totals.broken}
    return SiblingsOfCause(cause.id, _script(cause), _siblings(cause, listed, report), tuple(left_out), words)


def _siblings(cause: Cause, listed: ListedCauses, report: Report) -> tuple[Sibling, ...]:
    """The faults of a report, each once for each platform, verdict and culprit."""
    rows: dict[tuple[str, str, str], list[Row]] = {}
    for row in (one for each in report.findings for one in each.by_fault):
        rows.setdefault((row.platform, row.verdict or "", row.culprit.op if row.culprit else ""), []).append(row)
    return tuple(
        Sibling(
            tuple(dict.fromkeys(each.model for each in shown)), first.platform, verdict, culprit, first.blame or "",
            first.detail or first.message, *listed.near(first, cause),
        )
        for (_, verdict, culprit), shown in rows.items()
        for first in shown[:1]
    )  # fmt: skip


def _source_of(cause: Cause, directory: Path, folder: Path) -> str:
    """Writes the programs of a cause as a module. Returns its source. Raises `MindgapError` where there are none."""
    script = directory / _script(cause)
    if script.suffix == SUFFIX:
        return f"graph:{script}"
    try:
        cases = case_part(script.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        raise MindgapError(f"its programs cannot be taken from {script}: {error}") from None
    file = folder / f"{script.parent.name}_{script.stem}.py".replace("-", "_")
    file.write_text(_MODULE.format(cases=cases), encoding="utf-8")
    return f"{file}:make"


def _script(cause: Cause) -> str:
    return cause.findings[0].script


def _is_named(cause: Cause, name: str) -> bool:
    return name == cause.id or name in _script(cause)


def _is_of(cause: Cause, platform: PlatformName) -> bool:
    """Whether a cause is of the platform's make."""
    return any(own.device_mode == platform.device_mode for own in cause.platforms)
