"""Holds what a porting study found of functions on targets, in one file of JSON lines that can be resumed."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args

from annotated_types import Gt, Lt, MinLen

from mindgap.graph import MindgapError
from mindgap_studies.results.json_lines import JsonLines

#: Why a sample of a function is lost on a target. The first five are those of the paper:
#: - `not implemented`: the target has no implementation of the function, or of an operator in it.
#: - `type failure`: the target does not take a dtype, or gives another dtype or shape than the source.
#: - `time-out`: no result within the limit.
#: - `memory`: the target ran out of memory.
#: - `precision`: the target gives other values than the source, by more than rounding explains.
#: - `crash`: the process ended.
#: - `error`: any other failure, in the target's words.
Reason = Literal["not implemented", "type failure", "time-out", "memory", "precision", "crash", "error"]
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)
#: The classes of a function on a target. `form only`: dtype and shape are the source's, and values could not be
#: compared, as those of a random function. `not compared`: no sample gave an answer that could be judged.
PortClass = Literal["success", "partial failure", "complete failure", "form only", "not compared"]
CLASSES: Final[tuple[PortClass, ...]] = get_args(PortClass)
#: Positive and finite: what a file may hold.
Seconds = Annotated[float, Gt(0), Lt(math.inf)]
#: Names of the estimators of slow-downs.
Estimator = Literal["steady", "first call", "paper's", "medians"]
#: How a study measures: studies of another way do not go on, and are not compared.
MEASURED: Final = "direct calls, processor time"
#: A function that could not be measured is tried again when its study goes on, until so many runs have failed: memory
#: may have been short, or a process ended from outside.
MOST_RUNS: Final = 2


@dataclass(frozen=True, slots=True)
class PortingSettings:
    """top, per_decile: how many of the most used functions, and how many at random of each decile of usage.
    seed: of the draw, and of the files that are scanned.
    files: Python files that are parsed for one framework at most, those of named folders always.
    processes: in which each function is measured; rounds: calls in each of them, after the first.
    deadline_s, memory_bytes: of one function in one process; of one graph on a platform."""

    top: int = 20
    per_decile: int = 5
    seed: int = 0
    files: int = 3000
    processes: int = 3
    rounds: int = 15
    deadline_s: float = 60.0
    memory_bytes: int = 4 << 30

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "measured": MEASURED}


@dataclass(frozen=True, slots=True)
class SampleResult:
    """One call of a function on a target.

    sample: dtypes and shapes of its arguments, or the source that opens it.
    reason: why it is lost, empty where it is ported. `form only`: dtype and shape are right, and values were not
    compared. `not compared`: it ran, and nothing says whether it is right.
    message: the target's own words, or how far results differ.
    """

    sample: str
    reason: Reason | Literal["", "form only", "not compared"] = ""
    message: str = ""

    @property
    def lost(self) -> bool:
        """Whether the target does not do what the source does."""
        return self.reason not in ("", "form only", "not compared")


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of one call on source and target, from several processes.

    sample: the call that was measured.
    source_first, target_first: of each process, the first call, with what the side compiles for it.
    source, target: of each process, the later calls. Those at the same place were made one after the other.
    """

    sample: str
    source_first: Annotated[tuple[Seconds, ...], MinLen(1)]
    target_first: tuple[Seconds, ...]
    source: tuple[Annotated[tuple[Seconds, ...], MinLen(1)], ...]
    target: tuple[tuple[Seconds, ...], ...]

    def __post_init__(self) -> None:
        """Raises `ValueError` where processes or rounds differ between the sides."""
        rounds = [list(map(len, side)) for side in (self.source, self.target)]
        processes = {len(self.source_first), len(self.target_first), len(self.source)}
        if len(processes) > 1 or rounds[0] != rounds[1]:
            raise ValueError("source and target have other numbers of processes or rounds")


@dataclass(frozen=True, slots=True)
class FunctionCell:
    """One function on one target. `latency`: None where no sample is ported, or none could be measured.

    untimed: why no seconds, or no more of them, could be measured. untimed_runs: in how many runs of the study that was
    so; `MOST_RUNS` at most."""

    framework: str
    function: str
    target: str
    samples: tuple[SampleResult, ...]
    latency: Latency | None = None
    untimed: str = ""
    untimed_runs: int = 0

    @property
    def word(self) -> PortClass:
        """The class of the function: by how many of its samples that were compared are lost."""
        compared = [each for each in self.samples if each.reason not in ("form only", "not compared")]
        lost = sum(each.lost for each in compared)
        if not compared:
            return "form only" if any(each.reason == "form only" for each in self.samples) else "not compared"
        return "success" if not lost else "complete failure" if lost == len(compared) else "partial failure"

    @property
    def main_loss(self) -> SampleResult | None:
        """The first sample with the most frequent reason; None where no sample is lost."""
        lost = [each for each in self.samples if each.lost]
        return max(lost, key=lambda each: sum(other.reason == each.reason for other in lost), default=None)


