"""Recorded calls: what they may name, that they run as recorded, and what is said about bad ones."""

import json
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from mindgap.graph import Constant, Integers, Literal, Normal, Uniform, materialise_all, operands
from mindgap.graph_capture.errors import UnprovenCapture
from mindgap.sources import CaptureFailure, SourceError, capture_source, open_source
from mindgap_zoo.records import memory_budget as record_size
from mindgap_zoo.records.allowed_targets import UnknownTarget, attribute, function, method
from mindgap_zoo.records.recipes import record_recipe, scalar_value

WEIGHT = {"name": "P0", "kind": "parameter", "shape": [2, 3], "dtype": "float32", "mean": 0.5, "std": 0.2,
          "data": None, "path": "layer.weight"}  # fmt: skip
EXAMPLE = {"name": "X0", "kind": "input", "shape": [4, 3], "dtype": "float32", "mean": 0.0, "std": 1.0, "data": None,
           "original_name": "x"}  # fmt: skip
EPSILON = {"name": "X1", "kind": "input", "shape": [], "dtype": "float64", "mean": 0.0, "std": 0.0, "data": [0.25],
           "scalar": True, "original_name": "scale"}  # fmt: skip
NODES = [
    {
        "name": "y",
        "op": "call_function",
        "target": "torch._C._nn.linear",
        "args": [{"ref": "X0"}, {"ref": "P0"}],
        "kwargs": {},
    },
    {"name": "s", "op": "call_method", "target": "item", "args": [{"ref": "X1"}], "kwargs": {}},
    {"name": "z", "op": "call_function", "target": "operator.imul", "args": [{"ref": "y"}, {"ref": "s"}], "kwargs": {}},
    {"name": "t", "op": "getattr", "target": "T", "args": [{"ref": "z"}], "kwargs": {}},
    {"name": "r", "op": "call_method", "target": "reshape", "args": [{"ref": "t"}, {"tuple": [2, -1]}], "kwargs": {}},
]


def write(path, rows):
    columns = {"id": [name for name, _ in rows]}
    for column in ("inputs", "nodes", "outputs"):
        columns[column] = [json.dumps(record[column]) for _, record in rows]
    pq.write_table(pa.table(columns), path, row_group_size=2)
    return path


def record(nodes=NODES, inputs=(WEIGHT, EXAMPLE, EPSILON), outputs=({"ref": "r"},)):
    return {"inputs": list(inputs), "nodes": list(nodes), "outputs": list(outputs)}


@pytest.fixture
def file(tmp_path):
    names = ["zoo/a", "zoo/b", "zoo/a_large", "other/c"]
    return write(tmp_path / "records.parquet", [(name, record()) for name in names])


def test_a_record_runs_as_its_calls_say(file):
    (program,) = open_source(f"records:{file}#zoo/a")
    module, args, kwargs = program.build()
    weight = module.get_parameter("layer.weight")
    assert weight.std().item() < 0.3
    with torch.no_grad():
        (result,) = module(*args, **kwargs)
    assert torch.equal(result, ((args[0] @ weight.T) * 0.25).T)


def test_a_captured_record_describes_its_weights_by_recipes_bit_for_bit(file):
    ((name, graph),) = capture_source(f"records:{file}#zoo/a")
    assert name == "zoo/a"
    module, _, _ = open_source(f"records:{file}#zoo/a")[0].build()
    arrays = materialise_all(graph)
    by_name = dict(zip(graph.labels.inputs, arrays, strict=True))
    assert np.array_equal(by_name["layer.weight"], module.get_parameter("layer.weight").detach().numpy())
    assert not any(isinstance(given.recipe, Literal) for given in graph.inputs)


def test_a_record_that_takes_long_to_run_is_captured_from_shapes_and_said_to_be_unproven(file, monkeypatch):
    product = 2 * 4 * 3 * 2  # multiplications and additions of the one product
    for most, proven in ((product, True), (product - 1, False)):
        monkeypatch.setattr(record_size, "MOST_WORK", most)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UnprovenCapture)
            ((_, graph),) = capture_source(f"records:{file}#zoo/a")
        assert any(issubclass(each.category, UnprovenCapture) for each in said) is not proven
        assert graph.nodes[0].op == "aten.linear.default"


