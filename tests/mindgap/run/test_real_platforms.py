"""Workers on PyTorch itself: one warm process, real operators, real exhaustion of memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mindgap.graph import DType, Graph, Input, Node, Normal, Ref, TensorSpec, materialise_all
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool

EAGER = "cpu/eager@threads=1"


def linear(seed: int) -> Graph:
    """relu(x @ w + b) in float32."""
    x, w, y = (TensorSpec.contiguous("float32", s) for s in ((2, 8), (8, 4), (2, 4)))
    b = TensorSpec.contiguous("float32", (4,))
    nodes = (
        Node("aten.mm.default", (Ref(0), Ref(1)), (), (y,)),
        Node("aten.add.Tensor", (Ref(3), Ref(2)), (), (y,)),
        Node("aten.relu.default", (Ref(4),), (), (y,)),
    )
    inputs = (Input(x, Normal(seed)), Input(w, Normal(seed + 1), "parameter"), Input(b, Normal(seed + 2), "parameter"))
    return Graph(inputs, nodes, (5,))


def test_eager_runs_graphs_and_describes_itself(make_pool: Callable[..., WorkerPool]) -> None:
    pool = make_pool(EAGER)
    for seed in (0, 10):
        graph = linear(seed)
        outcome = pool.run(Job(EAGER, graph, "trace"))
        x, w, b = (a.astype(np.float64) for a in materialise_all(graph))
        assert outcome.status == "ok" and outcome.arrays is not None and outcome.values is not None, outcome.message
        np.testing.assert_allclose(outcome.arrays[0], np.maximum(x @ w + b, 0), rtol=1e-5, atol=1e-6)
        assert len(outcome.values) == 3 and all(v is not None for v in outcome.values)
    assert "torch" in str(pool.describe(EAGER)) and pool.starts(EAGER) == 1


def test_memory_that_torch_cannot_have_is_oom_and_the_worker_lives(make_pool: Callable[..., WorkerPool]) -> None:
    pool = make_pool(EAGER)
    shape = (1 << 46,)
    spec = TensorSpec.contiguous("float32", ())
    huge = Graph(
        (Input(spec, Normal(0)),),
        (
            Node("aten.zeros.default", (shape,), (("dtype", DType("float32")),), (TensorSpec("float32", shape, (1,)),)),
            Node("aten.mul.Tensor", (Ref(1), Ref(0)), (), (TensorSpec("float32", shape, (1,)),)),
            Node("aten.sum.default", (Ref(2),), (), (spec,)),
        ),
        (3,),
    )
    outcome = pool.run(Job(EAGER, huge))
    assert outcome.status == "oom" and "allocate" in outcome.message
    assert pool.run(Job(EAGER, linear(0))).status == "ok" and pool.starts(EAGER) == 1
