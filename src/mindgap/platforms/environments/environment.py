"""The record of one environment, and its interpreter's facts."""

from __future__ import annotations

import difflib
import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.graph.tensors import home
from mindgap.platforms.environments.emulation import COMMON_MODELS, SLOWER, Emulation
from mindgap.platforms.environments.host_worker import NEEDED

#: The oldest Python that workers run on.
OLDEST_PYTHON: Final = (3, 10)
#: The file of a layered environment that puts mindgap's own packages behind the others, by their folders.
BASE_PACKAGES: Final = "packages_of_mindgap.pth"
#: An environment has no record until it is complete.
_RECORD: Final = "environment.json"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PACKAGE: Final = Path(__file__).parents[2]
_START: Final = Path(__file__).with_name("start.py")
_FACTS_S: Final = 60.0


class EnvironmentProblem(MindgapError):
    """An environment that is not there, is not complete, or cannot run a worker."""


@dataclass(frozen=True, slots=True)
class InterpreterFacts:
    """The facts of an interpreter. `missing`: requested modules that it does not find."""

    python: str
    implementation: str
    machine: str
    prefix: str
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment.

    `python`: its interpreter. `requirements`: what it was created with, empty for an adopted one. `created`: it was
    made by `mindgap env create`, in `folder`, and is deleted with its record. `layered`: what it has not installed
    itself comes from the environment of mindgap. `emulation`: the processor that its interpreter runs on, where that is
    emulated; None for this machine's own.
    """

    name: str
    python: str
    requirements: tuple[str, ...] = ()
    created: bool = False
    layered: bool = False
    emulation: Emulation | None = None

    @property
    def slower(self) -> float:
        """So many times the deadlines of this machine's own processor are allowed there."""
        return 1.0 if self.emulation is None else SLOWER

    @property
    def creation(self) -> str:
        """The command that makes it."""
        arguments = "".join(f" '{each}'" for each in self.requirements) if self.created else f" --python {self.python}"
        if self.emulation is not None:
            arguments += f" --arch {self.emulation.machine} --cpu {self.emulation.processor}"
        return f"mindgap env create {self.name}{arguments}"

    @property
    def illegal_instruction(self) -> str:
        """What a process that ends by SIGILL met there, and the command that mends it; empty where nothing is
        emulated."""
        if self.emulation is None:
            return ""
        arguments = "".join(f" '{each}'" for each in self.requirements)
        return (
            f"an instruction that {self.emulation.processor} or its emulator lacks; mindgap env create {self.name}-max "
            f"--arch {self.emulation.machine} --cpu max{arguments} makes a processor with all that the emulator knows"
        )

    @property
    def folder(self) -> Path:
        return folder_of(self.name)

    @property
    def packages(self) -> Path:
        """The packages that workers need and an adopted environment lacks."""
        return self.folder / "packages"

    def command(self, module: str) -> list[str]:
        """The command line that runs a module of this mindgap there; arguments may be appended."""
        return [self.python, str(_START), os.pathsep.join((str(_PACKAGE), _metadata())), self._more(), module]

    def facts(self, *modules: str) -> InterpreterFacts:
        """Asks the interpreter. Raises `EnvironmentProblem` where it does not answer."""
        return _facts(self.name, self.python, self.slower, self._more(), modules)

    def versions(self, *packages: str) -> dict[str, str]:
        """The installed versions of packages there; those that are not installed are left out.

        Raises `EnvironmentProblem` where the interpreter does not answer.
        """
        return dict(_answer(self.name, self.python, self.slower, ("--versions", self._more(), *packages)))

    def check(self, *modules: str) -> InterpreterFacts:
        """Raises `EnvironmentProblem` where no worker can run there, or another module that it needs is missing.

        The message has what to do.
        """
        facts = self.facts(*NEEDED, *modules)
        python = tuple(int(part) for part in facts.python.split(".")[:2])
        if python < OLDEST_PYTHON:
            oldest = ".".join(map(str, OLDEST_PYTHON))
            raise EnvironmentProblem(f"environment {self.name}: its Python is {facts.python}; workers need {oldest}")
        if facts.implementation != "CPython":
            raise EnvironmentProblem(f"environment {self.name}: its Python is {facts.implementation}, not CPython")
        self._check_machine(facts.machine)
        self._check_wheels()
        if lost := [name for name in facts.missing if name in NEEDED]:
            if gone := self._lost_base():
                raise EnvironmentProblem(
                    f"environment {self.name} takes packages from {gone}, which is not there any more: {self._remedy()}"
                )
            raise EnvironmentProblem(
                f"environment {self.name} lacks {', '.join(lost)}, which workers need: {self._remedy()}"
            )
        if facts.missing:
            raise EnvironmentProblem(f"environment {self.name} lacks {', '.join(facts.missing)}: install it there")
        return facts

    def _check_machine(self, found: str) -> None:
        """Raises `EnvironmentProblem` where the interpreter is built for another architecture than is to run there."""
        if self.emulation is None and found != platform.machine():
            raise EnvironmentProblem(
                f"environment {self.name}: its Python is built for {found}, this machine is {platform.machine()}; "
                f"mindgap env create NAME --arch {found} makes one on an emulator that it knows and checks"
            )
        if self.emulation is not None and found != self.emulation.machine:
            raise EnvironmentProblem(
                f"environment {self.name}: its Python is built for {found}, its emulator is for "
                f"{self.emulation.machine}: {self._remedy()}"
            )

    def _check_wheels(self) -> None:
        """Raises `EnvironmentProblem` where a package of an emulated environment is built for another architecture: its
        modules would not be found."""
        if self.emulation is None:
            return
        for file in sorted((self.folder / "venv").glob("lib/python*/site-packages/*.dist-info/WHEEL")):
            tags = {tag.rpartition("-")[2] for tag in re.findall(r"^Tag: (\S+)", file.read_text(), re.MULTILINE)}
            if not tags or any(tag == "any" or tag.endswith(f"_{self.emulation.machine}") for tag in tags):
                continue
            package = file.parent.name.removesuffix(".dist-info").replace("-", " ")
            raise EnvironmentProblem(
                f"environment {self.name}: {package} is built for {', '.join(sorted(tags))}, its processor is "
                f"{self.emulation.machine}: {self._remedy()}"
            )

    def save(self) -> None:
        """Writes the record."""
        temporary = self.folder / f"{_RECORD}.{os.getpid()}"
        temporary.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        temporary.replace(self.folder / _RECORD)

    def _more(self) -> str:
        return str(self.packages) if self.packages.is_dir() else ""

    def _lost_base(self) -> str:
        """The folder of packages of mindgap's environment that a layered one names and that is not there; or empty."""
        if not self.layered:
            return ""
        named = [file.read_text().splitlines() for file in (self.folder / "venv").rglob(BASE_PACKAGES)]
        return next((line for lines in named for line in lines if line and not Path(line).is_dir()), "")

    def _remedy(self) -> str:
        return f"mindgap env remove {self.name}, then {self.creation}"


