"""A graph as ONNX: what the exporter itself would write, with nothing lost on the way."""

from collections import Counter

import numpy as np
import onnx
import pytest
import torch

from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec, concatenate
from mindgap.platforms.onnx import export as onnx_export, external_data
from mindgap.platforms.onnx.export import export
from mindgap.platforms.onnxruntime.backend import BACKEND
from mindgap.platforms.protocol import CompileFailure, Unsupported
from platforms.onnx_graphs import captured, eager, normal, resnet18, vit


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def runtime():
    return BACKEND.open({})


def operators(model: bytes) -> Counter:
    return Counter(node.op_type for node in onnx.load_from_string(model).graph.node)


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec.contiguous(dtype, shape)


def fed(*shape: int, dtype: str = "float32", role: str = "input") -> Input:
    return Input(spec(*shape, dtype=dtype), Constant(0), role)


@pytest.mark.parametrize("make", [resnet18, vit])
def test_writes_the_operators_that_the_exporter_writes(make):
    model, example = make()
    graph, inputs = captured(model, example)
    official = torch.onnx.export(model, (example,), dynamo=True, verbose=False).model_proto.SerializeToString()
    assert operators(export(graph, inputs).model) == operators(official)


def test_decompositions_keep_their_operands_apart(runtime):
    norm = torch.nn.BatchNorm1d(5).eval()
    for offset, tensor in enumerate((norm.weight, norm.bias, norm.running_mean, norm.running_var)):
        tensor.data.copy_(torch.arange(1.0, 6.0) + 10 * offset)
    graph, inputs = captured(norm, normal(3, 5))
    executable = runtime.load(graph, inputs)
    assert "aten.batch_norm.default" in executable.facts["decomposed"]
    np.testing.assert_allclose(executable(inputs)[0], eager(graph, inputs)[0], rtol=1e-5)


def test_decompositions_tell_one_from_one_point_zero(runtime):
    for divisor, dtype in ((2, "int64"), (2.0, "float32")):
        node = Node("aten.floor_divide.Scalar", (Ref(0), divisor), (), (spec(2, dtype=dtype),))
        values = [np.array([5, -5])]
        executable = runtime.load(Graph((fed(2, dtype="int64"),), (node,), (1,)), values)
        assert "aten.floor_divide.Scalar" in executable.facts["decomposed"]
        assert executable(values)[0].dtype == dtype


def test_feeds_inputs_and_draws_and_holds_the_rest():
    roles = ("input", "parameter", "random", "buffer", "constant")
    inputs = tuple(fed(3, role=role) for role in roles)
    nodes, total = [], 0
    for number in range(1, len(roles)):
        nodes.append(Node("aten.add.Tensor", (Ref(total), Ref(number)), (), (spec(3),)))
        total = len(roles) + number - 1
    graph = Graph(inputs, tuple(nodes), (total,))
    values = [np.full(3, 10.0**n, np.float32) for n in range(len(roles))]
    exported = export(graph, values, optimize=False)
    assert exported.fed == (0, 2)
    held = {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load_from_string(exported.model).graph.initializer}
    assert [held[f"in{n}"][0] for n in (1, 3, 4)] == [10.0, 1000.0, 10000.0]


def test_random_inputs_are_fed_anew_at_each_call(runtime):
    graph = Graph((fed(3), fed(3, role="random")), (Node("aten.mul.Tensor", (Ref(0), Ref(1)), (), (spec(3),)),), (2,))
    one, two = np.full(3, 2.0, np.float32), np.full(3, 3.0, np.float32)
    executable = runtime.load(graph, [one, one])
    assert executable([one, two])[0].tolist() == [6.0, 6.0, 6.0]


