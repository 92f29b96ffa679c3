"""Files that ONNX Runtime's tools convert, on ONNX Runtime and on ONNX's reference evaluator."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from mindgap.cli.sources import only_program, source_client
from mindgap.graph import Graph, TensorStore
from mindgap.platforms.registry import canonical
from mindgap_diagnosis.precision.finding import Bound, Precision, find_precision
from mindgap_diagnosis.precision.targets import opened_target
from platforms.byte_products import ADDS_BYTE_PRODUCTS_EXACTLY

Capture = Callable[[str], Graph]


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> TensorStore:
    return TensorStore(tmp_path_factory.mktemp("tensors"))


@pytest.fixture(scope="module")
def capture(tensors: TensorStore) -> Iterator[Capture]:
    with source_client(tensors, 120.0, None) as client:
        yield lambda source: client.capture(only_program(client, source), 0)


def write(path: Path, nodes: list[onnx.NodeProto], shape: tuple[int, ...], **weights: np.ndarray) -> Path:
    """Writes a model from `x` to `y`."""
    values = [helper.make_tensor_value_info(name, 1, each) for name, each in (("x", shape), ("y", None))]
    held = [numpy_helper.from_array(np.asarray(array, np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.fixture
def norm(tmp_path: Path) -> Path:
    """A norm by hand, as after conversion from PyTorch: squares overflow."""
    eye = np.eye(8) * 300
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="/up/MatMul"),
        helper.make_node("Mul", ["a", "a"], ["b"], name="/norm/Pow"),
        helper.make_node("ReduceSum", ["b"], ["c"], name="/norm/ReduceSum"),
        helper.make_node("Sqrt", ["c"], ["d"], name="/norm/Sqrt"),
        helper.make_node("Div", ["a", "d"], ["y"], name="/norm/Div"),
    ]
    return write(tmp_path / "norm.onnx", nodes, (2, 8), w=eye)


def answer(
    capture: Capture, path: Path, platform: str, to: str, bound: Bound, tensors: TensorStore, save: Path | None = None
) -> Precision:
    with opened_target(capture, str(path), canonical(platform), to, tensors, 120.0) as target:
        found, kept, exact = find_precision(target, bound, path.name)
        if save is not None:
            assert bound.measured(exact, target.save(kept, save)) == pytest.approx(found.after)
        return found


def test_nodes_whose_values_overflow_stay_and_the_saved_file_is_right(
    capture: Capture, norm: Path, tensors: TensorStore
) -> None:
    """https://github.com/microsoft/onnxruntime/issues/21345: the tool casts to float16 also between blocked nodes."""
    saved = norm.with_name("mixed.onnx")
    found = answer(capture, norm, "onnx/reference", "float16", Bound(), tensors, saved)
    assert sorted(each.name for each in found.kept) == ["/norm/Pow", "/norm/ReduceSum", "/norm/Sqrt"]
    assert found.before == 1.0  # a number over infinity is zero
    assert found.lists["ONNX Runtime convert_float_to_float16"].startswith("node_block_list=['/norm/")
    assert "/norm/Div" not in str(found.lists)
    # The saved file computes the norm in float32 for any input, on ONNX Runtime too.
    x = np.linspace(1, 2, 16, dtype=np.float32).reshape(2, 8)
    plain, mixed = (onnxruntime.InferenceSession(path).run(None, {"x": x})[0] for path in (norm, saved))
    np.testing.assert_allclose(mixed, plain, rtol=3e-3)


def test_a_cpu_that_computes_float16_in_float32_needs_nothing_and_a_note_says_so(
    capture: Capture, norm: Path, tensors: TensorStore
) -> None:
    found = answer(capture, norm, "onnxruntime/cpu", "float16", Bound(), tensors)
    assert found.kept == ()
    assert "onnx/reference" in found.notes[0]


def test_nodes_of_large_range_are_excluded_from_int8(capture: Capture, tmp_path: Path, tensors: TensorStore) -> None:
    """https://github.com/microsoft/onnxruntime/issues/14233: a detector's last nodes join scores and pixels in one
    tensor, whose steps of 8 bits are larger than a score."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="Conv_0"),
        helper.make_node("Sigmoid", ["a"], ["b"], name="Sigmoid_1"),
        helper.make_node("Mul", ["b", "pixels"], ["c"], name="Mul_2"),
        helper.make_node("Concat", ["b", "c"], ["y"], name="Concat_3", axis=1),
    ]
    w = random.normal(size=(4, 3, 1, 1)) * 0.3
    path = write(tmp_path / "head.onnx", nodes, (1, 3, 8, 8), w=w, pixels=np.float32(640))
    scores = 4 * 64  # scores are the first half of the output

    class OfScores(Bound):
        def measured(self, exact: list, given: list) -> float:
            a, b = (each[0].reshape(-1)[:scores] for each in (exact, given))
            return float(np.abs(a - b).max())

    found = answer(capture, path, "onnxruntime/cpu", "int8", OfScores(0.05), tensors)
    assert found.before > 0.5
    assert "Concat_3" in {each.name for each in found.kept}
    if ADDS_BYTE_PRODUCTS_EXACTLY:
        assert "Conv_0" not in {each.name for each in found.kept}
    assert found.lists["ONNX Runtime quantize_static"].startswith("nodes_to_exclude=[")


def test_nodes_that_only_move_data_between_kept_ones_are_in_the_list(
    capture: Capture, tmp_path: Path, tensors: TensorStore
) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "big"], ["a"], name="up"),
        helper.make_node("Transpose", ["a"], ["b"], name="turn", perm=[1, 0]),
        helper.make_node("Neg", ["b"], ["c"], name="negate"),
        helper.make_node("Div", ["c", "big"], ["d"], name="down"),
        helper.make_node("Transpose", ["d"], ["y"], name="back", perm=[1, 0]),
    ]
    path = write(tmp_path / "moves.onnx", nodes, (3, 4), big=np.float32(60000))
    found = answer(capture, path, "onnx/reference", "float16", Bound(), tensors)
    assert {each.name for each in found.kept} == {"up", "down"}
    assert found.carriers == ("turn", "negate", "back")
    assert "'turn'" in found.lists["ONNX Runtime convert_float_to_float16"]


def test_nodes_without_names_get_some(capture: Capture, norm: Path, tensors: TensorStore) -> None:
    model = onnx.load(norm)
    for node in model.graph.node:
        node.name = ""
    onnx.save(model, norm)
    found = answer(capture, norm, "onnx/reference", "float16", Bound(), tensors)
    assert sorted(each.name for each in found.kept) == ["Mul_1", "ReduceSum_2", "Sqrt_3"]
