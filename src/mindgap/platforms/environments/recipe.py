"""Recipes: environments that mindgap knows by name, so that `mindgap env create NAME` needs no requirements.

A recipe is a TOML file in the folder `recipes`, named for its environment.
"""

from __future__ import annotations

import difflib
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from mindgap.platforms.environments.environment import Environment, EnvironmentProblem, find, is_complete

_FOLDER: Final = Path(__file__).with_name("recipes")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one environment is made.

    `requirements`: pinned, installed with their dependencies beside mindgap's own PyTorch. `no_deps`: installed without
    dependencies, after those; for packages that ask for another PyTorch. `isolated`: nothing comes from mindgap's
    environment; for packages that run with another PyTorch only, which `requirements` name. `platforms`: those that run
    there without the option `env` (`DEVICE/MODE`). `programs`: what must be on the PATH at run time -> how to install
    it. `download_mb`, `seconds`: measured once, when the recipe was written.
    """

    name: str
    about: str
    requirements: tuple[str, ...]
    platforms: tuple[str, ...]
    download_mb: float
    seconds: float
    no_deps: tuple[str, ...] = ()
    isolated: bool = False
    programs: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def command(self) -> str:
        """The command that makes the environment."""
        return f"mindgap env create {self.name}"

    @property
    def made(self) -> Environment | None:
        """The environment of that name, where there is one. Raises `EnvironmentProblem` for a damaged record."""
        return find(self.name) if is_complete(self.name) else None

    def missing_programs(self) -> list[str]:
        """One line for each program that is not on the PATH."""
        return [
            f"{self.name} needs {program} at run time, which is not on this machine: {remedy}"
            for program, remedy in self.programs.items()
            if shutil.which(program) is None
        ]


@cache
def recipes() -> Mapping[str, Recipe]:
    """All recipes by name."""
    return {path.stem: _read(path) for path in sorted(_FOLDER.glob("*.toml"))}


def find_recipe(name: str) -> Recipe:
    """Returns a recipe. Raises `EnvironmentProblem` where there is none of that name."""
    known = recipes()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"
    raise EnvironmentProblem(
        f"no recipe {name}: {hint}; else say what to install (as in 'onnxruntime==1.28.0'), or adopt an environment "
        "(--python)"
    )


def recipe_of(platform: str) -> Recipe | None:
    """The recipe of a platform's environment (`DEVICE/MODE`); None for a platform without one."""
    return next((each for each in recipes().values() if platform in each.platforms), None)


def _read(path: Path) -> Recipe:
    data: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    lists = {name: tuple(data.pop(name, ())) for name in ("requirements", "no_deps", "platforms")}
    return Recipe(name=path.stem, **lists, **data)
