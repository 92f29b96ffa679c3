"""A quantised LiteRT file on kernels that give other integers: allowed by the format, wrong, or not to be told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from litert_files.tflite_writer import FileNode, FileTensor, constant, model_bytes
from mindgap.aten.functional import Functional, functionalize
from mindgap.graph import Array, Graph, MindgapError
from mindgap.graph.compare.culprit import OperatorCulprit
from mindgap.graph.compare.reason import has
from mindgap.graph.compare.verdict import Fault
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.pipeline.model_files import is_steps_off
from mindgap.judge.pipeline.own_path import with_own_path
from mindgap.judge.pipeline.quantised_files import _numbers_by_result, _of_declared_form  # pyright: ignore[reportPrivateUsage]
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.name import PlatformName, parse
from mindgap.results.rows import Row
from mindgap.results.settings import RunSettings
from mindgap.sources.translated_model import TranslatedModel
from mindgap_runtimes.litert_files.model import read_tflite
from mindgap_runtimes.litert_files.probing import write_probed
from mindgap_runtimes.litert_files.translation import translated
from own_path.test_quantised_files import executed

XNNPACK, PLAIN, REFERENCE = (
    parse("litert/cpu"),
    parse("litert/cpu@delegate=none"),
    parse("litert/cpu@kernels=reference"),
)
#: Takes a tensor's name and the right integers, and gives a platform's.
Change = Callable[[str, Array], Array]


def right(_: str, array: Array) -> Array:
    return array


def shifted(tensor: str, by: int) -> Change:
    return lambda name, array: (
        np.clip(array.astype(np.int32) + by, -128, 127).astype(np.int8) if name == tensor else array
    )


@dataclass(frozen=True)
class Net:
    """A convolution with an activation, a maximum of windows, a product, and where its largest value is."""

    path: Path
    program: TranslatedModel
    graph: Graph
    x: torch.Tensor

    def values(self, change: Change) -> dict[str, Array]:
        """All tensors where each result is changed before others read it."""
        held = {**dict(self.program.named_parameters(recurse=False)), **dict(self.program.named_buffers(recurse=False))}
        values: dict[str, torch.Tensor] = {**held, "x": self.x}
        with torch.no_grad():
            for step in self.program.steps:
                (found,) = step(*[values[name] if name else None for name in step.operands])
                values[step.outputs[0]] = torch.from_numpy(change(step.outputs[0], found.numpy().copy()))
        return {name: tensor.detach().numpy() for name, tensor in values.items()}

    def row(
        self,
        platform: PlatformName,
        kernels: dict[PlatformName, Change],
        probed: Change | None = None,
        refused: str = "",
    ) -> Row:
        """The row of a platform. `kernels`: what each one gives; `probed`: what this one gives in the probed file;
        `refused`: why it does not take the translated graph."""

        def outputs(change: Change) -> tuple[Array, ...]:
            found = self.values(change)
            return found["z"], found["at"]

        def probe(name: PlatformName, _: Sequence[Array]) -> tuple[tuple[Array, ...], dict[str, Array]]:
            change = probed if probed is not None and name == platform else kernels.get(name, right)
            found = self.values(change)
            return (found["z"], found["at"]), {each: found[each] for each in ("y", "m", "flat", "z")}

        def other(name: PlatformName) -> OwnRun:
            try:
                return OwnRun(name, "net.tflite", outputs(kernels.get(name, right)), file=True)
            except MindgapError as error:
                return OwnRun(name, "net.tflite", None, reason=str(error), file=True)

        comparison = GraphComparison(RunContext(executed, RunSettings(), describe=lambda _: {}), "model", self.graph)
        eager, graphs = outputs(right), Row("model", platform, "ok", "identical")
        if refused:
            graphs = Row("model", platform, "unsupported", None, message=refused)
        run = OwnRun(platform, "net.tflite", outputs(kernels[platform]), eager, file=True, source_file=True)
        return with_own_path(
            comparison, graphs, run, lambda _: None, lambda: eager,
            other, probe,
        )  # fmt: skip


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Net:
    numbers = np.random.default_rng(3)
    tensors = [
        FileTensor("x", (1, 6, 6, 3), "int8", scale=0.05, zero=-3),
        constant("w", numbers.integers(-100, 100, (6, 3, 3, 3)).astype(np.int8), scale=np.linspace(0.01, 0.02, 6)),
        constant("b", numbers.integers(-99, 99, 6).astype(np.int32), scale=np.linspace(0.01, 0.02, 6) * 0.05),
        FileTensor("y", (1, 6, 6, 6), "int8", scale=0.4, zero=-100),
        FileTensor("m", (1, 3, 3, 6), "int8", scale=0.4, zero=-100),
        constant("shape", np.int32([1, -1])), FileTensor("flat", (1, 54), "int8", scale=0.4, zero=-100),
        constant("fc", numbers.integers(-100, 100, (12, 54)).astype(np.int8), scale=0.01),
        FileTensor("z", (1, 12), "int8", scale=0.7, zero=2),
        constant("axis", np.int32([1])), FileTensor("at", (1,), "int32"),
    ]  # fmt: skip
    nodes = [
        FileNode("CONV_2D", ["x", "w", "b"], ["y"], {0: ("b", 0), 1: ("i", 1), 2: ("i", 1), 3: ("b", 1)}),
        FileNode("MAX_POOL_2D", ["y"], ["m"], {0: ("b", 1), 1: ("i", 2), 2: ("i", 2), 3: ("i", 2), 4: ("i", 2)}),
        FileNode("RESHAPE", ["m", "shape"], ["flat"]),
        FileNode("FULLY_CONNECTED", ["flat", "fc"], ["z"], {0: ("b", 0)}),
        FileNode("ARG_MAX", ["z", "axis"], ["at"]),
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("litert") / "net.tflite"
    path.write_bytes(model_bytes(tensors, nodes, ["x"], ["z", "at"]))
    x = torch.tensor(numbers.integers(-128, 128, (1, 6, 6, 3)).astype(np.int8))
    program = translated(read_tflite(path.read_bytes()), {"x": x})
    return Net(path, program, capture(program, (x,)), x)


def test_each_integer_is_an_output_of_the_probed_file_and_all_else_stays(net: Net, tmp_path: Path) -> None:
    probed = write_probed(net.path, tmp_path)
    assert probed is not None and (probed.own, probed.all) == (2, 5)
    assert probed.nodes == {"y": 2, "m": 3, "flat": 4, "z": 0}
    before, after = (read_tflite(path.read_bytes()) for path in (net.path, probed.path))
    assert [after.tensors[i].name for i in after.outputs] == ["z", "at", "y", "m", "flat"]
    assert after.inputs == before.inputs and [each.inputs for each in after.operators] == [
        each.inputs for each in before.operators
    ]
    floats = [FileTensor("x", (2,)), FileTensor("y", (2,))]
    (other := tmp_path / "float.tflite").write_bytes(
        model_bytes(floats, [FileNode("RELU", ["x"], ["y"])], ["x"], ["y"])
    )
    assert write_probed(other, tmp_path) is None


def test_results_of_one_node_are_told_apart(tmp_path: Path) -> None:
    tensors = [constant("axis", np.int32(0)), *(FileTensor(name, (n,), "int8", scale=0.5) for name, n in
                                                (("x", 4), ("a", 2), ("b", 2)))]  # fmt: skip
    (path := tmp_path / "split.tflite").write_bytes(
        model_bytes(tensors, [FileNode("SPLIT", ["axis", "x"], ["a", "b"], {0: ("i", 2)})], ["x"], ["b"])
    )
    (folder := tmp_path / "probed").mkdir()
    probed = write_probed(path, folder)
    assert probed is not None and probed.nodes == {"a": 1, "a:1": 0}
    x = torch.arange(4, dtype=torch.int8)
    functional = functionalize(capture(translated(read_tflite(path.read_bytes()), {"x": x}), (x,)))
    names = _numbers_by_result(functional)
    assert names["a:1"] == names["a"] + 1 == functional.graph.outputs[0]


def test_what_is_no_result_of_the_last_call_is_not_taken_for_it(tmp_path: Path) -> None:
    """The positions of the largest values are converted behind the values."""
    tensors = [FileTensor("x", (6,), "int8", scale=0.5), constant("k", np.int32(2)),
               FileTensor("v", (2,), "int8", scale=0.5), FileTensor("i", (2,), "int32")]  # fmt: skip
    model = read_tflite(model_bytes(tensors, [FileNode("TOPK_V2", ["x", "k"], ["v", "i"])], ["x"], ["v", "i"]))
    x = torch.tensor([3, 1, 4, 1, 5, 9], dtype=torch.int8)
    graph = functionalize(capture(translated(model, {"x": x}), (x,))).graph
    number = _numbers_by_result(Functional(graph, tuple(range(len(graph.nodes)))))["v"]
    assert _of_declared_form(graph, {number: np.int8([9, 5])}) == {}
    assert [*_of_declared_form(graph, {graph.outputs[0]: np.int8([9, 5])})] == [graph.outputs[0]]


def test_a_wrong_operator_is_named_and_not_the_one_behind_it(net: Net) -> None:
    found = net.row(XNNPACK, {XNNPACK: shifted("m", -3)})
    assert (found.verdict, found.blame) == ("discrepant", "platform")
    assert found.culprit is not None and found.culprit.label == "m (MAX_POOL_2D)"
    assert len(found.faults) == 1
    found = net.row(XNNPACK, {XNNPACK: shifted("y", 1)})
    assert found.culprit is not None
    assert (found.culprit.op, found.culprit.label) == ("aten.conv2d.default", "y (CONV_2D)")
    assert "216 of 216 elements" in found.detail and "by up to 1 step" in found.detail
    assert "further from the exact quotient than rounding and a factor of 31 bits" in found.detail
    assert found.detail.endswith("; litert/cpu@delegate=none gives the expected ones")


@pytest.mark.parametrize("wrong", [(REFERENCE,), (PLAIN, REFERENCE)])
def test_kernels_are_judged_where_others_give_what_is_expected(net: Net, wrong: tuple[PlatformName, ...]) -> None:
    """As `SUM` of int8 in ai-edge-litert 2.3.0: the reference kernels alone do not rescale it."""
    found = net.row(wrong[0], dict.fromkeys(wrong, shifted("z", 20)))
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.label == "z (FULLY_CONNECTED)"


def fails(name: str, _: Array) -> Array:
    raise MindgapError(f"no kernel of {name}\n")


def test_a_referee_that_does_not_run_the_file_leaves_it_to_the_next(net: Net) -> None:
    wrong = shifted("z", 20)
    found = net.row(XNNPACK, {XNNPACK: wrong, PLAIN: fails})
    assert found.verdict == "discrepant" and found.detail.endswith(f"; {REFERENCE} gives the expected ones")
    found = net.row(XNNPACK, {XNNPACK: wrong, PLAIN: fails, REFERENCE: fails})
    assert found.word == "unjudged" and "nothing else gives the integers expected there" in found.detail
    assert f"{PLAIN} does not run it: no kernel of y; {REFERENCE} does not run it" in found.detail
    found = net.row(XNNPACK, {XNNPACK: wrong, PLAIN: fails, REFERENCE: wrong})
    assert found.word == "unjudged" and "give other integers than expected there too" in found.detail


def test_nothing_is_said_where_all_kernels_give_the_same(net: Net) -> None:
    found = net.row(XNNPACK, dict.fromkeys((XNNPACK, PLAIN, REFERENCE), shifted("z", 20)))
    assert not found.finding and found.own_path is not None and found.own_path.status == "unjudged"
    assert found.word == "unjudged" and has(found.reasons, "own_path")
    assert "LiteRT's other kernels give other integers than expected there too" in found.own_path.detail
    refused = net.row(XNNPACK, dict.fromkeys((XNNPACK, PLAIN, REFERENCE), shifted("z", 20)), refused="no tfl.floor")
    assert (refused.word, refused.status, refused.detail) == ("unjudged", "ok", found.detail)


def test_an_output_that_is_steps_off_is_no_rounding_by_its_type_alone() -> None:
    given = np.int8([1, -128, 127])
    assert not is_steps_off((given,), (given + np.int8([1, 0, -1]),))
    assert is_steps_off((given,), (np.int8([1, 127, 127]),))
    assert not is_steps_off((np.int64([5]),), (np.int64([9]),))


def test_a_wrong_position_is_a_finding(net: Net) -> None:
    found = net.row(PLAIN, {PLAIN: lambda name, array: (array + 1) % 12 if name == "at" else array})
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.label == "at (ARG_MAX)"


def row_of_positions(tmp_path: Path, outputs: Sequence[Array], *faults: Fault) -> Row:
    """The row of a file that gives the int64 positions of the largest values, by what its translated graph gave and the
    outputs of the file."""
    tensors = [FileTensor("x", (2, 5)), constant("axis", np.int32([1])), FileTensor("at", (2,), "int64")]
    (path := tmp_path / "at.tflite").write_bytes(
        model_bytes(tensors, [FileNode("ARG_MAX", ["x", "axis"], ["at"])], ["x"], ["at"])
    )
    x = torch.tensor([[1.0, 5.0, 2.0, 0.0, 3.0], [7.0, 1.0, 2.0, 3.0, 4.0]])
    graph = capture(translated(read_tflite(path.read_bytes()), {"x": x}), (x,))
    comparison = GraphComparison(RunContext(executed, RunSettings(), describe=lambda _: {}), "at", graph)
    first = faults[0]
    graphs = Row(
        "at", PLAIN, "ok", first.verdict, culprit=first.culprit, blame=first.blame, detail=first.detail, faults=faults
    )
    right = (np.int64([1, 0]),)
    run = OwnRun(PLAIN, "at.tflite", tuple(outputs), right, file=True, source_file=True)
    return with_own_path(
        comparison, graphs, run, lambda _: None, lambda: right,
        lambda name: OwnRun(name, "at.tflite", right, file=True), lambda *_: None,
    )  # fmt: skip


NARROWED = Fault(
    OperatorCulprit(("aten.to.dtype",), 1, "at (ARG_MAX)"),
    "structural",
    "platform",
    (1,),
    "int32[2] where int64[2] is right",
)


def test_a_translated_graph_that_is_narrowed_says_nothing_of_a_file_with_right_dtypes(tmp_path: Path) -> None:
    """litert-torch makes int32 of int64, so that the graph of this file was `structural`."""
    found = row_of_positions(tmp_path, [np.int64([1, 0])], NARROWED)
    assert (found.verdict, found.faults, found.blame, found.culprit) == ("identical", (), None, None)
    assert "the captured graph has findings of its own here (int32[2] where int64[2] is right)" in found.detail


def test_what_is_wrong_in_the_file_stays_beside_a_narrowed_graph(tmp_path: Path) -> None:
    wrong = Fault(OperatorCulprit(("aten.argmax.default",), 0), "discrepant", "platform", (0,), "another position")
    found = row_of_positions(tmp_path, [np.int64([1, 0])], NARROWED, wrong)
    assert (found.verdict, found.faults) == ("identical", ()), "the file gives the right position"
    for outputs, verdicts in (([np.int32([1, 0])], ["structural", "export"]), ([np.int64([4, 0])], ["export"])):
        found = row_of_positions(tmp_path, outputs, NARROWED)
        assert [each.verdict for each in found.faults] == verdicts


def row_of_result(
    tmp_path: Path, tensors: Sequence[FileTensor], node: FileNode, given: dict[str, Array], change: Change
) -> Row:
    """The row of a file of one node with one result, where the kernels without delegate give other integers."""
    (path := tmp_path / "one.tflite").write_bytes(model_bytes(tensors, [node], [*given], node.outputs))
    inputs = {name: torch.from_numpy(array) for name, array in given.items()}
    program = translated(read_tflite(path.read_bytes()), inputs)
    graph = capture(program, tuple(inputs.values()))
    (name,), expected = node.outputs, program(*inputs.values())[node.outputs[0]].numpy()
    comparison = GraphComparison(RunContext(executed, RunSettings(), describe=lambda _: {}), "one", graph)

    def outputs(platform: PlatformName) -> tuple[Array, ...]:
        return (change(name, expected) if platform == PLAIN else expected,)

    return with_own_path(
        comparison, Row("one", PLAIN, "ok", "identical"),
        OwnRun(PLAIN, "one.tflite", outputs(PLAIN), (expected,), file=True, source_file=True),
        lambda _: None, lambda: (expected,), lambda each: OwnRun(each, "one.tflite", outputs(each), file=True),
        lambda each, _: (outputs(each), {name: outputs(each)[0]}),
    )  # fmt: skip


def test_parts_of_other_scales_are_judged_by_the_concatenation_that_holds_them(tmp_path: Path) -> None:
    """uint8 parts are quantised again (`ConcatenationWithScaling`); no tensor of the file holds what comes of them."""
    tensors = [FileTensor("a", (2, 40), "uint8", scale=0.3, zero=9),
               FileTensor("b", (2, 50), "uint8", scale=0.5, zero=4),
               FileTensor("y", (2, 90), "uint8", scale=0.5, zero=4)]  # fmt: skip
    node = FileNode("CONCATENATION", ["a", "b"], ["y"], {0: ("i", 1)})
    numbers = np.random.default_rng(1)
    given = {name: numbers.integers(0, 256, (2, n)).astype(np.uint8) for name, n in (("a", 40), ("b", 50))}

    def shifted_part(part: slice) -> Change:
        return lambda _, y: np.where(np.isin(np.arange(90), np.arange(90)[part]), np.minimum(y, 254) + 1, y).astype(
            np.uint8
        )

    for part in (slice(40), slice(40, 90)):
        found = row_of_result(tmp_path, tensors, node, given, shifted_part(part))
        assert found.verdict == "discrepant" and found.culprit is not None, part
        assert found.culprit.label == "y (CONCATENATION)"
    ties = row_of_result(tmp_path, tensors, node, given, lambda _, y: y)
    assert ties.verdict == "identical"


def test_integers_that_are_only_moved_are_judged(tmp_path: Path) -> None:
    tensors = [FileTensor("x", (2, 6), "int8", scale=0.5), constant("shape", np.int32([3, 4])),
               FileTensor("y", (3, 4), "int8", scale=0.5)]  # fmt: skip
    given = {"x": np.arange(12, dtype=np.int8).reshape(2, 6)}
    node = FileNode("RESHAPE", ["x", "shape"], ["y"])
    found = row_of_result(tmp_path, tensors, node, given, lambda _, y: y[::-1].copy())
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.label == "y (RESHAPE)"


@pytest.mark.parametrize(("sums", "verdict"), [(2, "discrepant"), (4, "identical")])
def test_int16_sums_in_32_bits_are_multiplied_by_all_bits_of_the_factor(
    tmp_path: Path, sums: int, verdict: str
) -> None:
    """A step at 30,000 is within a factor of 15 bits. `sums`: the type of the sums, int32 or int64."""
    tensors = [FileTensor("x", (1, 4), "int16", scale=0.001), constant("w", np.int8([[100, 3, 70, -20]]), scale=0.01),
               FileTensor("y", (1, 1), "int16", scale=0.0009)]  # fmt: skip
    node = FileNode("FULLY_CONNECTED", ["x", "w"], ["y"], {0: ("b", 0), 4: ("b", sums)})
    given = {"x": np.int16([[20000, 3000, 10000, 500]])}
    found = row_of_result(tmp_path, tensors, node, given, lambda _, y: (y + 1).astype(np.int16))
    assert found.verdict == verdict, found.own_path
    assert found.own_path is not None and found.own_path.status == ("differs" if sums == 2 else "rounding")


def test_a_missing_saturation_is_a_finding(net: Net) -> None:
    def wraps(name: str, array: Array) -> Array:
        return np.where(array == 127, np.int8(-128), array) if name == "z" else array

    assert (net.values(right)["z"] == 127).any()
    found = net.row(PLAIN, {PLAIN: wraps})
    assert found.verdict == "discrepant" and found.culprit is not None and found.culprit.label == "z (FULLY_CONNECTED)"


def test_a_probe_that_changes_what_runs_decides_nothing(net: Net) -> None:
    found = net.row(XNNPACK, {XNNPACK: shifted("y", 2)}, probed=right)
    assert not found.finding and found.own_path is not None and found.own_path.status == "unjudged"
    assert found.word == "unjudged" and has(found.reasons, "own_path")
    assert "with its integers as further outputs the file gives other results" in found.own_path.detail
