"""Recipes: every one is complete and names platforms that exist; what is missing is a line that says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mindgap.cli.app import main
from mindgap.platforms.environments import EnvironmentProblem, EnvironmentRecipe, find
from mindgap.platforms.environments.installation import create_from_recipe
from mindgap.platforms.environments.recipe import framework_recipes
from mindgap.platforms.listing import find_recipe, recipes
from mindgap.platforms.protocol import HasRecipe
from mindgap.platforms.registry import registered


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))


def a_recipe(**fields: object) -> EnvironmentRecipe:
    given = {"name": "tiny", "about": "nothing", "requirements": (), "platforms": ("tiny/cpu",)} | fields
    return EnvironmentRecipe(**given, download_mb=1, seconds=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", recipes())
def test_a_recipe_is_pinned_and_serves_platforms_that_exist(name: str) -> None:
    found = find_recipe(name)
    assert (
        found.about
        and (found.platforms or found.machine or name in framework_recipes())
        and found.download_mb > 0
        and found.seconds > 0
    )
    assert all("==" in each for each in (*found.requirements, *found.no_deps))
    backends = [registered(platform) for platform in found.platforms]
    named = {backend.recipe.stem for backend in backends if isinstance(backend, HasRecipe) and backend.recipe}
    assert named == ({name} if found.platforms else set())


def test_an_unknown_name_without_requirements_gets_the_nearest_recipe() -> None:
    with pytest.raises(EnvironmentProblem, match=r"no recipe tinygrat: did you mean tinygrad or tinygrad-webgpu\?"):
        find_recipe("tinygrat")
    assert "cpu/eager" not in {platform for each in recipes().values() for platform in each.platforms}


def test_the_recipe_is_followed_and_recorded() -> None:
    said: list[str] = []
    made = create_from_recipe(a_recipe(programs={"no-such-compiler": "apt install it"}), said.append)
    assert made == find("tiny") and made.layered and made.created
    assert said[-1] == "tiny needs no-such-compiler at run time, which is not on this machine: apt install it"


def test_another_pytorch_is_not_installed() -> None:
    with pytest.raises(EnvironmentProblem, match=r"torch==1\.0 cannot be installed"):
        create_from_recipe(a_recipe(requirements=("--no-index", "torch==1.0")), lambda line: None)
    assert find_recipe("tinygrad").made is None


@pytest.mark.nightly  # it installs what workers need, from the package index
def test_an_isolated_recipe_takes_nothing_from_mindgap() -> None:
    made = create_from_recipe(a_recipe(isolated=True), lambda line: None)
    assert not made.layered and made.facts("torch", "onnx").missing == ("torch", "onnx")


def test_the_command_lists_them(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "recipes", "--json"]) == 0
    listed = json.loads(capfd.readouterr().out)
    assert {each["name"] for each in listed} == recipes().keys() and not any(each["made"] for each in listed)
    assert main(["env", "recipes"]) == 0
    assert "mindgap env create tinygrad" in capfd.readouterr().out


def test_the_command_follows_one(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("mindgap.platforms.listing.recipes", lambda: {"tiny": a_recipe()})
    assert main(["env", "create", "tiny"]) == 0
    assert capfd.readouterr().out.startswith("environment tiny: ")
    assert main(["env", "create", "tiny", "--isolated"]) == 2
    assert "--isolated takes requirements" in capfd.readouterr().err