def test_outputs_may_be_inputs_and_repeat(runtime):
    relu = Node("aten.relu.default", (Ref(0),), (), (spec(2),))
    graph = Graph((fed(2), fed(2, role="parameter"), fed(2)), (relu,), (0, 3, 3, 1, 1, 0))
    values = [np.array([-1, 1], np.float32), np.array([5, 6], np.float32), np.zeros(2, np.float32)]
    outputs = runtime.load(graph, values)(values)
    assert [o.tolist() for o in outputs] == [[-1, 1], [0, 1], [0, 1], [5, 6], [5, 6], [-1, 1]]


def test_a_graph_without_inputs(runtime):
    graph, inputs = captured(lambda: torch.arange(4, dtype=torch.float32) * 2)
    assert runtime.load(graph, inputs)(inputs)[0].tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_graph_without_nodes(runtime):
    value = np.array([[1.0, 2.0]], np.float32)
    assert runtime.load(Graph((fed(1, 2),), (), (0,)), [value])([value])[0].tolist() == [[1.0, 2.0]]


def test_scalars_booleans_and_empty_tensors(runtime):
    graph, inputs = captured(
        lambda x, b, e: (x + 1, b.logical_not(), torch.cat([e, e]), e.sum()),
        torch.tensor(2.5), torch.tensor([True, False]), torch.zeros(0, 3),
    )  # fmt: skip
    found = runtime.load(graph, inputs)(inputs)
    for ours, theirs in zip(found, eager(graph, inputs), strict=True):
        assert (ours.dtype, ours.shape, ours.tobytes()) == (theirs.dtype, theirs.shape, theirs.tobytes())


def test_a_slot_without_a_tensor_is_passed_over(runtime):
    outputs = (spec(2, 3), None, None)
    node = Node("aten._native_batch_norm_legit_no_training.default",
                (Ref(0), Ref(1), Ref(2), Ref(3), Ref(4), 0.1, 1e-5), (), outputs)  # fmt: skip
    graph = Graph((fed(2, 3), *(fed(3, role="parameter") for _ in range(4))), (node,), (5,))
    values = [np.ones((2, 3), np.float32), *(np.full(3, v, np.float32) for v in (2.0, 1.0, 0.0, 1.0))]
    np.testing.assert_allclose(runtime.load(graph, values)(values)[0], np.full((2, 3), 3.0), rtol=1e-4)


