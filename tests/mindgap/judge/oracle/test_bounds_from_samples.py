"""PyTorch's own kernels are calm on the samples that PyTorch tests its operators with, and their gradients.

The samples of a few operators whose gradients look places up stand for all of them: the sweep over the whole suite
takes minutes (`ops:*` forward and backward, each node alone against its bounds), and this is what it taught.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from judge.oracle.applied import applied, normal
from mindgap.aten.functional import functionalize
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Graph, materialise_all
from mindgap.judge.oracle import Oracle, internal_values
from mindgap.judge.oracle.bounds.rules import has_rule
from mindgap.judge.trace.single_operators import Confirmed, SingleOperators
from mindgap.run.outcome import Job
from mindgap.sources import CaptureFailure, capture_source


def executed(job: Job) -> Any:
    """What PyTorch gives for a job, in this process."""
    assert job.inputs is not None
    tensors = [to_torch(job.inputs[i], given.spec) for i, given in enumerate(job.graph.inputs)]
    with torch.no_grad():
        return SimpleNamespace(ran=True, status="ok", arrays=[to_numpy(t).copy() for t in Tape(job.graph).run(tensors)])


def wrong_nodes(graph: Graph) -> list[tuple[str, Confirmed]]:
    """Operators of a graph whose public results PyTorch gets wrong by themselves, by the oracle's bounds."""
    functional = functionalize(graph)
    oracle = Oracle(functional.graph, materialise_all(functional.graph))
    original = [graph.nodes[i].op for i in functional.origin]
    singles = SingleOperators(oracle, original, executed, 60.0, internal_values(functional.graph))
    found = [one for one in singles.confirmed("cpu/eager") if not one.internal]
    return [(functional.graph.nodes[one.nodes[0]].op, one) for one in found]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "name",
    [
        "cdist", "nn.functional.pdist", "nn.functional.embedding_bag", "nn.functional.fractional_max_pool3d",
        "nn.functional.multilabel_margin_loss", "logit", "linalg.solve", "linalg.eig", "linalg.eigh",
        "linalg.svd", "nn.functional.grid_sample", "nn.functional.rms_norm", "_upsample_bilinear2d_aa", "diagonal_copy",
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_samples_are_calm_both_ways(name: str) -> None:
    checked, alarms = 0, []
    for backward in (False, True):
        for label, graph in capture_source(f"ops:{name}", backward=backward):
            if isinstance(graph, CaptureFailure):
                continue
            checked += len(graph.nodes)
            alarms += [(label, op, one.kind, one.worst) for op, one in wrong_nodes(graph)]
    assert not alarms
    assert checked


@pytest.mark.parametrize("name", ["div.trunc_rounding", "nn.functional.embedding_bag", "log_softmax", "logit"])
@pytest.mark.filterwarnings("ignore")
def test_samples_of_a_narrow_dtype_are_calm(name: str) -> None:
    """Edges, sums and quotients that PyTorch's kernels keep in bfloat16."""
    graphs = [g for _, g in capture_source(f"ops:{name}?dtype=bfloat16", backward=True) if isinstance(g, Graph)]
    assert graphs and not [(op, one.kind, one.worst) for g in graphs for op, one in wrong_nodes(g)]


Call = tuple[str, tuple[Any, ...]]


def places(mode: int, padding: int, aligned: bool) -> Call:
    grid = normal(2, 5, 6, 2, seed=3, scale=0.8)
    both = [True, True]
    return "aten.grid_sampler_2d_backward.default", (
        normal(2, 3, 5, 6, seed=1), normal(2, 3, 7, 8, seed=2), grid, mode, padding, aligned, both
    )  # fmt: skip


def distances(p: float) -> list[Call]:
    a, b = normal(6, 4, seed=1), normal(5, 4, seed=2)
    g, near = normal(6, 5, seed=3), torch.cdist(a, b, p=p)
    pairs = torch.nn.functional.pdist(a, p=p)
    return [
        ("aten._cdist_backward.default", (g, a, b, p, near)),
        ("aten._pdist_backward.default", (normal(15, seed=4), a, p, pairs)),
    ]


def calls() -> list[Call]:
    found = [places(m, p, a) for m in (0, 1, 2) for p in (0, 1, 2) for a in (False, True)]
    for p in (0.5, 1.0, 1.5, 2.0, 3.0):
        found += distances(p)
    x = torch.sigmoid(normal(40, seed=5))
    return [
        *found,
        ("aten.logit_backward.default", (normal(40, seed=6), x)),
        ("aten.unfold_copy.default", (normal(3, 8, seed=7), 1, 3, 2)),
        ("aten.multi_margin_loss_backward.default",
         (torch.tensor(1.5), normal(6, 5, seed=8), torch.arange(6) % 5, 1, 1.0, None, 1)),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_kernels_are_calm(dtype: torch.dtype) -> None:
    alarms: list[str] = []
    ran = 0
    for op, args in calls():
        assert has_rule(op.split(".")[1]), op
        narrow = [a.to(dtype) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
        try:
            found = applied(op, *narrow).kinds()
        except NotImplementedError:
            continue
        except RuntimeError as error:
            assert "not implemented for" in str(error)
            continue
        ran += 1
        alarms += [f"{op} {args[3:6]}: {found}"] if any(k is not None for k in found) else []
    assert not alarms
    assert ran > 20 or dtype != torch.float32


def test_an_error_a_little_past_the_bound_is_seen_and_no_bound_is_wide() -> None:
    for op, args in calls():
        one = applied(op, *args)
        for slot, y in enumerate(one.outputs):
            if y is None or not y.numel() or not bool((y != 0).any()):
                continue
            if one.expected.hard[slot] is None or not bool((one.hard(slot) > 0).any()):
                wrong = torch.where(y == 0, 1.0, y * (1 + 1e-5))
            else:
                bound = one.hard(slot).expand(y.shape)
                assert float(bound.median()) < 1e-3 * float(y.abs().max()), (op, args[3:6], slot)
                wrong = (y.double() + 20 * bound + 2e-7 * y.abs()).float()
            assert one.kind(wrong, slot) is not None, f"{op} {args[3:6]} {slot}"


@pytest.mark.parametrize("op", ["cdist", "pdist"])
def test_the_largest_norm_says_little_of_ties_and_still_sees_nonsense(op: str) -> None:
    name, args = distances(float("inf"))[op == "pdist"]
    one = applied(name, *args)
    (y,) = one.outputs
    assert y is not None and one.kinds() == [None]
    assert one.kind(y + 1e3) is not None