@dataclass(frozen=True, slots=True)
class DrawnFunction:
    """A function of the draw. `uses`: calls that were counted. `stratum`: `top`, or `decile 1` (most used) to 10."""

    name: str
    uses: int
    stratum: str


@dataclass(frozen=True, slots=True)
class FrameworkDraw:
    """The functions of one framework.

    versions: of the framework's packages, and of the packages of PyTorch's platforms.
    source: what calls are compared with (`cpu/eager`).
    files, calls: Python files that were parsed, and calls of public functions in them.
    public, used: public functions of the framework; those that are called at least once.
    drawn: in the order of the draw.
    not_tried: names that were drawn and have no sample, with the reason; each was replaced by the next of its stratum.
    targets: all targets, with the reason why one is not available, empty for those that are.
    unreadable: files of folders that were named, not of packages, which do not parse, and why.
    """

    framework: str
    versions: Mapping[str, str]
    source: str
    files: int
    calls: int
    public: int
    used: int
    drawn: tuple[DrawnFunction, ...]
    not_tried: Mapping[str, str]
    targets: Mapping[str, str]
    unreadable: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def available(self) -> list[str]:
        """The targets that are available."""
        return [target for target, why in self.targets.items() if not why]


@dataclass
class PortingStudy:
    """Everything that a study's file holds. `settings`: seed, sizes and limits, as JSON. `machine`: the processor."""

    settings: dict[str, Any]
    machine: str
    draws: dict[str, FrameworkDraw] = field(default_factory=dict[str, FrameworkDraw])
    cells: dict[tuple[str, str, str], FunctionCell] = field(default_factory=dict[tuple[str, str, str], FunctionCell])

    def of_framework(self, framework: str) -> list[FunctionCell]:
        """Returns the cells of a framework, which another thread may be adding to."""
        return [cell for cell in list(self.cells.values()) if cell.framework == framework]

    def of(self, framework: str, target: str) -> list[FunctionCell]:
        names = [each.name for each in self.draws[framework].drawn]
        found = (self.cells.get((framework, name, target)) for name in names)
        return [each for each in found if each is not None]

    def latencies(self, framework: str, target: str) -> list[Latency]:
        return [each.latency for each in self.of(framework, target) if each.latency is not None]


class StudyFile:
    """The file of a study: its settings, then draws and cells."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = JsonLines(path)

    def read(self) -> PortingStudy:
        """Raises `MindgapError` where the file is not there or is no study."""
        try:
            lines = self._lines.read()
        except (OSError, UnicodeDecodeError) as error:
            raise MindgapError(f"{self.path}: cannot be read: {error}") from None
        study: PortingStudy | None = None
        for number, line in enumerate(lines, 1):
            try:
                study = _added(study, json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise MindgapError(
                    f"{self.path}: line {number} is not of a portability study ({_why(error)}); "
                    "mindgap study portability --out FILE writes one"
                ) from None
        if study is None:
            raise MindgapError(f"{self.path}: it is empty; mindgap study portability --out FILE writes a study")
        return study

    def begin(self, settings: dict[str, Any], machine: str) -> PortingStudy:
        """Returns what the file holds, or begins it. Raises `MindgapError` for a file of other settings."""
        if not self._lines.begun:
            self._lines.append({"kind": "study", "settings": settings, "machine": machine})
            return PortingStudy(settings, machine)
        study = self.read()
        differing = sorted(k for k in {*settings, *study.settings} if settings.get(k) != study.settings.get(k))
        if study.machine != machine:
            differing.append("machine")
        if differing:
            raise MindgapError(
                f"{self.path}: it is of a study with another {', '.join(differing)}; give --out another file"
            )
        self._lines.cut()
        return study

    def add(self, study: PortingStudy, record: FrameworkDraw | FunctionCell) -> None:
        """Adds a record to the study and to the file. Threads may add at once."""
        _put(study, record)
        self._lines.append({"kind": "draw" if isinstance(record, FrameworkDraw) else "cell", **asdict(record)})


def _put(study: PortingStudy, record: FrameworkDraw | FunctionCell) -> None:
    if isinstance(record, FrameworkDraw):
        study.draws[record.framework] = record
    else:
        study.cells[record.framework, record.function, record.target] = record


def _added(study: PortingStudy | None, data: dict[str, Any]) -> PortingStudy:
    """Adds a decoded line. Raises `KeyError`, `TypeError` or `ValueError` for what is none."""
    kind = data.pop("kind")
    if study is None:
        if kind != "study":
            raise KeyError("the first line is not of kind `study`")
        return PortingStudy(dict(data["settings"]), str(data["machine"]))
    _put(study, _reader({"draw": FrameworkDraw, "cell": FunctionCell}[kind]).validate_python(data))
    return study


@cache
def _reader(kind: type[FrameworkDraw | FunctionCell]) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _why(error: Exception) -> str:
    """The error on one line; of a field that does not fit, which one and why."""
    errors: Any = getattr(error, "errors", None)
    if errors is None:
        return f"{type(error).__name__}: {error}"
    first = errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
