"""Samples of modules: seeded as zoo models are, captured forward and backward."""

import pytest
import torch

from mindgap.graph import Stored
from mindgap.sources import CaptureFailure, SourceError, capture_program, capture_source, open_source
from mindgap_zoo.operator_samples.modules import names


def test_the_suite_is_whole():
    assert len(names()) > 100 and {"Linear", "LSTM", "TransformerEncoderLayer"} <= set(names())


def test_samples_are_numbered_and_come_again_equal():
    every = open_source("modules:nn.Linear#*")
    assert [one.source for one in every] == [f"modules:Linear#{k}" for k in range(len(every))]
    graph, again = capture_program(every[0]), capture_program(open_source("modules:Linear#0")[0])
    assert graph == again
    assert {given.role for given in graph.inputs} == {"input", "parameter"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["LSTM", "LazyConv2d", "BatchNorm2d", "MultiheadAttention", "NLLLoss"])
def test_kinds_of_modules_in_both_directions(name):
    for backward in (False, True):
        for label, graph in capture_source(f"modules:{name}", backward=backward):
            assert not isinstance(graph, CaptureFailure), f"{label}: {graph}"
            assert not any(isinstance(given.recipe, Stored) for given in graph.inputs)


def test_train_and_dtype_reach_the_module():
    (program,) = open_source("modules:BatchNorm1d#0?train=1&dtype=bfloat16")
    module, (x,), _ = program.build()
    assert module.training and x.dtype == torch.bfloat16 == module.weight.dtype
    (program,) = open_source("modules:BatchNorm1d#0")
    assert not program.build()[0].training


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("modules:Linea", "did you mean Linear"),
        ("modules:Linear#99", "numbered 0 to"),
        ("modules:ReLU?batch=2", "no option 'batch'"),
    ],
)
def test_bad_names_are_one_line(text, says):
    with pytest.raises(SourceError, match=says) as refused:
        open_source(text)
    assert "\n" not in str(refused.value)
