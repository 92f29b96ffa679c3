"""`FILE.onnx` as a source: translated, checked node by node, sized, refused in one line where it is bad."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from mindgap.onnx_files.inputs import ModelInput, shape_of, size_choices, symbols
from mindgap.onnx_files.translation import TRANSLATIONS  # with all families
from mindgap.sources import SourceError, capture_program, open_source
from mindgap.sources.opening import capture_built
from mindgap.sources.translated_model import NoTranslation, Translation

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name: str, shape: Any, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name: str, *shape: int) -> Any:
    drawn = np.random.default_rng(0).standard_normal(shape)
    return numpy_helper.from_array(drawn.astype(np.float32), name)


def saved(path: Path, nodes: Any, inputs: Any, outputs: Any, initial: Any = (), opset: int = 18, **more: Any) -> Path:
    domains = more.pop("domains", {})
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(*each) for each in domains.items())]
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(initial))
    onnx.save_model(helper.make_model(graph, opset_imports=imports, ir_version=9), str(path), **more)
    return path


@pytest.fixture
def classifier(tmp_path: Path) -> Path:
    """Ids and a picture, two outputs, a branch over shapes, names with dots."""
    then = helper.make_graph([helper.make_node("Neg", ["s"], ["t"], "/neg")], "then", [], [value("t", None)])
    other = helper.make_graph([helper.make_node("Abs", ["s"], ["e"], "/abs")], "else", [], [value("e", None)])
    nodes = [
        helper.make_node("Gather", ["embed.weight", "ids"], ["e1"], "/embed/Gather"),
        helper.make_node("MatMul", ["e1", "head.0.weight"], ["m"], "/head/head.0/MatMul"),
        helper.make_node("Softmax", ["m"], ["s"], "/Softmax", axis=-1),
        helper.make_node("Shape", ["ids"], ["shape"]),
        helper.make_node("Size", ["shape"], ["rank"]),
        helper.make_node("Equal", ["rank", "two"], ["flat"]),
        helper.make_node("If", ["flat"], ["y"], "/If", then_branch=then, else_branch=other),
    ]
    return saved(
        tmp_path / "classifier.onnx",
        nodes,
        [value("ids", ["batch", "seq"], INT64)],
        [value("y", ["batch", "seq", 5]), value("m", None)],
        [weight("embed.weight", 11, 4), weight("head.0.weight", 4, 5), numpy_helper.from_array(np.array(2), "two")],
    )


def built(source: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return open_source(source)[0].make()  # type: ignore[union-attr]


def test_a_file_becomes_a_program_with_the_files_names(classifier: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = capture_program(open_source(f"{classifier}?batch=3&seq=2")[0])  # type: ignore[arg-type]
    assert graph.labels.inputs == ("ids", "embed.weight", "head.0.weight")
    assert [given.role for given in graph.inputs] == ["input", "parameter", "parameter"]
    assert graph.values[graph.outputs[0]].shape == (3, 2, 5)  # type: ignore[union-attr]
    assert graph.labels.outputs == ("y", "m")
    assert "/head/head.0/MatMul (MatMul)" in graph.labels.nodes and "/If//neg (Neg)" in graph.labels.nodes


def test_the_program_gives_what_the_reference_evaluator_gives(classifier: Path) -> None:
    from onnx.reference import ReferenceEvaluator

    one = built(f"{classifier}?seed=4")
    found = one.program(*one.args)
    expected = ReferenceEvaluator(str(classifier)).run(None, {"ids": one.args[0].numpy()})
    for name, array in zip(found, expected, strict=True):
        np.testing.assert_allclose(found[name].detach().numpy(), array, 1e-5, 1e-6)


def test_indices_stay_inside_what_they_index(classifier: Path) -> None:
    for seed in range(5):
        (ids,) = built(f"{classifier}?batch=4&seq=64&seed={seed}").args
        assert ids.shape == (4, 64) and 8 <= int(ids.max()) < 11


def test_sizes_follow_from_each_other() -> None:
    inputs = [
        ModelInput("ids", torch.int64, ("batch", "sequence_length")),
        ModelInput("mask", torch.int64, ("batch", "past_sequence_length + sequence_length")),
        ModelInput("past", torch.float32, ("batch", 2, "past_sequence_length", 8)),
    ]
    assert symbols(inputs) == ["batch", "sequence_length", "past_sequence_length"]
    first = next(iter(size_choices(inputs, {"sequence_length": 5})))
    assert [shape_of(each, first) for each in inputs] == [(2, 5), (2, 9), (2, 2, 4, 8)]


def test_the_first_sizes_that_fit_are_taken(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "m.onnx",
        [helper.make_node("Reshape", ["x", "to"], ["y"]), helper.make_node("Add", ["y", "w"], ["z"])],
        [value("x", ["n", "k"])],
        [value("z", None)],
        [numpy_helper.from_array(np.array([1, -1]), "to"), weight("w", 1, 16)],
    )
    with pytest.warns(UserWarning, match=r"sizes were chosen: n=2, k=8 \(--set sets them\)"):
        open_source(str(path))[0].make()  # type: ignore[union-attr]


def test_a_wrong_translation_is_refused_with_the_node(classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Translation(lambda node, x: torch.softmax(x, 0))
    monkeypatch.setitem(TRANSLATIONS, "Softmax", wrong)
    with pytest.raises(
        NoTranslation, match=r"node /Softmax \(Softmax\): its translation gives other values than the ref"
    ):
        capture_built(built(str(classifier)))


@pytest.mark.parametrize("right", [True, False])
def test_a_difference_of_rounding_is_no_other_translation(
    right: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers near 40000 of variance 1: of the mean of float32 squares two digits are left, here and there."""
    path = saved(
        tmp_path / "m.onnx",
        [
            helper.make_node("Add", ["x", "level"], ["warm"], "/warm"),
            helper.make_node("LayerNormalization", ["warm", "scale"], ["y"], "/norm"),
        ],
        [value("x", [4, 64])], [value("y", None)],
        [numpy_helper.from_array(np.float32(40000), "level"), numpy_helper.from_array(np.ones(64, "f4"), "scale")],
    )  # fmt: skip
    if right:
        assert built(str(path)).program.steps[-1].name == "/norm"
        return
    wrong = Translation(lambda node, x, scale: (x - x.mean(-1, keepdim=True)) * scale * 0.9)
    monkeypatch.setitem(TRANSLATIONS, "LayerNormalization", wrong)
    with pytest.raises(NoTranslation, match=r"node /norm \(LayerNormalization\): its translation gives other values"):
        capture_built(built(str(path)))