def test_ids_patterns_and_parts(file):
    assert [p.name for p in open_source(f"records:{file}#*")] == ["zoo/a", "zoo/b", "zoo/a_large", "other/c"]
    assert [p.name for p in open_source(f"records:{file}#zoo/?")] == ["zoo/a", "zoo/b"]
    assert [p.name for p in open_source(f"records:{file}#large")] == ["zoo/a_large"]
    for program in open_source(f"records:{file}#zoo/*?seed=3"):
        assert [p.name for p in open_source(program.source)] == [program.name]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [("#zoo/aa_lrge", "did you mean zoo/a_large"), ("#", "say which record"), ("", "say which record")],
)
def test_what_is_not_there(file, wanted, says):
    with pytest.raises(SourceError, match=says):
        open_source(f"records:{file}{wanted}")
    with pytest.raises(SourceError, match="no such file"):
        open_source(f"records:{file}x#a")


def test_a_file_of_another_kind(tmp_path):
    (tmp_path / "a.parquet").write_text("text")
    with pytest.raises(SourceError, match="not a Parquet file"):
        open_source(f"records:{tmp_path}/a.parquet#x")
    pq.write_table(pa.table({"id": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError, match="no column 'inputs'"):
        open_source(f"records:{tmp_path}/b.parquet#x")


HOSTILE = [
    ("call_function", "os.system", "os.system"),
    ("call_function", "builtins.eval", "builtins.eval"),
    ("call_function", "torch.load", "torch.load"),
    ("call_function", "torch.from_file", "torch.from_file"),
    ("call_function", "torch.hub.load", "torch.hub.load"),
    ("call_function", "torch.ops.load_library", "torch.ops.load_library"),
    ("call_function", "torch.ops.aten.from_file", "from_file"),
    ("call_function", "torch.ops.aten.save", "torch.ops.aten.save"),
    ("call_function", "torch.ops.aten.__class__", "__class__"),
    ("call_function", "torch.nn.functional.torch", "torch.nn.functional.torch"),
    ("call_function", "torch._C._nn.__loader__", "__loader__"),
    ("call_function", "operator.attrgetter", "attrgetter"),
    ("call_function", "operator.methodcaller", "methodcaller"),
    ("call_method", "apply_", "apply_"),
    ("call_method", "__reduce_ex__", "__reduce_ex__"),
    ("call_method", "data_ptr", "data_ptr"),
    ("getattr", "__class__", "__class__"),
    ("getattr", "grad_fn", "grad_fn"),
    ("call_module", "torch.nn.Linear", "call_module"),
]


@pytest.mark.parametrize(("kind", "target", "says"), HOSTILE)
def test_no_record_reaches_a_function_that_is_not_on_the_list(tmp_path, kind, target, says):
    bad = {"name": "r", "op": kind, "target": target, "args": [{"ref": "X0"}], "kwargs": {}}
    path = write(tmp_path / "bad.parquet", [("bad", record(nodes=[bad]))])
    ((_, failure),) = capture_source(f"records:{path}#bad")
    assert isinstance(failure, CaptureFailure)
    assert says in failure.reason and "not on the list" in failure.reason


def test_what_is_on_the_list():
    assert function("torch.nn.functional.softmax") is torch.nn.functional.softmax
    assert function("torch.functional.einsum") is torch.functional.einsum
    assert function("torch.ops.aten.index.Tensor") is torch.ops.aten.index.Tensor
    assert method("view") == "view"
    assert attribute("T") == "T"
    for wrong in ("torch", "", "torch.float32", "torch.Tensor", "torch.nn.functional", "math.sin"):
        with pytest.raises(UnknownTarget):
            function(wrong)


def test_every_target_of_the_published_collection_is_known(records):
    targets = json.loads((records.parent / "targets.json").read_text())
    for kind, target, *_ in targets:
        if kind == "call_method":
            method(target)
        elif kind == "getattr":
            attribute(target)
        elif "vmap" not in target and "_batch_dim" not in target and target != "torch.autograd.function.FunctionCtx":
            from mindgap_zoo.records.allowed_targets import IGNORED

            assert target in IGNORED or function(target)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"nodes": [{**NODES[0], "args": [{"ref": "nowhere"}, {"ref": "P0"}]}]}, "nowhere"),
        ({"nodes": [{**NODES[0], "args": [{"python": "import os"}]}]}, "python"),
        ({"outputs": [{"ref": "nowhere"}]}, "nowhere"),
        ({"inputs": [{**WEIGHT, "dtype": "float99"}, EXAMPLE, EPSILON]}, "float99"),
        ({"inputs": [{**WEIGHT, "shape": [5, 7]}, EXAMPLE, EPSILON]}, "shapes cannot be multiplied"),
    ],
)
def test_malformed_records_are_failures_with_a_reason(tmp_path, change, says):
    path = write(tmp_path / "bad.parquet", [("bad", record(**change)), ("good", record())])
    found = dict(capture_source(f"records:{path}#*"))
    assert says in found["bad"].reason and "\n" not in found["bad"].reason
    assert found["good"].nodes


