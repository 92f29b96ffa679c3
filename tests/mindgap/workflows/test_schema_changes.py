"""Operators whose schemas differ between two versions of PyTorch."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mindgap.aten.schemas import schemas
from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec
from mindgap.platforms.environments import Environment, EnvironmentProblem
from mindgap.platforms.environments.installation import adopt
from mindgap.workflows.diff.schema_changes import SchemaChange, calls_of, schema_changes

SPEC = TensorSpec("float32", (5,), (1,))
GELU = "aten.gelu.default"


def graph(op: str, *args: Any, **kwargs: Any) -> Graph:
    node = Node(op, (Ref(0), *args), tuple(kwargs.items()), (SPEC,))
    return Graph((Input(SPEC, Constant(0.5), "input"),), (node,), (1,))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    return tmp_path


def with_schema(folder: Path, answer: object) -> str:
    """An environment whose PyTorch answers this."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    python.chmod(0o755)
    made = Environment("other", str(python))
    made.folder.mkdir(parents=True)
    made.save()
    return "other"


def changed(folder: Path, schema: dict[str, Any], program: Graph) -> tuple[SchemaChange, ...]:
    there = with_schema(folder, schema)
    return schema_changes({"m": calls_of(program)}, None, there)


def other_gelu(*more: list[Any], default: str) -> dict[str, Any]:
    arguments = [["self", None, False, "Tensor"], ["approximate", default, True, "str"], *more]
    return {GELU: {"schema": "aten::gelu(another)", "arguments": arguments}}


@pytest.mark.nightly
def test_a_default_that_a_graph_leaves_out(home: Path) -> None:
    (found,) = changed(home, other_gelu(default="'tanh'"), graph(GELU))
    assert found.changes == ("the default of approximate is 'tanh', was 'none': the graphs leave it out",)
    assert found.defaults and found.models == ("m",) and found.op == GELU
    assert (
        found.before.startswith("aten::gelu(Tensor self, *, str approximate") and found.after == "aten::gelu(another)"
    )


@pytest.mark.nightly
def test_a_default_that_a_graph_names(home: Path) -> None:
    (found,) = changed(home, other_gelu(default="'tanh'"), graph(GELU, approximate="none"))
    assert not found.defaults and found.changes[0].endswith("and no graph leaves it out")


def test_arguments_that_come_and_go(home: Path) -> None:
    (found,) = changed(home, other_gelu(["scale", "1.0", True, "float"], default="'none'"), graph(GELU))
    assert found.changes == ("scale is new, 1.0 by default",) and not found.defaults


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("kind", "said"), [("Tensor", ("self is now called input",)), ("int", ("input is new", "self is gone"))]
)
def test_an_argument_that_has_another_name(home: Path, kind: str, said: tuple[str, ...]) -> None:
    arguments = [["input", None, False, kind], ["approximate", "'none'", True, "str"]]
    (found,) = changed(home, {GELU: {"schema": "aten::gelu(another)", "arguments": arguments}}, graph(GELU))
    assert found.changes == said and not found.defaults


def test_an_operator_that_is_gone(home: Path) -> None:
    (found,) = changed(home, {}, graph(GELU))
    assert found.after == "" and found.changes == ("the new version has no such operator",)


def test_equal_schemas_are_no_change(home: Path) -> None:
    assert changed(home, schemas([GELU]), graph(GELU)) == ()


@pytest.mark.nightly
def test_a_real_environment_answers(home: Path) -> None:
    adopt("here", sys.executable, lambda line: None)
    assert schema_changes({"m": calls_of(graph(GELU))}, None, "here") == ()


@pytest.mark.nightly
def test_an_environment_that_does_not_answer(home: Path) -> None:
    with pytest.raises(EnvironmentProblem, match="environment gone: its operators cannot be asked for"):
        python = home / "python"
        python.write_text("#!/bin/sh\necho no torch >&2; exit 1\n")
        python.chmod(0o755)
        made = Environment("gone", str(python))
        made.folder.mkdir(parents=True)
        made.save()
        schema_changes({"m": calls_of(graph(GELU))}, None, "gone")