def test_what_was_not_compared_is_said(classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mindgap.onnx_files.file._CHECK_S", -1.0)
    with pytest.warns(UserWarning, match=r"not compared with ONNX's reference evaluator: Gather, MatMul"):
        open_source(str(classifier))[0].make()  # type: ignore[union-attr]


def test_loops_and_scans_over_known_counts_are_unrolled(tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["a", "a"], ["b"], "square"),
            helper.make_node("Identity", ["going"], ["on"]),
            helper.make_node("Neg", ["b"], ["c"]),
        ],
        "body", [value("i", [], INT64), value("going", [], BOOL), value("a", [2])],
        [value("on", [], BOOL), value("b", [2]), value("c", [2])],
    )  # fmt: skip
    step = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["u"])],
        "step", [value("s", [2]), value("e", [2])], [value("t", [2]), value("u", [2])],
    )  # fmt: skip
    path = saved(
        tmp_path / "m.onnx",
        [
            helper.make_node("Loop", ["count", "", "x"], ["y", "ys"], "/Loop", body=body),
            helper.make_node("Scan", ["x", "ys"], ["z", "zs"], "/Scan", body=step, num_scan_inputs=1),
        ],
        [value("x", [2])],
        [value("y", [2]), value("ys", [3, 2]), value("z", [2]), value("zs", [3, 2])],
        [numpy_helper.from_array(np.array(3), "count")],
    )
    found = built(str(path)).program(torch.tensor([2.0, 1.0]))
    assert found["y"].tolist() == [256.0, 1.0] and found["ys"][:, 0].tolist() == [-4.0, -16.0, -256.0]
    assert found["z"].tolist() == [-274.0, -2.0] and found["zs"].shape == (3, 2)


def test_a_decision_by_values_leaves_the_file_without_a_graph(tmp_path: Path) -> None:
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "b", [], [value("n", None)])
    path = saved(
        tmp_path / "m.onnx",
        [
            helper.make_node("ReduceMax", ["x"], ["r"], keepdims=0),
            helper.make_node("Greater", ["r", "zero"], ["c"]),
            helper.make_node("If", ["c"], ["y"], "/If", then_branch=branch, else_branch=branch),
        ],
        [value("x", [2])], [value("y", None)], [numpy_helper.from_array(np.float32(0), "zero")],
    )  # fmt: skip
    said = r"node /If \(If\): the values of the inputs decide which branch runs"
    with pytest.raises(NoTranslation, match=said):
        capture_built(built(str(path)))


