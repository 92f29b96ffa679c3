"""Finds the first release of a package in which the script of each listed cause shows its fault, and keeps the answers.

    python tools/findings/releases.py docs/findings FOLDER --package NAME --oldest VERSION [SCRIPT…] [--with REQ…]

FOLDER is that of a platform (`openvino-cpu`). Chosen are the causes whose code at fault is in that package and that
have one version so far (`--all`: also the others). The oldest release runs first. Where a script does not show its
fault there, the first release that does is searched by bisection. Each release is installed in a layered environment,
made once and kept, as `mindgap bisect` does. A release that cannot be installed, or in which a script cannot be
checked, counts for nothing. The answers go into `runs.json`; `publish.py` writes them into the list.
`--with iree-base-runtime=={}` installs another package too, `{}` being the version, and
`--with 1.0.20260526:pnnx==20260526` with that version only. `--every N` looks at each Nth release only: the first one
is then known to N releases.
`--recipe RECIPE.toml` makes each environment by that recipe (`src/mindgap_runtimes/rknn/rknn.toml`), with the release
in place of the recipe's: for packages that pin others, or come from npm.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from established import package_of_code, read_established
from facts import read_facts
from run_scripts import Runs, run

from mindgap.platforms.environments import EnvironmentProblem, read_recipe
from mindgap.platforms.environments.environment import Environment
from mindgap.platforms.environments.installation import create_from_recipe, run as run_command
from mindgap.platforms.environments.recipe import EnvironmentRecipe, made_environment
from mindgap_diagnosis.versions.bisection import State, bisected
from mindgap_diagnosis.versions.releases import VersionedPackage, between, plain_version, releases

say = partial(print, flush=True)


class Releases:
    """The answers of scripts on releases. `others`: further requirements, `{}` for the version. `recipe`: how an
    environment is made, where not by those."""

    def __init__(
        self, directory: Path, package: str, others: tuple[str, ...], recipe: EnvironmentRecipe | None
    ) -> None:
        self._directory, self._package, self._others, self._recipe = directory, package, others, recipe
        self._runs = Runs(directory)
        self._python: dict[str, str] = {}

    def state(self, script: str, version: str) -> State:
        """Runs a script with a release. `bad`: it shows the fault, `skipped`: it was not checked."""
        python = self._installed(version)
        answer, printed = run(python, self._directory / script) if python else ("not installed", "")
        checked = answer.startswith(("fault", "no fault"))
        there = f"{self._package} {version}" in next(iter(printed.splitlines()), "")
        if checked and there:
            self._runs.note(script, versions={printed.splitlines()[0]: answer})
        print(f"{script}, {self._package} {version}: {answer}{'' if there or not checked else ', no such version'}")
        sys.stdout.flush()
        return "skipped" if not (checked and there) else "bad" if answer.startswith("fault") else "good"

    def _installed(self, version: str) -> str:
        """The Python of a release's environment; empty where it cannot be installed."""
        if version not in self._python:
            try:
                self._python[version] = self._made(version).python
            except EnvironmentProblem as problem:
                print(f"{self._package} {version}: {' '.join(str(problem).split())[:300]}", flush=True)
                self._python[version] = ""
        return self._python[version]

    def _made(self, version: str) -> Environment:
        """The environment of a release, made where there is none. Raises `EnvironmentProblem`."""
        if self._recipe is not None:
            recipe = of_release(self._recipe, self._package, version)
            return made_environment(recipe.name) or create_from_recipe(recipe, say)
        others = [each.removeprefix(f"{version}:") for each in self._others]
        return VersionedPackage(self._package, tuple(each for each in others if ":" not in each)).made(version, say)


def of_release(recipe: EnvironmentRecipe, package: str, version: str) -> EnvironmentRecipe:
    """A recipe with another release of one of its packages, and of what has the same version: IREE's runtime."""
    pins = (*recipe.requirements, *recipe.no_deps, *recipe.npm)
    (own,) = (own for name, own in (re.split("==|@", pin) for pin in pins) if name == package)

    def replaced(pins: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(re.sub(rf"(==|@){re.escape(own)}$", rf"\g<1>{version}", pin) for pin in pins)

    return dataclasses.replace(
        recipe,
        name=f"{package}-{version}",
        requirements=replaced(recipe.requirements),
        no_deps=replaced(recipe.no_deps),
        npm=replaced(recipe.npm),
    )


def releases_of_npm(package: str) -> list[str]:
    """The releases of a package of npm, oldest first, without previews."""
    listed: list[str] = json.loads(run_command(["npm", "view", package, "versions", "--json"], f"npm has no {package}"))
    return [version for version in listed if "-" not in version]


def first_bad(versions: list[str], at: Releases, script: str) -> str:
    """The first of `versions` in which a script shows its fault; empty where none but the newest is checked."""
    checked = iter(versions[:-1])
    for oldest in checked:
        state = at.state(script, oldest)
        if state != "skipped":
            rest = versions[versions.index(oldest) :]
            return oldest if state == "bad" else bisected(rest, "good", partial(at.state, script))[1]
    return ""


def chosen_causes(directory: Path, folder: str, package: str, scripts: list[str], every: bool) -> Mapping[str, Any]:
    """The listed causes of a folder whose code at fault is in a package, by script."""
    facts = read_facts(directory)
    causes = {cause.findings[0].script: cause for cause in read_established(directory)}
    here = {
        name: cause
        for name, cause in causes.items()
        if name.startswith(f"{folder}/") and package_of_code(cause, facts[name]) == package
    }
    if scripts or every:
        return {name: cause for name, cause in here.items() if not scripts or name in scripts}
    several = (" to ", "not in")
    return {
        name: cause
        for name, cause in here.items()
        if not any(word in text for word in several for text in cause.versions)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("folder")
    parser.add_argument("scripts", nargs="*", help="scripts, relative to the directory")
    parser.add_argument("--package", required=True)
    parser.add_argument("--oldest", required=True, metavar="VERSION")
    parser.add_argument("--with", dest="others", action="append", default=[], metavar="REQUIREMENT")
    parser.add_argument("--recipe", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--all", action="store_true", help="also causes with several versions")
    arguments = parser.parse_args()
    directory = arguments.directory.resolve()
    causes = chosen_causes(directory, arguments.folder, arguments.package, arguments.scripts, arguments.all)
    recipe = read_recipe(arguments.recipe.resolve()) if arguments.recipe else None
    listed = releases_of_npm(arguments.package) if recipe is not None and recipe.npm else releases(arguments.package)
    own = _own(directory, arguments.package, [*causes]) or listed[-1]
    versions = [*between(arguments.package, listed, arguments.oldest, own)]
    versions = [*versions[: -1 : arguments.every], versions[-1]]
    print(f"{len(causes)} causes, {arguments.package} {' '.join(versions)}", flush=True)
    at = Releases(directory, arguments.package, tuple(arguments.others), recipe)
    for name in causes:
        print(f"{name}: first {first_bad(versions, at, name) or 'not known'}", flush=True)
    return 0


def _own(directory: Path, package: str, scripts: list[str]) -> str:
    """The version in which the scripts showed their faults."""
    runs = json.loads((directory / "runs.json").read_text(encoding="utf-8"))
    for name in scripts:
        for part in str(runs.get(name, {}).get("printed", "")).partition("\n")[0].split(", "):
            if part.startswith(f"{package} "):
                return plain_version(part.removeprefix(f"{package} "))
    return ""


if __name__ == "__main__":
    sys.exit(main())
