"""Reads a ledger of known issues, and finds which causes are new, known or back, and which issues are gone."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Final

from pydantic import ConfigDict, TypeAdapter, ValidationError

from mindgap.findings.causes.cause import KINDS, Cause, CauseState, KnownIssue
from mindgap.findings.causes.packets import function_of
from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName

#: The versions of packages where a platform runs, by the platform's name.
VersionsOf = Callable[[PlatformName], Mapping[str, str]]
_HEADER: Final = re.compile(r"^\s*\[\[\s*issue\s*\]\]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Match:
    """Which causes an issue is about: those that fit every field that is given.

    `id`: a cause's own. `platform`: one or more patterns (`onnxruntime/*`), of which one fits one of its platforms.
    `operators`: patterns of functions (`amax`) or overloads (`aten.amax.*`), of which one fits one of its operators.
    `kind`: its class, its damage or its verdict. `signature`: a regular expression that is found in its signature.
    `versions`: patterns by package (`torch = "2.13.*"`), which all fit what is installed where one of its platforms
    runs.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    id: str = ""
    platform: str | tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    kind: str = ""
    signature: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def fits(self, cause: Cause) -> bool:
        """Whether the cause fits every field but `versions`."""
        names = {*cause.operators, *map(function_of, cause.operators)}
        return (
            (not self.id or self.id == cause.id)
            and self.is_of(cause.platforms)
            and (not self.operators or any(fnmatchcase(name, wanted) for name in names for wanted in self.operators))
            and (not self.kind or self.kind in (cause.kind, cause.damage, cause.verdict))
            and (not self.signature or re.search(self.signature, cause.signature) is not None)
        )

    def is_of(self, platforms: Iterable[PlatformName]) -> bool:
        """Whether one of the platforms fits, or none is named."""
        patterns = (self.platform,) if isinstance(self.platform, str) else self.platform
        return not patterns or any(fnmatchcase(name, pattern) for name in platforms for pattern in patterns)

    def applies(self, platforms: Iterable[PlatformName], versions: VersionsOf) -> bool:
        """Whether one of the platforms is meant, with versions of packages that fit `versions`."""
        return any(self.is_of((name,)) and self._fits_version(versions(name)) for name in platforms)

    def _fits_version(self, versions: Mapping[str, str]) -> bool:
        return all(
            package in versions and fnmatchcase(versions[package], wanted) for package, wanted in self.versions.items()
        )