def call(name, target, *args, kind="call_function", **kwargs):
    return {"name": name, "op": kind, "target": target, "args": list(args), "kwargs": kwargs}


def refusal(tmp_path, change):
    """What is said of the record with this change; it is one line, and another record of the file still captures."""
    path = write(tmp_path / "bad.parquet", [("bad", record(**change)), ("good", record())])
    found = dict(capture_source(f"records:{path}#*"))
    assert found["good"].nodes
    assert isinstance(found["bad"], CaptureFailure), found["bad"]
    assert "\n" not in found["bad"].reason and f"{path}#bad: " in found["bad"].reason
    return found["bad"].reason


X = {"ref": "X0"}
BAD = {
    "a later node": ({"nodes": [call("r", "torch.add", {"ref": "q"}, X), call("q", "torch.neg", {"ref": "r"})]},
                     "node r refers to q, which nothing before it gives"),
    "itself": ({"nodes": [call("r", "torch.neg", {"ref": "r"})]}, "node r refers to r"),
    "inside a slice": ({"nodes": [call("r", "operator.getitem", X, {"slice": [{"ref": "no"}, None, None]})]},
                       "node r refers to no"),
    "an output of nothing": ({"outputs": [{"tuple": [{"ref": "no"}]}]}, "an output refers to no"),
    "two nodes": ({"nodes": [call("r", "torch.neg", X), call("r", "torch.abs", X)]}, "two values are called r"),
    "a node and an input": ({"nodes": [call("X0", "torch.neg", X)]}, "two values are called X0"),
    "two inputs": ({"inputs": [WEIGHT, EXAMPLE, EXAMPLE, EPSILON]}, "two values are called X0"),
    "no name": ({"nodes": [{"op": "call_function"}]}, "without a name"),
    "no dtype": ({"inputs": [{k: v for k, v in WEIGHT.items() if k != "dtype"}, EXAMPLE, EPSILON]}, "dtype"),
    "a number for a dtype": ({"inputs": [{**WEIGHT, "dtype": 3}, EXAMPLE, EPSILON]}, "P0 has dtype '3'"),
    "a negative size": ({"inputs": [{**WEIGHT, "shape": [2, -3]}, EXAMPLE, EPSILON]}, "P0 has shape [2, -3]"),
    "a size in words": ({"inputs": [{**WEIGHT, "shape": "big"}, EXAMPLE, EPSILON]}, "P0 has shape big"),
    "another kind": ({"inputs": [{**WEIGHT, "kind": "file"}, EXAMPLE, EPSILON]}, "P0 is of kind 'file'"),
    "values that do not fit": ({"inputs": [{**WEIGHT, "data": [1.0]}, EXAMPLE, EPSILON]}, "reshape"),
    "huge weights": ({"inputs": [{**WEIGHT, "shape": [1 << 40]}, EXAMPLE, EPSILON]}, "4,096.0 GiB"),
    "many large weights": ({"inputs": [{**WEIGHT, "name": f"P{i}", "shape": [1 << 31]} for i in range(9)]}, "72.0 GiB"),
    "a huge result": ({"nodes": [call("r", "torch.zeros", 1 << 36)]}, "at node r its values take 256.0 GiB"),
    "a huge repetition": ({"nodes": [call("r", "repeat", X, 1 << 16, 1 << 16, kind="call_method")]}, "at node r"),
    "a huge sum of parts": ({"nodes": [call(n, "torch.empty", 1 << 29) for n in "abcr"],
                             "outputs": [{"ref": n} for n in "abcr"]}, "at node c its values take 6.0 GiB"),
    "a huge expansion that is copied": (
        {"nodes": [call("e", "expand", {"ref": "X0"}, 1 << 32, -1, -1, kind="call_method"),
                   call("r", "contiguous", {"ref": "e"}, kind="call_method")]}, "at node r its values take 192.0 GiB"),
    "a number without end": ({"nodes": [call("r", "operator.pow", 10, 10**9)]}, "at node r operator.pow gives"),
    "a shift without end": ({"nodes": [call("r", "operator.lshift", 1, 10**12)]}, "at node r operator.lshift gives"),
    "a list without end": ({"nodes": [call("r", "operator.imul", [0, 1], 10**9)]}, "gives 2,000,000,000 values"),
    "a list that doubles": ({"nodes": [call("r0", "operator.add", [0], [0]), *(
        call(f"r{i}", "operator.add", {"ref": f"r{i - 1}"}, {"ref": f"r{i - 1}"}) for i in range(1, 60))],
                             "outputs": [X]}, "gives 131,072 values"),
    "a text without end": ({"nodes": [call("r", "operator.mod", "%999999999d", 1)]}, "to no tensor and no number"),
    "a wrong type": ({"nodes": [call("r", "torch.add", X, "text")]}, "running its calls raised"),
    "division by zero": ({"nodes": [call("r", "operator.floordiv", 1, 0)], "outputs": [X]}, "ZeroDivisionError"),
    "an assertion": ({"nodes": [call("r", "torch.nn.functional.pad", X, [1])]}, "running its calls raised"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_breaks_the_format_or_asks_for_too_much_is_refused_in_one_line(tmp_path, case):
    change, says = BAD[case]
    assert says in refusal(tmp_path, change)


def test_a_vmap_as_the_tracer_recorded_it(tmp_path):
    """Inside, tensors show no memory, so nothing is counted there."""
    vmap = "torch._functorch.predispatch._"
    wide = {**EXAMPLE, "shape": [2048, 1024]}
    nodes = [
        call("level", f"{vmap}vmap_increment_nesting", 2048, "error"),
        call("row", f"{vmap}add_batch_dim", X, 0, {"ref": "level"}),
        call("twice", "torch.add", {"ref": "row"}, {"ref": "row"}),
        call("other", "torch.zeros_like", X),
        call("all", f"{vmap}remove_batch_dim", {"ref": "twice"}, {"ref": "level"}, 2048, 0),
        call("gone", f"{vmap}vmap_decrement_nesting"),
        call("sum", "torch.add", {"ref": "all"}, {"ref": "other"}),
    ]
    path = write(tmp_path / "vmap.parquet", [("a", record(nodes, [wide], [{"ref": "sum"}]))])
    ((_, graph),) = capture_source(f"records:{path}#a")
    assert not isinstance(graph, CaptureFailure), graph


def test_a_huge_expansion_takes_no_memory_and_passes(tmp_path):
    wide = call("r", "expand", call_one := {"ref": "one"}, 1 << 20, 1 << 20, kind="call_method")
    nodes = [call("one", "operator.getitem", X, {"tuple": [0, 0]}), wide, call("s", "select", {"ref": "r"}, 0, 5,
             kind="call_method")]  # fmt: skip
    nodes.append(call("t", "operator.add", {"ref": "s"}, call_one))
    path = write(tmp_path / "wide.parquet", [("wide", record(nodes=nodes, outputs=[{"ref": "t"}]))])
    ((_, graph),) = capture_source(f"records:{path}#wide")
    assert not isinstance(graph, CaptureFailure), graph
    assert str(graph.values[graph.outputs[0]]) == "float32[1048576]"


def test_cells_that_are_not_json_and_files_that_end_early(tmp_path):
    table = {"id": ["a", "b", "c"], "inputs": ["[", "{}", None], "nodes": ["[]"] * 3, "outputs": ["[]"] * 3}
    pq.write_table(pa.table(table), tmp_path / "text.parquet")
    for name, says in (("a", "JSONDecodeError"), ("b", "inputs is a dict, not a list"), ("c", "not a well-formed")):
        ((_, failure),) = capture_source(f"records:{tmp_path}/text.parquet#{name}")
        assert says in failure.reason and "\n" not in failure.reason
    whole = write(tmp_path / "whole.parquet", [("a", record())]).read_bytes()
    (tmp_path / "short.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match="not a Parquet file"):
        open_source(f"records:{tmp_path}/short.parquet#a")
    holed = bytearray(whole)
    holed[4:64] = bytes(60)
    (tmp_path / "holed.parquet").write_bytes(holed)
    with pytest.raises(SourceError, match="damaged"):
        for _, failure in capture_source(f"records:{tmp_path}/holed.parquet#a"):
            raise SourceError(failure.reason)


@pytest.mark.parametrize("path", ["forward", "_steps", "layer", "layer.weight.more", "pinned.x", "a..b", "", "P1"])
def test_paths_that_collide_give_way(tmp_path, path):
    other = {**WEIGHT, "name": "P1", "path": path}
    nodes = [*NODES[:1], call("w", "torch._C._nn.linear", X, {"ref": "P1"})]
    bad = record(nodes, [WEIGHT, other, EXAMPLE, EPSILON], [{"ref": "y"}, {"ref": "w"}])
    file = write(tmp_path / "paths.parquet", [("a", bad)])
    ((_, graph),) = capture_source(f"records:{file}#a")
    assert not isinstance(graph, CaptureFailure), graph
    assert sum(given.role == "parameter" for given in graph.inputs) == 2


def test_what_a_mask_of_the_recorded_inputs_selects_stays_selected(tmp_path):
    """Graph networks drop the edges from a node to itself: how many is in the data that was recorded."""
    edges = {**EXAMPLE, "name": "X2", "shape": [2, 5], "dtype": "int64", "data": [0, 1, 2, 3, 4, 1, 1, 0, 3, 2],
             "original_name": "edges"}  # fmt: skip
    nodes = [
        call("a", "operator.getitem", {"ref": "X2"}, 0),
        call("b", "operator.getitem", {"ref": "X2"}, 1),
        call("mask", "operator.ne", {"ref": "a"}, {"ref": "b"}),
        call("kept", "operator.getitem", {"ref": "X2"}, {"tuple": [{"slice": [None, None, None]}, {"ref": "mask"}]}),
    ]
    bad = record(nodes, [EXAMPLE, EPSILON, edges], [{"ref": "kept"}])
    file = write(tmp_path / "edges.parquet", [("a", bad)])
    ((_, graph),) = capture_source(f"records:{file}#a")
    assert not isinstance(graph, CaptureFailure), graph
    assert [str(graph.values[value]) for value in graph.outputs] == ["int64[2,3]"]
    # No shape depends on data, so that what runs on shapes alone (the functional form, exporters) can follow.
    index = next(node for node in graph.nodes if node.op == "aten.index.Tensor")
    assert [str(graph.values[ref]) for ref in operands(index)] == ["int64[2,5]", "int64[3]"]


def test_outputs_of_no_real_network_are_tamed(tmp_path):
    loud = {**WEIGHT, "mean": 0.0, "std": 1e9}
    file = write(tmp_path / "loud.parquet", [("a", record(inputs=[loud, EXAMPLE, EPSILON]))])
    module, args, _ = open_source(f"records:{file}#a")[0].build()
    with torch.no_grad():
        (result,) = module(*args)
    assert 0.0 < float(result.abs().max()) < 1e4


def test_a_record_wider_than_memory_is_captured_from_shapes(tmp_path):
    wide = {**WEIGHT, "shape": [1 << 20, 3 << 10]}
    example = {**EXAMPLE, "shape": [4, 3 << 10]}
    pinned = {**EXAMPLE, "name": "X2", "shape": [2], "data": [1.5, 2.5], "original_name": "z"}
    nodes = [*NODES[:3], call("r", "operator.mul", {"ref": "z"}, {"ref": "B0"}), call("q", "torch.neg", {"ref": "X2"})]
    scale = {**WEIGHT, "name": "B0", "kind": "buffer", "shape": [1], "path": "scale", "mean": 3.0, "std": 0.5}
    inputs = [wide, scale, example, EPSILON, pinned]
    file = write(tmp_path / "wide.parquet", [("a", record(nodes, inputs, [{"ref": "r"}, {"ref": "q"}]))])
    with pytest.warns(UserWarning, match="not proven"):
        ((_, graph),) = capture_source(f"records:{file}#a")
    assert not isinstance(graph, CaptureFailure), graph
    by_label = dict(zip(graph.labels.inputs, graph.inputs, strict=True))
    assert str(by_label["layer.weight"].spec) == "float32[1048576,3072]"
    assert isinstance(by_label["layer.weight"].recipe, Uniform) and by_label["layer.weight"].recipe.high < 0.1
    assert isinstance(by_label["scale"].recipe, Uniform)
    assert by_label["inputs.1"].recipe == Literal(np.array([1.5, 2.5], np.float32).tobytes())


@pytest.mark.parametrize(("shape", "length"), [([1, 3, 6, 6], 6), ([4, 3], 5)])
def test_a_symbol_is_the_side_of_the_picture_or_as_recorded(tmp_path, shape, length):
    symbol = {"name": "S0", "kind": "symint", "shape": [], "dtype": "int64", "mean": None, "std": None, "data": [5],
              "original_name": "s3"}  # fmt: skip
    nodes = [call("r", "torch.arange", 0, {"ref": "S0"}), call("q", "torch.neg", X)]
    inputs = [symbol, {**EXAMPLE, "shape": shape}]
    file = write(tmp_path / "symbol.parquet", [("a", record(nodes, inputs, [{"ref": "r"}, {"ref": "q"}]))])
    ((_, graph),) = capture_source(f"records:{file}#a")
    assert str(graph.values[graph.outputs[0]]) == f"int64[{length}]"


@pytest.mark.parametrize("mask_type", [None, 0, 1])
def test_attention_of_one_kernel_is_what_that_kernel_gives(mask_type):
    torch.manual_seed(0)
    x, weights = torch.randn(2, 5, 8), [torch.randn(size) / 3 for size in ((24, 8), (24,), (8, 8), (8,))]
    mask = None if mask_type is None else torch.zeros((5, 5) if mask_type == 0 else (2, 5), dtype=torch.bool)
    if mask is not None:
        mask[0, 3] = mask[1, 4] = True
    given = (x, x, x, 8, 2, *weights, mask, True, True, mask_type)
    with torch.no_grad():
        for one, other in zip(
            function("torch._native_multi_head_attention")(*given),
            torch._native_multi_head_attention(*given),
            strict=True,
        ):
            assert torch.allclose(one, other, atol=1e-5)


def test_a_record_captures_with_its_gradients(tmp_path):
    file = write(tmp_path / "a.parquet", [("a", record()), ("b", record([call("r", "torch.argmax", X)]))])
    (_, graph), (_, failure) = capture_source(f"records:{file}#*", backward=True)
    assert any("grad" in (label or "") for label in graph.labels.outputs)
    assert "no output of the program has a gradient" in failure.reason


def test_statistics_become_recipes():
    assert record_recipe({**WEIGHT, "shape": [3], "data": [1.0, 2.0, 3.0]}, 0, False) == Literal(
        np.array([1, 2, 3], np.float32).tobytes()
    )
    ids = {**WEIGHT, "dtype": "int64", "mean": None, "std": None, "min": 2, "max": 9}
    assert record_recipe(ids, 5, False) == Integers(5, 2, 10)
    variance = {**WEIGHT, "mean": 4.0, "std": 9.0, "min": 0}
    recipe = record_recipe(variance, 1, False)
    assert isinstance(recipe, Uniform) and recipe.low > 0 and (recipe.low + recipe.high) / 2 == pytest.approx(4.0)
    assert record_recipe({**WEIGHT, "shape": [], "mean": 2.5}, 0, False) == Constant(2.5)
    picture = {**EXAMPLE, "shape": [1, 3, 32, 32], "mean": -2.0, "std": 0.0}
    assert record_recipe(picture, 4, False) == Normal(4)
    assert record_recipe({**picture, "shape": [512, 512], "mean": 1.0}, 4, False) == Constant(1.0)
    unknown = record_recipe({**WEIGHT, "mean": {"float": "nan"}, "std": {"float": "inf"}}, 1, True)
    assert isinstance(unknown, Uniform)


@pytest.mark.parametrize(
    ("mean", "data", "name", "value"),
    [
        (0.0, None, "L_self_eps", 1e-6),
        (0.0, [0.0], "layer_eps_", 1e-8),
        (0.0, None, "p", 0.0),
        (0.125, [0.125], "eps", 0.125),
    ],
)
def test_numbers_that_were_rounded_to_nothing_are_filled_in(mean, data, name, value):
    assert scalar_value({**EPSILON, "mean": mean, "data": data, "original_name": name}) == value


def test_real_records_capture(records):
    for name in ("timm/test_convnext.r160_in1k", "torchgeometric/SignedGCN"):
        ((_, graph),) = capture_source(f"records:{records}#{name}")
        assert not isinstance(graph, CaptureFailure), graph