@cache
def _metadata() -> str:
    """The folder of mindgap's metadata, which has its entry points; empty where it is not installed."""
    try:
        return str(getattr(distribution("mindgap"), "_path", ""))
    except PackageNotFoundError:
        return ""


def folder_of(name: str) -> Path:
    """The folder of an environment. Raises `EnvironmentProblem` for a name that is none."""
    if not _NAME.fullmatch(name):
        raise EnvironmentProblem(
            f"{name!r} cannot name an environment: letters, digits, '.', '_' and '-', at most 64, and a letter or "
            "digit first"
        )
    return home() / "environments" / name


def environments() -> list[Environment]:
    """All complete environments by name. Raises `EnvironmentProblem` for a record that cannot be read."""
    folder = home() / "environments"
    names = sorted(path.parent.name for path in folder.glob(f"*/{_RECORD}"))
    return [_read(name) for name in names]


def unfinished() -> list[str]:
    """The names of environments whose creation did not end."""
    folder = home() / "environments"
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    return [name for name in names if not (folder / name / _RECORD).exists()]


def find(name: str) -> Environment:
    """Returns an environment. Raises `EnvironmentProblem` where there is none of that name."""
    if is_complete(name):
        return _read(name)
    if folder_of(name).is_dir():
        raise EnvironmentProblem(f"environment {name} is not complete: its creation did not end; create it again")
    known = [each.name for each in environments()]
    near = difflib.get_close_matches(name, known, n=2)
    hint = f" (did you mean {' or '.join(near)}?)" if near else f"; there are {', '.join(known) or 'none'}"
    raise EnvironmentProblem(f"no environment {name}{hint}; make one with {_creation(name)}")