def loop(path: Path, going: Any, count: int | None = None) -> Path:
    """A loop that squares `x`, and goes on while the last result of the nodes `going`, or its condition, is true."""
    nodes = [helper.make_node("Mul", ["a", "a"], ["b"]), *going]
    body = helper.make_graph(
        nodes, "body", [value("i", [], INT64), value("on", [], BOOL), value("a", [2])],
        [value(going[-1].output[0] if going else "on", [], BOOL), value("b", [2])],
    )  # fmt: skip
    held = [numpy_helper.from_array(np.array(True), "true"), numpy_helper.from_array(np.array(count or 0), "count")]
    node = helper.make_node("Loop", ["count" if count else "", "true", "x"], ["y"], "/Loop", body=body)
    return saved(path, [node], [value("x", [2])], [value("y", [2])], held)


ALWAYS = {
    "the condition itself": [],
    "a constant": [helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))],
    "a name": [helper.make_node("Identity", ["on"], ["c"]), helper.make_node("Identity", ["c"], ["d"])],
    "a weight": [helper.make_node("Identity", ["true"], ["c"])],
    "computed": [
        helper.make_node("Constant", [], ["no"], value=numpy_helper.from_array(np.array(False))),
        helper.make_node("Not", ["no"], ["yes"]), helper.make_node("And", ["yes", "on"], ["c"]),
    ],
    "a comparison": [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2))),
        helper.make_node("GreaterOrEqual", ["two", "two"], ["c"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ALWAYS)
def test_a_loop_that_never_ends_is_refused(tmp_path: Path, name: str) -> None:
    for count in (None, (1 << 63) - 1):
        path = loop(tmp_path / "m.onnx", ALWAYS[name], count)
        with pytest.raises(
            SourceError, match=r"m\.onnx: node /Loop \(Loop\): it never ends: .*; give it one"
        ) as refused:
            built(str(path))
        assert "\n" not in str(refused.value)
    assert built(str(loop(tmp_path / "m.onnx", ALWAYS[name], 2))).program(torch.ones(2))["y"].tolist() == [1, 1]


def test_a_loop_that_a_condition_ends_is_unrolled(tmp_path: Path) -> None:
    going = [
        helper.make_node("Constant", [], ["two"], value=numpy_helper.from_array(np.array(2))),
        helper.make_node("Less", ["i", "two"], ["c"]),
    ]
    one = built(str(loop(tmp_path / "m.onnx", going)))
    assert one.program(torch.tensor([2.0, 1.0]))["y"].tolist() == [256, 1]


def relu(path: Path, **more: Any) -> Path:
    return saved(path, [helper.make_node("Relu", ["x"], ["y"], "r")], [value("x", [2])], [value("y", [2])], **more)


def bad_files(folder: Path) -> dict[str, tuple[Path, str]]:
    """Files that are refused, with what is said."""
    (folder / "text.onnx").write_text("this is no model")
    (folder / "empty.onnx").write_bytes(b"")
    whole = relu(folder / "whole.onnx").read_bytes()
    (folder / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (folder / "name.onnx").write_bytes(whole.replace(b"Relu", b"\xffelu"))
    newer = onnx.load(str(folder / "whole.onnx"))
    newer.opset_import[0].version = 999
    onnx.save(newer, str(folder / "newer.onnx"))
    matmul = [helper.make_node("MatMul", ["x", "w"], ["y"], "/mm")]
    shapes = saved(folder / "shapes.onnx", matmul, [value("x", [2, 3])], [value("y", None)], [weight("w", 4, 5)])
    declared = saved(
        folder / "declared.onnx", matmul, [value("x", [2, 4])], [value("y", [2, 5], INT64)], [weight("w", 4, 5)]
    )
    strings = saved(
        folder / "strings.onnx", [helper.make_node("Identity", ["x"], ["y"])], [value("x", [2], TensorProto.STRING)],
        [value("y", [2], TensorProto.STRING)],
    )  # fmt: skip
    stored: dict[str, Any] = {"save_as_external_data": True, "size_threshold": 0}
    ends = [value("x", [2, 4])], [value("y", None)]
    missing = saved(folder / "missing.onnx", matmul, *ends, [weight("w", 4, 5)], location="gone.bin", **stored)
    short = saved(folder / "short.onnx", matmul, *ends, [weight("w", 4, 5)], location="short.bin", **stored)
    outside = saved(folder / "outside.onnx", matmul, *ends, [weight("w", 4, 5)], location="out.bin", **stored)
    (folder / "gone.bin").unlink()
    (folder / "short.bin").write_bytes(b"1234")
    led = onnx.load(str(outside), load_external_data=False)
    led.graph.initializer[0].external_data[0].value = "../../etc/passwd"
    outside.write_bytes(led.SerializeToString())
    holds = saved(folder / "holds.onnx", matmul, *ends, [weight("w", 4, 5)])
    held = onnx.load(str(holds))
    held.graph.initializer[0].data_type = TensorProto.INT64
    holds.write_bytes(held.SerializeToString())
    branch = helper.make_graph([helper.make_node("Relu", ["x"], ["r"])], "b", [], [value("r", None)])
    many = [helper.make_node("If", ["yes"], ["y"], "choice", then_branch=branch, else_branch=branch)]
    yes = helper.make_tensor("yes", TensorProto.BOOL, [2], [True, False])
    choice = saved(folder / "choice.onnx", many, [value("x", [2])], [value("y", None)], [yes])
    huge = saved(
        folder / "huge.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", [1 << 50])], [value("y", None)]
    )
    updates = saved(
        folder / "updates.onnx", [helper.make_node("ScatterElements", ["x", "at", "new"], ["y"], "/put", axis=1)],
        [value("x", [1, 3]), value("at", [1, 1], INT64), value("new", [1, 3])], [value("y", [1, 3])],
    )  # fmt: skip
    nothing = saved(
        folder / "nothing.onnx", [helper.make_node("ReduceMean", ["x", "axes"], ["y"], "/mean", keepdims=0)],
        [value("x", [2, 0])], [value("y", [2])], [numpy_helper.from_array(np.array([1]), "axes")],
    )  # fmt: skip
    memory = saved(
        folder / "memory.onnx", [helper.make_node("Expand", ["x", "to"], ["y"], "/big")], [value("x", [1])],
        [value("y", None)], [numpy_helper.from_array(np.array([10**7, 10**7]), "to")],
    )  # fmt: skip
    with (folder / "large.onnx").open("wb") as file:
        file.truncate(3 << 30)
    return {
        "text": (folder / "text.onnx", "damaged, or no ONNX model"),
        "empty": (folder / "empty.onnx", "damaged, or no ONNX model"),
        "cut": (folder / "cut.onnx", "damaged, or no ONNX model"),
        "name": (folder / "name.onnx", r"damaged: the name b'\\xffelu' is no UTF-8"),
        "newer": (folder / "newer.onnx", "operator set 999; onnx .* knows 7 to .*: pip install --upgrade onnx"),
        "memory": (
            memory,
            r"node /big \(Expand\): memory does not suffice: PyTorch asked for 400,000,000,000,000 bytes",
        ),
        "shapes": (shapes, r"node /mm \(MatMul\): .* like this: .*2x3 and 4x5.*; other inputs may fit: --inputs FILE"),
        "updates": (updates, r"/put .*: indices of shape \[1, 1\] and updates of shape \[1, 3\] must agree"),
        "nothing": (nothing, r"/mean .*: ReduceMean of no elements, which ONNX does not define, has no equivalent"),
        "declared": (declared, "output y is declared torch.int64, and its node gives torch.float32: correct the decl"),
        "strings": (strings, "input x holds strings"),
        "missing": (missing, r"its file gone\.bin is missing: put it beside the model \(tensor w\)"),
        "short": (short, r"its file short\.bin has 4 bytes and tensor w ends at 80"),
        "outside": (outside, r"tensor w lies in '\.\./\.\./etc/passwd', outside the model's folder"),
        "large": (folder / "large.onnx", "3.0 GiB, and a protobuf file holds at most 2: save the model with external"),
        "holds": (holds, r"not valid ONNX: TensorProto \(tensor name: w\) raw_data size \(80 bytes\) is too"),
        "choice": (choice, r"node choice \(If\): operand 0 is one value, and yes has 2"),
        "huge": (huge, r"input x of \[1125899906842624\] takes more memory than there is"),
        "absent": (folder / "absent.onnx", "no such file"),
        "option": (Path(f"{folder / 'whole.onnx'}?n=3"), "no option 'n' here; there are: seed"),
    }