def test_writes_show_in_the_outputs_and_in_no_input(runtime):
    def program(x, state):
        state.add_(x)
        return state[0].mul_(2) + 1

    graph, inputs = captured(program, normal(2, 3), normal(2, 3, seed=1))
    before = [array.copy() for array in inputs]
    found = runtime.load(graph, inputs)(inputs)
    for ours, theirs in zip(found, eager(graph, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for now, then in zip(inputs, before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_islands_answer_as_each_alone(runtime):
    made = [captured(lambda x, n=n: (x * (n + 1)).softmax(-1).sum(0), normal(3, 4, seed=n % 3)) for n in range(12)]
    joined = concatenate([graph for graph, _ in made])
    inputs = [array for _, arrays in made for array in arrays]
    found = runtime.load(joined, inputs)(inputs)
    alone = [output for graph, arrays in made for output in runtime.load(graph, arrays)(arrays)]
    assert len(found) == len(alone) == 12
    for ours, theirs in zip(found, alone, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_names_the_operator_that_has_no_translation():
    graph, inputs = captured(torch.erfinv, torch.tensor([0.5]))
    with pytest.raises(Unsupported, match=r"prims\.erf_inv") as refused:
        export(graph, inputs)
    assert refused.value.op == "aten.erfinv.default"


def test_names_all_operators_that_have_no_translation():
    def program(x):
        return torch.special.i1(torch.special.i1(x)).tanh() + torch.nextafter(x, x.cummax(0).values)

    graph, arrays = captured(program, normal(4))
    with pytest.raises(Unsupported) as refusal:
        export(graph, arrays)
    assert (refusal.value.op, refusal.value.also) == (
        "aten.special_i1.default", ("aten.cummax.default", "aten.nextafter.default"),
    )  # fmt: skip


def test_names_the_in_place_operator_that_was_written():
    graph, inputs = captured(lambda x: (x + 0.25).erfinv_(), torch.tensor([0.5]))
    with pytest.raises(Unsupported) as refused:
        export(graph, inputs)
    assert refused.value.op == "aten.erfinv_.default"


def test_an_incomplete_translation_is_a_refusal():
    graph, inputs = captured(lambda x: torch.histc(x, 4), normal(9))
    with pytest.raises(Unsupported, match="incomplete") as refused:
        export(graph, inputs)
    assert refused.value.op == "aten.histc.default"


def test_a_translation_that_breaks_is_a_failure():
    graph, inputs = captured(torch.amax, normal(3))
    with pytest.raises(CompileFailure, match=r"aten\.amax\.default: translating it to ONNX failed"):
        export(graph, inputs)


def test_refuses_more_weights_than_a_file_holds(monkeypatch):
    big = Graph((fed(1), fed(600, 1000, 1000, role="parameter")), (), (0,))
    with pytest.raises(Unsupported, match=r"2\.4 GB of weights") as refused:
        export(big, [])
    assert refused.value.op == "model"
    assert onnx_export._MODEL_BYTES_LIMIT < 2**31


def test_large_weights_of_a_large_model_are_outside_it(monkeypatch):
    monkeypatch.setattr(external_data, "_MODEL_BYTES", 1 << 20)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(600, 512), torch.nn.Linear(512, 600), torch.nn.Linear(600, 600), torch.nn.LayerNorm(600)
    ).eval()
    graph, inputs = captured(model, torch.tensor([[3, 5, 599]]))
    whole, apart = export(graph, inputs), export(graph, inputs, apart=True)
    assert not whole.external.arrays and whole.external.mapped is None
    outside = apart.external
    assert sum(array.nbytes for array in outside.arrays.values()) > 3 << 20
    assert len(apart.model) + sum(array.nbytes for array in outside.arrays.values()) >= len(whole.model) - 4096
    # The table of embeddings is an input; the weights of the products were transposed, and are in a file.
    shared = [name for name, array in outside.arrays.items() if any(np.shares_memory(array, i) for i in inputs)]
    assert len(shared) == 1 and len(outside.arrays) == 3 and outside.mapped is not None
    before = {name: array.copy() for name, array in outside.arrays.items()}
    outside.forget_pages()
    assert all(np.array_equal(array, before[name]) for name, array in outside.arrays.items())


def test_weights_stay_in_memory_where_no_file_can_hold_them(monkeypatch):
    monkeypatch.setattr(external_data, "_MODEL_BYTES", 1 << 20)
    monkeypatch.setenv("MINDGAP_SHARED", "/dev/null/nowhere")
    graph, inputs = captured(torch.nn.Linear(600, 600).eval(), normal(1, 2, 600))
    found = export(graph, inputs, apart=True)
    assert found.external.mapped is None and len(found.external.arrays) == 1
    assert found.facts["weights"].startswith("in memory: ")


def test_a_small_model_holds_its_weights():
    graph, inputs = captured(torch.nn.Linear(600, 600), normal(2, 600))
    assert not export(graph, inputs, apart=True).external.arrays


def test_says_what_the_optimiser_folded():
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)).eval()
    graph, inputs = captured(model, normal(1, 2, 5, 5))
    facts = export(graph, inputs).facts
    assert facts["folded"]["BatchNormalization"] == 1
    assert "BatchNormalization" not in export(graph, inputs, optimize=False).facts["folded"]
    assert facts["exporter"].endswith("optimizer on")


def test_says_what_was_cast():
    graph, inputs = captured(lambda x, n: x * n, normal(3), torch.tensor([1, 2, 3]))
    assert export(graph, inputs).facts["promoted"] == ["aten.mul.Tensor"]
