"""Counting of calls, and the draw."""

from collections import Counter
from pathlib import Path

import pytest

from mindgap.graph import MindgapError
from mindgap_studies.porting_runs.usage import count_calls, draw_functions


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "a.py").write_text("import jax.numpy as jnp\nx = jnp.sin(jnp.ones(3))\ny = jnp.pi\n")
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "b.py").write_text("from jax import lax\nlax.sin(1)\nlax.sin(2)\ninput('?')\n")
    (tmp_path / "c.py").write_text("import torch\ntorch.sin(1)\n")
    (tmp_path / "d.py").write_text("import jax\ndef broken(:\n")
    return tmp_path


def test_calls_are_counted_by_full_name_and_no_file_is_run(package: Path) -> None:
    usage = count_calls([package], "jax", seed=0)
    assert usage.calls == {"jax.numpy.sin": 1, "jax.numpy.ones": 1, "jax.lax.sin": 2}
    assert usage.files == 2 and usage.unreadable == {str(package / "d.py"): "line 2: invalid syntax"}


def test_a_file_that_is_in_two_folders_at_the_same_place_counts_once(package: Path, tmp_path_factory) -> None:  # type: ignore[no-untyped-def]
    copy = tmp_path_factory.mktemp("copy")
    (copy / "a.py").write_text((package / "a.py").read_text())
    both = count_calls([], "jax", packages=[package, copy], seed=0)
    assert both.calls == count_calls([package], "jax", seed=0).calls


def test_projects_are_parsed_whole_and_first(package: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Two projects may each have a `train.py`, and the limit of files is one of packages."""
    project = tmp_path_factory.mktemp("projects")
    for name, function in (("a", "cos"), ("b", "tan")):
        (project / name).mkdir()
        (project / name / "train.py").write_text(f"from jax import numpy\nnumpy.{function}(1)\n")
    folders = [project / "a", project / "b"]
    assert count_calls(folders, "jax", packages=[package], seed=0, most=1).calls == {
        "jax.numpy.cos": 1, "jax.numpy.tan": 1,
    }  # fmt: skip
    assert count_calls([*folders, project], "jax", packages=[package, project], seed=0, most=4).files == 4


def test_no_more_files_are_parsed_than_asked_for(package: Path) -> None:
    assert count_calls([], "jax", packages=[package], seed=0, most=1).files == 1


def test_what_cannot_be_counted_is_named(package: Path) -> None:
    with pytest.raises(MindgapError, match="no Python file imports tensorflow"):
        count_calls([package], "tensorflow", seed=0)


USES = Counter({f"f{number:03}": 1000 - number for number in range(200)})


def test_the_draw_has_the_most_used_and_some_of_each_decile() -> None:
    drawn, left_out = draw_functions(USES, top=10, per_decile=5, seed=0, untestable=lambda name: "")
    ranked = sorted(USES)
    assert [each.name for each in drawn if each.stratum == "top"] == ranked[:10]
    assert len(drawn) == len({each.name for each in drawn}) == 60 and not left_out
    for decile in range(10):
        mine = {each.name for each in drawn if each.stratum == f"decile {decile + 1}"}
        assert len(mine) == 5 and mine <= set(ranked[20 * decile : 20 * decile + 20])


def test_the_same_seed_draws_the_same_and_another_seed_others() -> None:
    def names(seed: int) -> list[str]:
        return [each.name for each in draw_functions(USES, top=3, per_decile=2, seed=seed, untestable=str.isupper)[0]]  # type: ignore[arg-type]

    assert names(1) == names(1) != names(2)


def test_what_cannot_be_tested_is_replaced_within_its_stratum_and_named() -> None:
    def untestable(name: str) -> str:
        return "it has no sample" if int(name[1:]) % 2 else ""

    drawn, left_out = draw_functions(USES, top=5, per_decile=5, seed=0, untestable=untestable)
    assert [each.name for each in drawn[:5]] == ["f000", "f002", "f004", "f006", "f008"]
    assert len(drawn) == 55 and set(left_out.values()) == {"it has no sample"}
    assert not {each.name for each in drawn} & set(left_out)
