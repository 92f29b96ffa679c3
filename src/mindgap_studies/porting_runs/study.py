"""Runs a porting study: draws functions of each framework, runs them on targets, measures them, keeps everything.

What the file has is not run again, so that a study that was cut goes on.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from mindgap.graph import MindgapError, default_tensor_store
from mindgap.platforms.environments import find
from mindgap.platforms.environments.environment import own_packages
from mindgap.platforms.host import cpu_name
from mindgap.run.worker_client import WorkerFailed
from mindgap_studies.porting_runs.other_frameworks import OtherFramework, measured_sample
from mindgap_studies.porting_runs.pytorch_functions import PyTorchFunctions
from mindgap_studies.porting_runs.usage import count_calls, draw_functions
from mindgap_studies.results.ported_functions import (
    MOST_RUNS,
    FrameworkDraw,
    FunctionCell,
    PortingSettings,
    PortingStudy,
    StudyFile,
)

#: Frameworks, with the package whose calls are counted. JAX and TensorFlow run in the environment of that name.
FRAMEWORKS: Final = {"pytorch": "torch", "jax": "jax", "tensorflow": "tensorflow"}

#: Told how many steps of how many are done, and what is being done.
Progress = Callable[[int, int, str], None]


_Framework = PyTorchFunctions | OtherFramework


@dataclass(frozen=True, slots=True)
class PortingRequest:
    """What to study. frameworks: of `FRAMEWORKS`. folders: whose Python files are scanned, beside those of installed
    packages. platforms: to which functions of PyTorch go; none for the default."""

    frameworks: tuple[str, ...] = tuple(FRAMEWORKS)
    folders: tuple[Path, ...] = ()
    platforms: tuple[str, ...] = ()
    settings: PortingSettings = field(default_factory=PortingSettings)


def run_porting(request: PortingRequest, out: Path, progress: Progress) -> tuple[PortingStudy, dict[str, str]]:
    """Runs a study, its frameworks side by side, and appends to its file. Returns it, and the frameworks that could
    not be studied with the reason.

    Raises `MindgapError` where the file is of another study, a folder is not there, or no framework can be studied.
    """
    unknown = [each for each in request.frameworks if each not in FRAMEWORKS]
    if unknown:
        raise MindgapError(f"no framework {unknown[0]}: there are {', '.join(FRAMEWORKS)}")
    for folder in request.folders:
        if not folder.exists():
            raise MindgapError(f"{folder}: no such file or folder")
    file = StudyFile(out.absolute())
    folders = [folder.absolute() for folder in request.folders]
    settings = {**request.settings.to_json(), "folders": [str(folder) for folder in request.folders]}
    study = file.begin(settings, cpu_name())
    # What a function writes by a relative path is gone with the study.
    with tempfile.TemporaryDirectory(prefix="mindgap-study-") as scratch, contextlib.chdir(scratch):
        problems = _study_side_by_side(
            request.frameworks, lambda name: _study_framework(name, request, folders, file, study, progress)
        )
    if not study.draws:
        raise MindgapError("; ".join(f"{name}: {why}" for name, why in problems.items()))
    return study, problems


def _study_side_by_side(names: Sequence[str], work: Callable[[str], None]) -> dict[str, str]:
    """Works on all frameworks at once. Returns those that could not be studied, with the reason.

    PyTorch has this thread, in which an interruption arrives; the others' end with the process.
    """
    problems: dict[str, str] = {}
    broken: list[BaseException] = []

    def studied(name: str) -> None:
        try:
            work(name)
        except (MindgapError, WorkerFailed) as error:
            problems[name] = " ".join(str(error).split())

    def aside(name: str) -> None:
        try:
            studied(name)
        except BaseException as error:  # raised again in the caller's thread
            broken.append(error)

    others = [threading.Thread(target=aside, args=(name,), daemon=True) for name in names if name != "pytorch"]
    for thread in others:
        thread.start()
    if "pytorch" in names:
        studied("pytorch")
    for thread in others:
        thread.join()
    if broken:
        raise broken[0]
    return {name: problems[name] for name in names if name in problems}


def _study_framework(
    name: str, request: PortingRequest, folders: Sequence[Path], file: StudyFile, study: PortingStudy,
    progress: Progress,
) -> None:  # fmt: skip
    settings, packages = request.settings, own_packages()
    opened: _Framework
    if name == "pytorch":
        opened = PyTorchFunctions(request.platforms, settings, default_tensor_store())
    else:
        opened, packages = OtherFramework(name, settings), [*environment_packages(name), *packages]
    with opened as framework:
        _compare(framework, packages, request, folders, file, study, progress)
        _measure(framework, file, study, progress)


def _compare(
    framework: _Framework, packages: Sequence[str], request: PortingRequest, folders: Sequence[Path], file: StudyFile,
    study: PortingStudy, progress: Progress,
) -> None:  # fmt: skip
    """Draws functions and runs them on the targets that are available, save what the file has."""
    name, settings = framework.name, request.settings
    if name not in study.draws:
        usage = count_calls(
            folders, FRAMEWORKS[name], packages=map(Path, dict.fromkeys(packages)), seed=settings.seed,
            most=settings.files,
            tick=lambda done, total: progress(done, total, f"{name}: counting calls in Python files"),
        )  # fmt: skip
        wanted = settings.top + 10 * settings.per_decile
        tried: list[str] = []

        def untestable(function: str) -> str:
            tried.append(function)
            progress(min(len(tried), wanted), wanted, f"{name}: drawing, {function}")
            return framework.untestable(function)

        uses, public = framework.uses(usage.calls)
        drawn, left_out = draw_functions(
            uses, top=settings.top, per_decile=settings.per_decile, seed=settings.seed, untestable=untestable
        )
        if not drawn:
            raise MindgapError(f"{name}: no function could be called: {next(iter(left_out.items()), 'none is used')}")
        unreadable = {
            path: why for path, why in usage.unreadable.items() if any(Path(path).is_relative_to(f) for f in folders)
        }
        file.add(study, FrameworkDraw(
            name, framework.versions(), framework.source, usage.files, uses.total(), public, len(uses), drawn,
            left_out, framework.targets(), unreadable,
        ))  # fmt: skip
    draw = study.draws[name]
    draw = _refreshed(draw, framework, study, file.path)
    if draw != study.draws[name]:
        file.add(study, draw)
    for place, function in enumerate(draw.drawn):
        missing = [target for target in draw.available if (name, function.name, target) not in study.cells]
        if missing:
            progress(place, len(draw.drawn), f"{name}: {function.name}")
            for cell in framework.cells(function.name, missing):
                file.add(study, cell)


def _refreshed(draw: FrameworkDraw, framework: _Framework, study: PortingStudy, path: Path) -> FrameworkDraw:
    """The draw with the targets and versions of this run: why a target is not available may have changed, save for one
    that has results. Raises `MindgapError` where versions are others."""
    versions = framework.versions()
    if other := [each for each in versions if draw.versions.get(each, versions[each]) != versions[each]]:
        was, now = ({each: known[each] for each in other} for known in (draw.versions, versions))
        raise MindgapError(f"{path}: its functions of {draw.framework} ran with {was}, and here is {now}")
    done = {cell.target for cell in study.of_framework(draw.framework)}
    new = {target: why for target, why in framework.targets().items() if target not in done}
    return replace(draw, versions={**draw.versions, **versions}, targets={**draw.targets, **new})


def environment_packages(name: str) -> list[str]:
    """Folders of packages of the environments of JAX and TensorFlow, this one's first: libraries serve both."""
    found: list[str] = []
    for each in (name, *({"jax", "tensorflow"} - {name})):
        with contextlib.suppress(MindgapError):
            found += map(str, sorted(Path(find(each).python).parents[1].glob("lib/python*/site-packages")))
    return found


def _measure(framework: _Framework, file: StudyFile, study: PortingStudy, progress: Progress) -> None:
    """Measures the cells that have a ported sample, pass by pass, until each has the seconds of all.

    The processes of a function are as far apart in time as passes over all functions, so that other work on the machine
    moves them as it moves another study. What could not be measured in an earlier run is tried once more.
    """
    failed: set[tuple[str, str]] = set()

    def wanted(cell: FunctionCell, number: int) -> bool:
        if cell.untimed and ((cell.function, cell.target) in failed or cell.untimed_runs >= MOST_RUNS):
            return False
        return (len(cell.latency.source) if cell.latency else 0) < number and measured_sample(cell) is not None

    for number in range(1, int(study.settings["processes"]) + 1):
        todo = [cell for cell in study.of_framework(framework.name) if wanted(cell, number)]
        if todo:
            for cell, found in framework.measured_pass(todo, progress):
                if isinstance(found, str):
                    failed.add((cell.function, cell.target))
                    changed = replace(cell, untimed=found, untimed_runs=cell.untimed_runs + 1)
                else:
                    changed = replace(cell, latency=found, untimed="")
                file.add(study, changed)