@dataclass(frozen=True, slots=True)
class Issue:
    """An entry of a ledger.

    `link`: the upstream issue. `expires`: from this day on the entry no longer counts. `gone`: the day on which it was
    not found any more. `script`: a reproducer, relative to the ledger. `workaround`: what a user can do meanwhile.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    match: Match
    link: str = ""
    note: str = ""
    expires: date | None = None
    gone: date | None = None
    script: str = ""
    workaround: str = ""

    def __str__(self) -> str:
        return self.link or self.note or str(self.match)


@dataclass(frozen=True, slots=True)
class Review:
    """The states of the causes that were found, by a ledger.

    `causes`: with `state` and `upstream`. `gone`: issues that no cause fits, though one of their platforms ran.
    `expired`: issues that would fit a cause, and have expired.
    """

    causes: tuple[Cause, ...]
    gone: tuple[Issue, ...]
    expired: tuple[Issue, ...]

    @property
    def lines(self) -> list[str]:
        """A line for each thing that a person must look at."""
        back = [cause for cause in self.causes if cause.state == "back"]
        return [
            *(f"back: {cause.title} (it was gone: {cause.upstream_text})" for cause in back),
            *(f"gone: nothing that was found fits the issue {issue}" for issue in self.gone),
            *(f"expired on {issue.expires}: {issue}: look at it again, then move the date" for issue in self.expired),
        ]


_ISSUES: Final = TypeAdapter(tuple[Issue, ...])


@dataclass(frozen=True, slots=True)
class Ledger:
    """Known issues in the order of their file. `text`: the file's content."""

    issues: tuple[Issue, ...] = ()
    text: str = ""

    @property
    def packages(self) -> frozenset[str]:
        """The packages whose versions some entry asks for."""
        return frozenset(package for issue in self.issues for package in issue.match.versions)

    @staticmethod
    def load(path: Path) -> Ledger:
        """Reads a ledger. Raises `MindgapError` where it is missing, is no TOML, or has a wrong entry."""
        try:
            text = path.read_text(encoding="utf-8")
            data: dict[str, Any] = tomllib.loads(text)
        except FileNotFoundError:
            raise MindgapError(
                f"no ledger {path}: docs/reduction.md shows one, and --update-ledger (mindgap diff: --update-baseline) "
                "makes one"
            ) from None
        except (OSError, ValueError) as error:
            raise MindgapError(f"ledger {path} cannot be read: {error}") from None
        if unknown := sorted(set(data) - {"issue"}):
            raise MindgapError(
                f"ledger {path}: {', '.join(unknown)} is no part of a ledger; entries begin with [[issue]]"
            )
        try:
            issues = _ISSUES.validate_python(data.get("issue", []))
        except ValidationError as error:
            raise MindgapError(f"ledger {path}: {_first(error)}") from None
        for number, issue in enumerate(issues, 1):
            _check(f"ledger {path}: issue {number}", issue.match)
        return Ledger(issues, text)

    def review(
        self, causes: Sequence[Cause], platforms: Iterable[PlatformName], versions: VersionsOf, today: date
    ) -> Review:
        """Compares the ledger with the causes of a run.

        `platforms`: those whose causes are all known, so that what is missing is gone. `versions`: of the
        packages where a platform runs, by its name.
        """

        def fits(issue: Issue, cause: Cause) -> bool:
            return issue.match.fits(cause) and issue.match.applies(cause.platforms, versions)

        expired = [issue for issue in self.issues if issue.expires is not None and issue.expires <= today]
        current = [issue for issue in self.issues if issue not in expired]
        ran = tuple(platforms)
        missing = [
            issue
            for issue in current
            if issue.gone is None
            and issue.match.applies(ran, versions)
            and not any(fits(issue, cause) for cause in causes)
        ]
        late = [issue for issue in expired if any(fits(issue, cause) for cause in causes)]
        judged = tuple(_judged(cause, [issue for issue in current if fits(issue, cause)]) for cause in causes)
        return Review(judged, tuple(missing), tuple(late))

    def workaround_of(self, cause: Cause) -> str:
        """The work-around of the issues that a known cause of a review fits; empty if none has one."""
        known = (issue for issue in self.issues if cause.state in ("known", "back") and issue.match.fits(cause))
        return next((issue.workaround for issue in known if issue.workaround), "")

    def updated(self, review: Review, today: date) -> str:
        """The ledger's text after a review: issues that are gone have the day, new causes have an entry by their id."""
        gone = {number for number, issue in enumerate(self.issues) if issue in review.gone}
        headers = list(_HEADER.finditer(self.text))
        text = self.text
        for number in sorted(gone, reverse=True):
            end = headers[number].end()
            text = f"{text[:end]}\ngone = {today.isoformat()}{text[end:]}"
        if text and not text.endswith("\n"):
            text += "\n"
        return text + "".join(_entry(cause) for cause in review.causes if cause.state == "new")


def _judged(cause: Cause, issues: Sequence[Issue]) -> Cause:
    """The cause with its state. `issues`: those that are about it."""
    if not issues:
        return replace(cause, state="new")
    issue = issues[0]
    state: CauseState = "known" if issue.gone is None else "back"
    return replace(cause, state=state, upstream=KnownIssue(issue.link, issue.note, issue.expires))


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    place = [
        f"issue {part + 1}" if isinstance(part, int) and not n else str(part) for n, part in enumerate(first["loc"])
    ]
    return f"{', '.join(place)}: {first['msg']}"


def _check(where: str, match: Match) -> None:
    if match == Match(versions=match.versions):
        raise MindgapError(f"{where} fits every cause: give its match an id, platform, operators, kind or signature")
    if match.kind and match.kind not in KINDS:
        raise MindgapError(f"{where}, match.kind: {match.kind!r} is none of {', '.join(KINDS)}")
    try:
        re.compile(match.signature)
    except re.error as error:
        raise MindgapError(f"{where}, match.signature: {match.signature!r} is no regular expression: {error}") from None


def _entry(cause: Cause) -> str:
    note = cause.title.replace("\\", "\\\\").replace('"', '\\"')
    note = re.sub(r"[\x00-\x1f\x7f]+", " ", note)
    platforms = ", ".join(f'"{name}"' for name in cause.platforms)
    script = cause.findings[0].script if cause.findings else ""
    lines = ["", "[[issue]]", f'note = "{note}"', 'link = ""']
    lines += [f'script = "{script}"'] if script else []
    lines += [f'match = {{ id = "{cause.id}", platform = [{platforms}] }}']
    return "\n".join(lines) + "\n"
