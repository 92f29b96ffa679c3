"""The user's own files and modules: every form of result, and a clear line for everything else."""

import sys
import textwrap

import pytest
import torch

from mindgap.sources import SourceError, capture_source, open_source

MODEL = """
import torch
from torch import nn

def module():
    return nn.Linear(3, 2), torch.ones(1, 3)

def with_kwargs():
    return nn.Bilinear(3, 4, 2), (torch.ones(1, 3),), {"input2": torch.ones(1, 4)}

def function():
    return (lambda x, y: x @ y), (torch.ones(2, 3), torch.ones(3, 2))

def several():
    return [("first", nn.Linear(3, 2), torch.ones(1, 3)), (nn.ReLU(), [torch.ones(4)])]

def raising():
    a = 1
    raise ValueError("no weights\\nhere")

def wrong():
    return nn.Linear(3, 2)

def none():
    return []

not_a_function = 5
loose = nn.Linear(2, 2)
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(textwrap.dedent(MODEL))
    return path


def run(program):
    function, args, kwargs = program.build()
    return function(*args, **kwargs)


def test_each_form_of_result(model):
    (single,) = open_source(f"{model}:module")
    assert single.name == "model:module"
    assert run(single).shape == (1, 2)
    (keyword,) = open_source(f"{model}:with_kwargs")
    assert run(keyword).shape == (1, 2)
    (function,) = open_source(f"{model}:function")
    assert torch.equal(run(function), torch.full((2, 2), 3.0))
    first, second = open_source(f"{model}:several")
    assert (first.name, second.name) == ("first", "model:several[1]")
    assert run(second).tolist() == [1.0] * 4


def test_each_of_several_models_has_a_source_of_its_own(model):
    sources = [program.source for program in open_source(f"{model}:several?seed=3")]
    assert sources == [f"{model}:several#0?seed=3", f"{model}:several#1?seed=3"]
    (second,) = open_source(sources[1])
    assert second.name == "model:several[1]"
    assert run(second).tolist() == [1.0] * 4
    assert open_source(f"{model}:module#0")[0].name == "model:module"
    with pytest.raises(SourceError, match=r"no item 2, it returned 2"):
        open_source(f"{model}:several#2")
    with pytest.raises(SourceError, match=r"no source"):
        open_source(f"{model}:several#x")


def test_weights_follow_the_seed_and_leave_the_generator_alone(model):
    before = torch.random.get_rng_state()
    outputs = [run(open_source(f"{model}:module?seed={seed}")[0]) for seed in (0, 0, 1)]
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_dtype_is_given_to_weights_and_arguments(model):
    assert run(open_source(f"{model}:module?dtype=bfloat16")[0]).dtype == torch.bfloat16


def test_a_module_by_its_dotted_name(model, monkeypatch):
    monkeypatch.chdir(model.parent)
    (folder := model.parent / "mindgap_test_zoo").mkdir()
    model.rename(folder / "nets.py")
    (program,) = open_source("mindgap_test_zoo.nets:module")
    assert program.name == "mindgap_test_zoo.nets:module" and run(program).shape == (1, 2)


def test_a_parser_of_arguments_in_the_file_gives_its_defaults(model):
    model.write_text(
        "import argparse, torch\n"
        "parser = argparse.ArgumentParser()\n"
        "parser.add_argument('--width', type=int, default=3)\n"
        "parser.parse_args()\n"
        "def make():\n"
        "    return torch.nn.ReLU(), (torch.ones(1, parser.parse_args().width),)\n"
    )
    before = [*sys.argv]
    assert run(open_source(f"{model}:make")[0]).shape == (1, 3)
    assert sys.argv == before


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("modul", "did you mean module"),
        ("raising", r"ValueError: no weights \(line 19\)"),
        ("wrong", "a Linear; return"),
        ("none", "empty list"),
        ("not_a_function", "is a int"),
        ("loose", "is a Linear; name a function"),
    ],
)
def test_wrong_callables_are_named_in_one_line(model, name, says):
    with pytest.raises(SourceError, match=says) as refused:
        open_source(f"{model}:{name}")
    assert "\n" not in str(refused.value)


def test_missing_files_and_modules(model):
    with pytest.raises(SourceError, match=r"modle.py: no such file; did you mean model.py"):
        open_source(f"{model.parent}/modle.py:module")
    with pytest.raises(SourceError, match="no such module"):
        open_source("no_such_package.models:make")
    model.write_text("import no_such_dependency")
    with pytest.raises(
        SourceError, match=r"no_such_dependency.*\(line 1\): install its package beside mindgap, or open"
    ):
        open_source(f"{model}:module")
    model.write_text("def module():\n    import no_such_dependency")
    with pytest.raises(SourceError, match=r"no_such_dependency.*\(line 2\): install its package beside mindgap"):
        open_source(f"{model}:module")
    model.write_text("def (")
    with pytest.raises(SourceError, match=r"SyntaxError.*\(line 1\)"):
        open_source(f"{model}:module")


def test_one_model_that_cannot_be_captured_does_not_stop_the_others(tmp_path):
    path = tmp_path / "two.py"
    path.write_text(
        "import torch\n"
        "def both():\n"
        "    bad = lambda x: x if x.sum() > 0 else -x\n"
        "    return [('bad', bad, torch.ones(3)), ('good', torch.nn.ReLU(), torch.ones(3))]\n"
    )
    found = dict(capture_source(f"{path}:both"))
    assert "sum" in found["bad"].reason or "value" in found["bad"].reason
    assert [node.op for node in found["good"].nodes] == ["aten.relu.default"]


OPERATORS = """
import torch

@torch.library.custom_op("mindgap_twice::tripled", mutates_args=())
def tripled(x: torch.Tensor) -> torch.Tensor:
    return x * 3

library = torch.library.Library("mindgap_twice_library", "DEF")
library.define("halved(Tensor x) -> Tensor")
library.impl("halved", lambda x: x / 2, "CPU")

def first():
    return (lambda x: tripled(x)), (torch.ones(2),)

def second():
    return (lambda x: torch.ops.mindgap_twice_library.halved(x)), (torch.ones(2),)
"""


def test_a_file_that_defines_operators_is_run_once(tmp_path):
    (tmp_path / "operators.py").write_text(OPERATORS)
    both = [open_source(f"{tmp_path}/operators.py:{name}")[0] for name in ("first", "second")]
    found = []
    for one in both:
        function, args, _ = one.build()
        found.append(function(*args).tolist())
    assert found == [[3.0, 3.0], [0.5, 0.5]]
