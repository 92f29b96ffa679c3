"""A second opinion must not come from what is in dispute."""

import torch
import torch.nn.functional as F

from mindgap.graph_capture import capture
from mindgap.judge.oracle import Oracle
from mindgap.judge.trace.independent import second_opinion


def _opinion(program, *args):
    graph = capture(program, args)
    return second_opinion(Oracle(graph, [a.numpy() for a in args]), len(graph.nodes) - 1)


def test_the_compilers_own_max_pool_is_not_asked():
    x = torch.full((1, 1, 9, 9), -torch.inf)
    assert _opinion(lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), x) is None


def test_numpy_is_asked_for_what_it_has():
    x = torch.tensor([-7.5, 7.5, 1.0])
    opinion = _opinion(lambda x: torch.remainder(x, 3.0), x)
    assert opinion is not None
    assert opinion[0].tolist() == [1.5, 1.5, 1.0]


def test_a_compiler_of_decompositions_is_not_acquitted_by_one():
    x = torch.linspace(-2, 2, 8)
    oracle = Oracle(capture(F.gelu, (x,)), [x.numpy()])
    assert second_opinion(oracle, 0, decompositions=False) is None
    assert second_opinion(oracle, 0) is not None