def test_a_bad_file_is_refused_in_one_line_with_its_path(tmp_path: Path) -> None:
    for name, (path, reason) in bad_files(tmp_path).items():
        with pytest.raises((SourceError, NoTranslation), match=reason) as refused:
            capture_built(built(str(path)))
        assert str(refused.value).startswith(str(path)), name
        assert "\n" not in str(refused.value), name


def test_a_file_with_an_unknown_operator_has_inputs_and_no_graph(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "unknown.onnx", [helper.make_node("Fold", ["x"], ["y"], "f", domain="com.example")],
        [value("x", ["n", 2])], [value("y", None)], domains={"com.example": 1},
    )  # fmt: skip
    one = built(f"{path}?n=3")
    assert [tuple(each.shape) for each in one.args] == [(3, 2)]
    words = (
        r"unknown\.onnx: no translation of operator com\.example\.Fold \(node f\); a runtime needs the library of "
        r"com\.example, which is not ONNX's"
    )
    with pytest.raises(NoTranslation, match=words):
        capture_built(one)


def test_a_file_of_an_old_operator_set_is_converted(tmp_path: Path) -> None:
    one = built(str(relu(tmp_path / "old.onnx", opset=6)))
    assert one.program(torch.tensor([-1.0, 2.0]))["y"].tolist() == [0, 2]
    along = [helper.make_node("Add", ["x", "w"], ["y"], broadcast=1, axis=0)]
    path = saved(
        tmp_path / "axis.onnx", along, [value("x", [2, 3])], [value("y", [2, 3])], [weight("w", 2)], opset=6
    )  # fmt: skip
    one = built(str(path))
    x, held = torch.ones(2, 3), dict(one.program.named_parameters())
    torch.testing.assert_close(one.program(x)["y"], x + held["w"].reshape(2, 1))


