"""The truth about a fault agrees with what can be computed by hand."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.graph import materialise_all
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture
from mindgap.platforms.protocol import Unsupported
from mindgap_campaign.faulty.schema import Faults, read_faults
from mindgap_campaign.selftest.ground_truth import Effect, GroundTruth


class Chain(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.exp(torch.relu(x * 3)).sum(-1)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> GroundTruth:
    tensors = TensorStore(tmp_path_factory.mktemp("tensors"))
    graph = capture(Chain(), (torch.linspace(-1, 1, 40).reshape(4, 10),), tensors=tensors)
    assert [n.op.split(".")[1] for n in graph.nodes] == ["mul", "relu", "exp", "sum"]
    return GroundTruth(graph, materialise_all(graph, tensors))


def faults(tmp_path: Path, text: str) -> Faults:
    file = tmp_path / "faults.toml"
    file.write_text(text)
    return read_faults(str(file))[0]


def effect(ground: GroundTruth, tmp_path: Path, kind: str, op: str, more: str = "") -> Effect:
    return ground.effect(faults(tmp_path, f'[[fault]]\nkind = "{kind}"\nwhen = {{ op = "aten.{op}.*" }}\n{more}\n'))


def test_no_fault_has_no_effect(ground: GroundTruth) -> None:
    assert ground.effect(Faults()) == Effect({}, 0.0)


def test_a_local_change_is_over_the_operators_own_bound(ground: GroundTruth, tmp_path: Path) -> None:
    """2**8 ulp of a product with one rounding: between 2**8 and 2**9 units of u·|y|, less the slack's sixteenths."""
    found = effect(ground, tmp_path, "scaled", "mul", f"factor = {1 + 2.0**-15!r}")
    assert set(found.at_node) == {0}
    assert found.at_node[0].hard == pytest.approx(2.0**-15 / (2.0**-24 * (1 + 2 / 16)), rel=0.02)
    assert found.at_node[0].typical == found.at_node[0].hard
    assert found.faulty_nodes == (0,) and found.at_output > 16


def test_one_ulp_is_no_fault(ground: GroundTruth, tmp_path: Path) -> None:
    found = effect(ground, tmp_path, "noise", "exp")
    assert 0 < found.typical < 16 and found.faulty_nodes == () and 0 < found.at_output < 16


def test_a_change_that_no_output_shows(ground: GroundTruth, tmp_path: Path) -> None:
    """Element 0 is negative: relu masks whatever the product made of it."""
    found = effect(ground, tmp_path, "wrong_element", "mul", "index = 0\nscale = 2.0")
    assert found.hard > 16 and found.at_output == 0


def test_classes_and_structure_are_infinitely_far(ground: GroundTruth, tmp_path: Path) -> None:
    assert effect(ground, tmp_path, "scaled", "exp", "factor = inf").at_node[2].hard == math.inf
    shape = effect(ground, tmp_path, "wrong_shape", "sum", 'how = "extra"')
    assert (shape.at_node[3].hard, shape.at_output, shape.failed) == (math.inf, math.inf, False)


def test_a_failure_counts_where_it_happens(ground: GroundTruth, tmp_path: Path) -> None:
    raised = effect(ground, tmp_path, "runtime_error", "relu")
    assert raised.failed and raised.faulty_nodes == (1,) and raised.at_output == math.inf
    refused = effect(ground, tmp_path, "compile_error", "exp")
    assert refused.failed and refused.faulty_nodes == (2,)
    # An integer result is a dtype that exp takes, and relu's damage is still relu's.
    assert effect(ground, tmp_path, "wrong_dtype", "relu", 'dtype = "bool"').faulty_nodes[0] == 1


def test_a_refusal_is_told_apart(ground: GroundTruth, tmp_path: Path) -> None:
    with pytest.raises(Unsupported):
        effect(ground, tmp_path, "refusal", "exp")


def test_rounding_operators_have_room_everywhere(ground: GroundTruth) -> None:
    """relu moves data exactly; the others round, and no element here is zero before relu."""
    found = ground.rounding_operators()
    assert "aten.exp.default" in found and "aten.sum.dim_IntList" in found and "aten.relu.default" not in found


def test_in_place_and_repeated_faults_are_local(tmp_path: Path) -> None:
    class InPlace(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            a = x * y
            a.add_(y)
            return a.add_(x)

    tensors = TensorStore(tmp_path / "tensors")
    x = torch.from_numpy(np.linspace(1, 2, 8, dtype=np.float32))
    graph = capture(InPlace(), (x, x + 1), tensors=tensors)
    found = effect(GroundTruth(graph, materialise_all(graph, tensors)), tmp_path, "scaled", "add_", "factor = 1.5")
    writers = [i for i, n in enumerate(graph.nodes) if n.op.startswith("aten.add_")]
    assert list(found.faulty_nodes) == writers and len(writers) == 2
    # Each is half its own size off: the second has not inherited the first one's damage.
    sizes = [found.at_node[i].hard for i in writers]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.5)
