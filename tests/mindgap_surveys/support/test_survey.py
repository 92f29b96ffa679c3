"""What platforms say they run, on real samples of a few operators."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mindgap.graph import (
    DType,
    Graph,
    Input,
    Literal,
    MindgapError,
    Node,
    Ref,
    TensorSpec,
    Uniform,
    concatenate,
    encode,
    materialise,
)
from mindgap.platforms import registry
from mindgap.platforms.name import parse
from mindgap.results.store import Store
from mindgap.results.support_answers import SupportAnswer, SupportTable, answer_of, read_support
from mindgap.results.support_key import Key, key_of
from mindgap.run.outcome import Outcome
from mindgap_campaign.catalogue import Catalogue, build
from mindgap_surveys.support.call_forms import in_place, recast, relaid
from mindgap_surveys.support.coverage import operator_coverage, version_coverage
from mindgap_surveys.support.probe_file import probe_set
from mindgap_surveys.support.prober import _named
from mindgap_surveys.support.probes import CallProbe
from mindgap_surveys.support.single_calls import calls
from mindgap_surveys.support.survey import SurveyResult, survey_platforms

F32 = TensorSpec.contiguous("float32", (2, 3))


def tensor(shape: tuple[int, ...], dtype: str = "float32", seed: int = 1) -> Input:
    return Input(TensorSpec.contiguous(dtype, shape), Uniform(seed, 0.5, 2.0))


def call(op: str, *inputs: Input, gives: TensorSpec | None = None, args=None, kwargs=()) -> Graph:
    args = tuple(Ref(i) for i in range(len(inputs))) if args is None else args
    spec = inputs[0].spec if gives is None else gives
    return Graph(inputs, (Node(op, args, kwargs, (spec,)),), (len(inputs),))


def probe(graph: Graph) -> CallProbe:
    return CallProbe(*key_of(graph, graph.nodes[0]), encode(graph))


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    made = Catalogue(tmp_path_factory.mktemp("samples"), create=True)
    pytest.importorskip("expecttest")
    build(made, ["ops:tanh", "ops:cumsum", "ops:nn.functional.max_pool2d"], ("forward", "backward"))
    return made


@pytest.fixture(scope="session")
def made(catalogue: Catalogue, tmp_path_factory: pytest.TempPathFactory) -> list[CallProbe]:
    return probe_set(catalogue, folder=tmp_path_factory.mktemp("probes"))


@pytest.mark.nightly
def test_samples_become_calls_in_dtypes_layouts_and_in_place(made: list[CallProbe]) -> None:
    keys = {one.key for one in made}
    assert {Key("aten.tanh.default", "float32", "contiguous"), Key("aten.tanh.default", "bfloat16", "contiguous"),
            Key("aten.tanh.default", "float32", "permuted"), Key("aten.tanh_.default", "float32", "contiguous"),
            Key("aten.tanh_backward.default", "float32", "contiguous"),
            Key("aten.max_pool2d_with_indices_backward.default", "float32", "contiguous"),
            Key("aten.cumsum.default", "int64", "contiguous")} <= keys  # fmt: skip
    for one in made:
        graph = one.graph
        assert len(graph.nodes) == 1 and key_of(graph, graph.nodes[0]) == one.key
    of_a_key = [one.data for one in made if one.key == ("aten.cumsum.default", "float32", "contiguous")]
    assert len(of_a_key) == len(set(of_a_key)) <= 3


@pytest.mark.nightly
def test_the_set_is_made_once(catalogue: Catalogue, made: list[CallProbe], tmp_path: Path) -> None:
    first = probe_set(catalogue, folder=tmp_path)
    (file,) = tmp_path.iterdir()
    assert first == made, "two makings of one catalogue's probes differ"
    stamp = file.stat().st_mtime_ns
    assert probe_set(catalogue, folder=tmp_path) == first and file.stat().st_mtime_ns == stamp
    file.write_bytes(file.read_bytes()[:100])
    assert probe_set(catalogue, folder=tmp_path) == first, "a damaged file is made again"


@pytest.mark.nightly
def test_without_a_catalogue_the_samples_are_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("expecttest")
    monkeypatch.setattr("mindgap_surveys.support.probe_file.SOURCES", ("ops:tanh",))
    seen: list[str] = []
    found = probe_set(folder=tmp_path, on_progress=lambda done, total, what: seen.append(what))
    assert {"aten.tanh.default", "aten.tanh_backward.default"} <= {one.op for one in found} and "ops:tanh" in seen
    seen.clear()
    assert probe_set(folder=tmp_path, on_progress=lambda done, total, what: seen.append(what)) == found and not seen


def test_a_cut_holds_what_the_call_was_given() -> None:
    spec = TensorSpec.contiguous("float32", (3,))
    nodes = (
        Node("aten.add_.Scalar", (Ref(0), 1.0), (), (spec,)),
        Node("aten.exp.default", (Ref(1),), (), (spec,)),
        Node("aten.add_.Scalar", (Ref(0), 1.0), (), (spec,)),
    )
    graph = Graph((Input(spec, Literal(np.arange(3, dtype=np.float32).tobytes())),), nodes, (2,))
    first, second, third = calls(graph)
    assert [materialise(cut.inputs[0]).tolist() for cut in (first, second, third)] == [[0, 1, 2], [1, 2, 3], [1, 2, 3]]
    assert [cut.nodes[0].op for cut in (first, second)] == ["aten.add_.Scalar", "aten.exp.default"]


def test_forms_change_what_they_say() -> None:
    graph = call("aten.sum.dim_IntList", tensor((2, 3)), args=(Ref(0), (1,)), kwargs=(("dtype", DType("float32")),),
                 gives=TensorSpec.contiguous("float32", (2,)))  # fmt: skip
    half = recast(graph, "float16")
    assert half is not None and half.inputs[0].spec.dtype == "float16" and half.inputs[0].recipe == Uniform(1, 0.5, 2.0)
    assert half.nodes[0].kwargs == (("dtype", DType("float16")),) and half.nodes[0].outputs[0].dtype == "float16"
    whole = recast(graph, "int32")
    assert whole is not None and materialise(whole.inputs[0]).tolist() == np.trunc(
        materialise(graph.inputs[0])
    ).astype(np.int32).tolist()  # fmt: skip
    assert recast(graph, "float32") is None
    four = call("aten.relu.default", tensor((2, 3, 4, 5)))
    for layout, stride in (("channels_last", (60, 1, 15, 3)), ("permuted", (1, 2, 6, 24)), ("expanded", (0, 20, 5, 1))):
        laid = relaid(four, layout)
        assert laid is not None and laid.inputs[0].spec.stride == stride
        assert key_of(laid, laid.nodes[0]).layout == layout
    expanded = relaid(four, "expanded")
    assert expanded is not None
    values = materialise(expanded.inputs[0])
    assert (values[0] == values[1]).all() and (values[0] == materialise(four.inputs[0])[0]).all()
    assert relaid(graph, "channels_last") is None
    assert [twin.nodes[0].op for twin in in_place(four)] == ["aten.relu_.default"]
    squeezed = call(
        "aten.squeeze.dims", tensor((2, 1)), args=(Ref(0), (1,)), gives=TensorSpec.contiguous("float32", (2,))
    )
    (twin,) = in_place(squeezed)
    assert twin.nodes[0].op == "aten.squeeze_.dims" and twin.nodes[0].outputs == squeezed.nodes[0].outputs
    assert not list(in_place(graph)), "what the call gives is of another shape than what it would write over"


def outcome(status: str, message: str = "", **more: object) -> Outcome:
    return Outcome("p/q", "digest", status, message=message, signature=message, **more)  # type: ignore[arg-type]


def test_one_odd_sample_does_not_decide() -> None:
    key = Key("aten.sin.default", "float32", "contiguous")
    refusal, error = outcome("unsupported", "no kernel"), outcome("runtime_error", "boom")
    assert answer_of(key, [refusal, refusal, refusal]).answer == "refuses"
    assert answer_of(key, [refusal, outcome("ok")]).answer == "runs"
    mixed = answer_of(key, [refusal, error, refusal])
    assert (mixed.answer, mixed.signature, mixed.status, mixed.count) == ("fails", "boom", "runtime_error", 3)
    split = answer_of(key, [outcome("ok", facts={"decomposed": {"aten.sin.default": ["aten.cos.default"]}})])
    assert (split.answer, split.reason) == ("decomposed", "aten.cos.default")
    other = answer_of(key, [outcome("ok", facts={"decomposed": {"aten.tan.default": ["aten.cos.default"]}})])
    assert other.answer == "runs"


def support(*refused: Key, fails: tuple[Key, ...] = (), runs: tuple[Key, ...] = ()) -> SupportTable:
    words = {**dict.fromkeys(refused, "refuses"), **dict.fromkeys(fails, "fails"), **dict.fromkeys(runs, "runs")}
    answers = {key: SupportAnswer(*key, word, "", "no kernel", "", 3) for key, word in words.items()}  # type: ignore[arg-type]
    return SupportTable({"f": answers}, {"p/q": "f"})


def test_only_what_was_refused_is_refused() -> None:
    relu = call("aten.relu.default", tensor((4,)))
    key = key_of(relu, relu.nodes[0])
    assert support(key).refuses("f", relu) == "aten.relu.default: no kernel"
    assert support(key).refuses("another", relu) is None
    assert support(fails=(key,)).refuses("f", relu) is None, "a failure is a finding, and runs"
    for other in (key._replace(dtype="float64"), key._replace(layout="permuted"), key._replace(op="aten.tanh.default")):
        assert support(other).refuses("f", relu) is None
    # Who lacks an operator plainly, and all else that was asked of it, lacks it in what was not asked.
    strange = call("aten.relu.default", tensor((4,), "bfloat16"))
    assert key_of(strange, strange.nodes[0]) != key
    assert support(key).refuses("f", strange) == "aten.relu.default: no kernel"
    assert support(key, runs=(key._replace(dtype="float64"),)).refuses("f", strange) is None
    two = concatenate([call("aten.tanh.default", tensor((4,))), relu])
    assert support(key).refuses("f", two) == "aten.relu.default: no kernel"


@pytest.mark.parametrize(
    ("reason", "lacks"),
    [
        ("no kernel", True),
        ("NotImplementedError: no kernel", True),
        ("model: it has no output", False),
        ("onnx::Relu: no float32", False),
    ],
)
def test_a_refusal_of_something_else_says_nothing_of_forms_that_were_not_asked(reason: str, lacks: bool) -> None:
    key = Key("aten.relu.default", "float32", "contiguous")
    told = answer_of(key, [outcome("unsupported", reason if not lacks else f"{key.op}: {reason}")])
    table = SupportTable({"f": {key: told}}, {"p/q": "f"})
    assert table.refuses("f", call(key.op, tensor((4,)))) == f"{key.op}: {reason}", "what was asked is refused"
    assert (table.refuses("f", call(key.op, tensor((4,), "bfloat16"))) is not None) == lacks


def test_a_graph_is_answered_for_at_once() -> None:
    graphs = [call("aten.relu.default", tensor((4,))), call("aten.tanh.default", tensor((4, 4)))]
    graph = concatenate(graphs * 10)
    known = support(Key("aten.tanh.default", "float64", "contiguous"), Key("aten.relu.default", "bool", "contiguous"))
    assert known.refuses("f", graph) is None
    clock = time.process_time()
    for _ in range(200):
        known.refuses("f", graph)
    # 50 µs are promised, in a process that has its core to itself.
    assert (time.process_time() - clock) / 200 < 500e-6


def ask(store: Store, probes: list[CallProbe], *platforms: str, budget_s: float | None = None) -> SurveyResult:
    return survey_platforms([parse(each) for each in platforms], probes, store, budget_s=budget_s)


def test_answers_are_kept_by_fingerprint(tmp_path: Path, made: list[CallProbe]) -> None:
    store = Store(tmp_path / "s")
    asked = ask(store, made, "cpu/eager")
    keys = {one.key for one in made}
    assert set(asked.keys) == keys and not asked.absent and asked.cpu_seconds["cpu/eager"] > 0
    found = asked.support.answers(asked.support.platforms["cpu/eager"])
    assert found.keys() == keys and {answer.answer for answer in found.values()} == {"runs"}
    assert {"aten.tanh.default", "aten.tanh_.default", "aten.cumsum.default"} <= {key.op for key in found}
    again = ask(store, made, "cpu/eager")
    assert again.cpu_seconds == {"cpu/eager": 0.0} and again.support.platforms == asked.support.platforms
    read = read_support(Store(tmp_path / "s"), asked.support.platforms)
    assert read.answers(read.platforms["cpu/eager"]) == found
    assert read_support(store, {"cpu/eager": "another"}).answers("another") == {}


def test_a_budget_leaves_the_rest_untried_and_a_second_run_goes_on(tmp_path: Path, made: list[CallProbe]) -> None:
    store = Store(tmp_path / "s")
    asked = ask(store, made, "cpu/jit", budget_s=0.02)
    left = asked.untried["cpu/jit"]
    assert left and all(key.dtype != "float32" or key.layout != "contiguous" for key in left[-3:])
    here = operator_coverage(asked.keys, asked.support.answers(asked.support.platforms["cpu/jit"]))
    assert here.calls["untried"] == len(left)
    rest = ask(store, made, "cpu/jit")
    assert not rest.untried["cpu/jit"]
    assert len(rest.support.answers(rest.support.platforms["cpu/jit"])) == len(asked.keys)


def test_an_interrupt_ends_the_surveys_of_all_platforms(tmp_path: Path, made: list[CallProbe]) -> None:
    told: list[str] = []

    def interrupt(platform: str, done: int, total: int, what: str) -> None:
        told.append(platform)
        if platform == "cpu/eager":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        survey_platforms(
            [parse("cpu/eager"), parse("cpu/jit")], made, Store(tmp_path, create=True), jobs=2, on_progress=interrupt
        )
    alone: list[str] = []
    survey_platforms(
        [parse("cpu/jit")], made, Store(tmp_path / "alone", create=True), on_progress=lambda *_: alone.append("")
    )
    assert told.count("cpu/eager") == 1 and told.count("cpu/jit") < len(alone)


def test_failures_in_a_batch_are_found_alone(tmp_path: Path) -> None:
    """TorchScript says that it cannot trace `aten.resize_`; what lies beside it in one job can be traced."""
    spec = TensorSpec.contiguous("float32", (2,))
    bad = call("aten.resize_.default", tensor((4,)), args=(Ref(0), (2,)), gives=spec)
    good = [call(f"aten.{name}.default", tensor((4,))) for name in ("abs", "exp", "tanh", "sin", "cos")]
    probes = [probe(graph) for graph in [*good, bad]]
    asked = ask(Store(tmp_path / "s"), probes, "cpu/jit")
    found = asked.support.answers(asked.support.platforms["cpu/jit"])
    assert {key.op: answer.answer for key, answer in found.items()} == {
        **{f"aten.{name}.default": "runs" for name in ("abs", "exp", "tanh", "sin", "cos")},
        "aten.resize_.default": "refuses",
    }


def test_the_packets_that_a_message_names() -> None:
    message = "aten.tan.default: aten::tan.out ran on the CPU; likewise aten::_softmax.out, ['cumsum.default']"
    assert {"aten.tan", "aten._softmax", "aten.cumsum"} <= _named(outcome("unsupported", message))
    assert _named(outcome("runtime_error", "Fatal error: 3 of 4")) == _named(outcome("ok"))


@pytest.mark.nightly
def test_onnx_tells_decomposed_from_native_and_refused(tmp_path: Path) -> None:
    if not registry.find("onnxruntime/cpu")[0].probe().available:
        pytest.skip("ONNX Runtime is not here")
    pair = TensorSpec.contiguous("float32", (3,))
    complete = [
        call("aten.relu.default", tensor((3, 4))),
        call("aten.celu.default", tensor((3, 4)), args=(Ref(0),)),
        call("aten._cdist_forward.default", tensor((3, 4)), tensor((2, 4), seed=2), args=(Ref(0), Ref(1), 3.0, 0),
             gives=TensorSpec.contiguous("float32", (3, 2))),
        call("aten.special_i1.default", tensor((3,)), gives=pair),
        call("aten.tanh_backward.default", tensor((3,)), tensor((3,), seed=2)),
    ]  # fmt: skip
    wide = [recast(call("aten.special_i1.default", tensor(shape)), "float64") for shape in ((3,), (4,))]
    complete += [call("aten.special_i1.default", tensor((4,))), *(graph for graph in wide if graph is not None)]
    asked = ask(Store(tmp_path / "s"), [probe(graph) for graph in complete], "onnxruntime/cpu")
    fingerprint = asked.support.platforms["onnxruntime/cpu"]
    answers = asked.support.answers(fingerprint)
    counts = {key.dtype: answer.count for key, answer in answers.items() if key.op == "aten.special_i1.default"}
    assert counts == {"float32": 2, "float64": 1}, "two samples refuse float32, and one the rest of the operator"
    found = {key.op: answer for key, answer in answers.items() if key.dtype == "float32"}
    assert found["aten.relu.default"].answer == "runs"
    assert found["aten.tanh_backward.default"].answer == "decomposed" and "aten." in found[
        "aten.tanh_backward.default"
    ].reason  # fmt: skip
    assert found["aten.special_i1.default"].answer == "refuses" and "ONNX" in found["aten.special_i1.default"].reason
    assert (
        asked.support.refuses(fingerprint, complete[3])
        == f"aten.special_i1.default: {found['aten.special_i1.default'].reason}"
    )
    assert not found["aten.special_i1.default"].reason.startswith("aten.special_i1.default")
    here = operator_coverage(asked.keys, asked.support.answers(fingerprint))
    (lack,) = [lack for lack in here.lacks if lack.op == "aten.special_i1.default"]
    assert lack.whole and lack.word == "refuses" and lack.reason


def test_lacks_are_told_by_dtype_and_layout() -> None:
    op = "aten.sin.default"
    runs, half, laid = (
        Key(op, "float32", "contiguous"),
        Key(op, "float16", "contiguous"),
        Key(op, "float32", "permuted"),
    )
    known = support(half, runs=(runs,), fails=(laid,))
    here = operator_coverage([runs, half, laid, Key("aten.tan.default", "float32", "contiguous")], known.answers("f"))
    assert here.packets == {"runs": 1, "decomposed": 0, "fails": 0, "falls_back": 0, "refuses": 0, "untried": 1}
    assert here.calls == {"runs": 1, "decomposed": 0, "fails": 1, "falls_back": 0, "refuses": 1, "untried": 1}
    assert here.dtypes["float32"] == (1, 1), "the operator that was not tried was not asked"
    assert here.dtypes["float16"] == (0, 1)
    listed_lacks = [(lack.op, lack.word, lack.whole, lack.dtypes, lack.layouts) for lack in here.lacks]
    assert listed_lacks == [
        ("aten.tan.default", "untried", True, ("float32",), ("contiguous",)),
        (op, "refuses", False, ("float16",), ("contiguous",)),
        (op, "fails", False, ("float32",), ("permuted",)),
    ]


def test_what_a_version_gains_and_loses() -> None:
    """Of the calls that both versions were asked."""
    gained, lost, kept, new = (Key(f"aten.{name}.default", "float32", "contiguous") for name in ("a", "b", "c", "d"))
    before = support(gained, runs=(lost, kept)).answers("f")
    after = support(lost, runs=(gained, kept, new)).answers("f")
    found = version_coverage([gained, lost, kept, new], before, after)
    assert [(each.op, each.word) for each in found.gained] == [("aten.a.default", "refuses")]
    assert [(each.op, each.word) for each in found.lost] == [("aten.b.default", "refuses")]
    assert found.lost[0].reason


def test_a_platform_that_is_not_here_is_absent(tmp_path: Path) -> None:
    if registry.find("mps/eager")[0].probe().available:
        pytest.skip("this machine has Apple's GPU")
    asked = ask(Store(tmp_path / "s"), [probe(call("aten.relu.default", tensor((3,))))], "mps/eager")
    assert "mps" in asked.absent["mps/eager"] and not asked.support.platforms
    with pytest.raises(MindgapError, match="mps/eager"):
        asked.check()
    replace(asked, support=SupportTable({}, {"cpu/eager": "f"})).check()