def test_what_the_reference_evaluator_computes_wrongly_is_said(tmp_path: Path) -> None:
    """It sums the squares of as many channels as there are examples."""
    path = saved(
        tmp_path / "m.onnx", [helper.make_node("LRN", ["x"], ["y"], "/lrn", size=3, alpha=3.0)],
        [value("x", [1, 4, 2, 2])], [value("y", None)],
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"not compared .*: LRN \(the evaluator computes it wrongly\)"):
        one = open_source(str(path))[0].make()  # type: ignore[union-attr]
    x = one.args[0].double()
    squares = torch.nn.functional.pad(x * x, (0, 0, 0, 0, 1, 1))
    sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    torch.testing.assert_close(one.program(*one.args)["y"].double(), x / (1 + sums) ** 0.75, rtol=1e-5, atol=1e-6)


def test_batch_normalisation_of_old_operator_sets_is_inference(tmp_path: Path) -> None:
    """The reference evaluator takes the batch's statistics there, against the specification."""
    path = saved(
        tmp_path / "m.onnx", [helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], "/bn")],
        [value("x", [2, 3, 4, 4])], [value("y", None)], [weight(name, 3) for name in "sbm"]
        + [numpy_helper.from_array(np.float32([0.5, 1, 2]), "v")], opset=13,
    )  # fmt: skip
    one = built(str(path))
    (x,) = one.args
    held = dict(one.program.named_parameters())
    s, b, m, v = (held[name].reshape(1, 3, 1, 1) for name in "sbmv")
    with torch.no_grad():
        found = one.program(x)["y"]
    torch.testing.assert_close(found, (x - m) / torch.sqrt(v + 1e-5) * s + b)


def test_softmax_of_old_operator_sets_takes_all_dimensions_from_the_axis_on(tmp_path: Path) -> None:
    path = saved(
        tmp_path / "m.onnx", [helper.make_node("Softmax", ["x"], ["y"], "/softmax")],
        [value("x", [2, 3, 4])], [value("y", None)], opset=11,
    )  # fmt: skip
    one = built(str(path))
    torch.testing.assert_close(one.program(one.args[0])["y"].sum([1, 2]), torch.ones(2))


def test_the_own_path_does_not_repeat_the_comparison(classifier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mindgap.own_path.worker import opened_program

    monkeypatch.setitem(TRANSLATIONS, "Softmax", Translation(lambda node, x: torch.softmax(x, 0)))
    assert opened_program(str(classifier)).program is not None
    with pytest.raises(NoTranslation, match="its translation gives other values"):
        capture_built(built(str(classifier)))