def _creation(name: str) -> str:
    """The command that makes the environment that the name seems to mean."""
    from mindgap.platforms.environments.recipe import architecture_recipe

    if architecture_recipe(name):
        return f"mindgap env create {name}"
    model = {each.lower().partition("-")[0]: each for each in reversed(COMMON_MODELS)}.get(name.lower())
    return f"mindgap env create {name} {f'--cpu {model}' if model else 'REQUIREMENT…'}"


def is_complete(name: str) -> bool:
    """Whether there is an environment of that name, with a record that may be damaged."""
    return (folder_of(name) / _RECORD).is_file()


def _read(name: str) -> Environment:
    file = folder_of(name) / _RECORD
    try:
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return Environment(
            str(data["name"]), str(data["python"]), tuple(map(str, data["requirements"])), bool(data["created"]),
            bool(data["layered"]), _emulation(data.get("emulation")),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentProblem(
            f"{file} is no record of an environment ({type(error).__name__}: {error}); mindgap env remove {name} "
            "deletes it"
        ) from error


def _emulation(data: dict[str, Any] | None) -> Emulation | None:
    """Raises KeyError or TypeError for a damaged record."""
    if data is None:
        return None
    machine, processor, emulator, version, root = (
        str(data[name]) for name in ("machine", "processor", "emulator", "version", "root")
    )
    return Emulation(machine, processor, emulator, version, tuple(map(str, data["without"])), root)


def _facts(name: str, python: str, slower: float, more: str, modules: tuple[str, ...]) -> InterpreterFacts:
    data = _answer(name, python, slower, ("--facts", more, *modules))
    try:
        return InterpreterFacts(
            data["python"], data["implementation"], data["machine"], data["prefix"], tuple(data["missing"])
        )
    except (KeyError, TypeError):
        raise EnvironmentProblem(f"environment {name}: {python} is no Python that works: it answers {data}") from None


@cache
def _answer(name: str, python: str, slower: float, asked: tuple[str, ...]) -> dict[str, Any]:
    """What the interpreter prints, as a JSON object. Raises `EnvironmentProblem` where it prints none."""
    if not os.access(python, os.X_OK):
        raise EnvironmentProblem(f"environment {name}: its interpreter {python} is not there or cannot be run")
    command = [python, str(_START), *asked]
    limit_s = slower * _FACTS_S
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EnvironmentProblem(f"environment {name}: {python} cannot be run: {error}") from error
    try:
        data: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        if not isinstance(data, dict):  # pyright: ignore[reportUnnecessaryIsInstance] # any JSON
            raise ValueError
        return data
    except (IndexError, ValueError):
        reply = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise EnvironmentProblem(
            f"environment {name}: {python} is no Python that works (status {done.returncode}): {reply}"
        ) from None


def installed(packages: Iterable[str]) -> dict[str, str]:
    """The versions of packages in mindgap's own environment; those that are not installed are left out."""
    by_package: dict[str, str] = {}
    for package in packages:
        with suppress(PackageNotFoundError):
            by_package[package] = version(package)
    return by_package


def own_packages() -> list[str]:
    """The folders of packages of the environment of mindgap."""
    kinds = ("site-packages", "dist-packages")
    return [path for path in dict.fromkeys(sys.path) if Path(path).name in kinds and Path(path).is_dir()]


def project_name(requirement: str) -> str:
    """The name of what a requirement asks for, as installers compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>!~\[;@ ]", requirement, maxsplit=1)[0]).lower()
