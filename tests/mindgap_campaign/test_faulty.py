"""Each fault does what its file says, where it says, and nothing else; bad files are named by their key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import TORCH_DTYPES, to_numpy, to_torch
from mindgap.graph import DTYPES, Arg, Constant, Graph, Input, Node, Ref, TensorSpec, kind_of, numpy_dtype
from mindgap.graph.codec import digest
from mindgap.graph.compare.metrics import ordered
from mindgap.platforms.protocol import CompileFailure, PlatformError, Unsupported
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_campaign.faulty.backend import BACKEND

Array = np.ndarray[Any, np.dtype[Any]]
Call = tuple[str, Sequence[Arg]]


def graph_of(inputs: Sequence[Array], calls: Sequence[Call], outputs: Sequence[int] = ()) -> Graph:
    """Hand-built; the specs of results come from running it. Default output: the last value."""
    specs = [TensorSpec.contiguous({v[1]: k for k, v in DTYPES.items()}[a.dtype], a.shape) for a in inputs]
    given = tuple(Input(s, Constant(0)) for s in specs)
    nodes = [Node(op, tuple(args), (), (TensorSpec.contiguous("float32", ()),)) for op, args in calls]
    bare = Graph(given, tuple(nodes), tuple(range(len(given), len(given) + len(nodes))))
    found = [to_numpy(t) for t in Tape(bare).run([to_torch(a) for a in inputs])]
    names = {v[1]: k for k, v in DTYPES.items()}
    nodes = [
        Node(n.op, n.args, (), (TensorSpec.contiguous(names[a.dtype], a.shape),))
        for n, a in zip(nodes, found, strict=True)
    ]
    return Graph(given, tuple(nodes), tuple(outputs) or (len(given) + len(nodes) - 1,))


def load(tmp_path: Path, text: str, graph: Graph) -> Any:
    file = tmp_path / "faults.toml"
    file.write_text(text)
    return BACKEND.open({"faults": str(file)}).load(graph, ())


def ulp_distance(right: Array, found: Array) -> Array:
    """The representable values between each pair of floats; of complex numbers, between their parts."""
    if right.dtype.kind == "c":
        part = f"f{right.dtype.itemsize // 2}"
        right, found = right.view(part), found.view(part)
    return np.abs(ordered(right) - ordered(found))


def run(tmp_path: Path, text: str, graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    return load(tmp_path, text, graph)(inputs)


def fault(kind: str, when: str = "", **values: Any) -> str:
    lines = "\n".join(f"{k} = {_toml(v)}" for k, v in values.items())
    return f'[[fault]]\nkind = "{kind}"\n{lines}\n' + (f"when = {{ {when} }}\n" if when else "")


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    return str(value).lower() if isinstance(value, bool) else repr(value)


X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(4, 6)
EXP: Call = ("aten.exp.default", [Ref(0)])


def one(call: Call = EXP, x: Array = X) -> tuple[Graph, Array]:
    """A graph of one call, and the right result."""
    graph = graph_of([x], [call])
    return graph, BACKEND.open({}).load(graph, ())([x])[0]


# ---- no fault, no difference


def test_without_faults_it_is_eager() -> None:
    graph = graph_of([X], [EXP, ("aten.add_.Tensor", [Ref(1), 1.0]), ("aten.t.default", [Ref(2)])], [1, 2, 3])
    right = torch.exp(torch.from_numpy(X)) + 1
    for found in BACKEND.open({}).load(graph, ())([X])[:2]:
        assert np.array_equal(found, right.numpy())


def test_a_fault_elsewhere_changes_nothing(tmp_path: Path) -> None:
    graph, right = one()
    for when in ('op = "aten.sin*"', 'dtype = "float64"', "shape = [4, 5]", "min_numel = 25", "max_numel = 23",
                 "node = 1", 'graph = "zz"', 'any = "nan"', "nth = 2", "every = 2"):  # fmt: skip
        assert np.array_equal(run(tmp_path, fault("scaled", when, factor=2.0), graph, [X])[0], right), when


def test_a_fault_here_is_applied(tmp_path: Path) -> None:
    graph, right = one()
    here = f'graph = "{digest(graph)[:12]}"'
    for when in ('op = "aten.exp*"', 'dtype = "float32"', "shape = [4, -1]", "min_numel = 24", "max_numel = 24",
                 "node = 0", here, 'any = "negative"', "nth = 1", "every = 1"):  # fmt: skip
        assert np.array_equal(run(tmp_path, fault("scaled", when, factor=2.0), graph, [X])[0], right * 2), when


@pytest.mark.parametrize(
    ("wanted", "value"),
    [("nan", math.nan), ("inf", -math.inf), ("zero", -0.0), ("negative", -1.0), ("subnormal", 1e-40)],
)
def test_value_conditions_look_at_operands(tmp_path: Path, wanted: str, value: float) -> None:
    graph, _ = one()
    for applies, x in ((True, [1.0, value]), (False, [1.0, 2.0])):
        a = np.ones((4, 6), np.float32)
        a[0, :2] = x
        right = BACKEND.open({}).load(graph, ())([a])[0]
        found = run(tmp_path, fault("wrong_element", f'any = "{wanted}"', index=-1, add=1.0), graph, [a])[0]
        assert (found[-1, -1] == right[-1, -1] + 1) == applies, x


def test_nth_and_every_count_within_a_run(tmp_path: Path) -> None:
    graph = graph_of([X], [("aten.abs.default", [Ref(i)]) for i in range(6)], range(1, 7))
    nth = load(tmp_path, fault("scaled", "nth = 3", factor=2.0), graph)
    every = load(tmp_path, fault("scaled", "every = 2", factor=2.0), graph)
    for _ in range(2):
        assert [a[0, 0] for a in nth([X])] == [2, 2, 4, 4, 4, 4]
        assert [a[0, 0] for a in every([X])] == [2, 4, 4, 8, 8, 16]


# ---- kinds


@pytest.mark.parametrize("name", [n for n in DTYPES if kind_of(n) in ("float", "complex") and "float8" not in n])
@pytest.mark.parametrize("ulp", [1, 5])
def test_noise_is_that_many_ulp(tmp_path: Path, name: str, ulp: int) -> None:
    x = np.linspace(-2, 3, 999).astype(numpy_dtype(name))
    graph, right = one(("aten.neg.default", [Ref(0)]), x)
    found = run(tmp_path, fault("noise", ulp=ulp, seed=3), graph, [x])[0]
    steps = ulp_distance(right, found)
    assert set(steps.reshape(-1).tolist()) == set(range(1, ulp + 1))
    again = run(tmp_path, fault("noise", ulp=ulp, seed=3), graph, [x])[0]
    other = run(tmp_path, fault("noise", ulp=ulp, seed=4), graph, [x])[0]
    assert found.tobytes() == again.tobytes() != other.tobytes()


def test_noise_leaves_what_is_not_finite_and_stays_finite(tmp_path: Path) -> None:
    x = np.array([math.inf, -math.inf, math.nan, 3.4028235e38, -3.4028235e38] * 20, np.float32)
    graph, _ = one(("aten.clone.default", [Ref(0)]), x)
    found = run(tmp_path, fault("noise", ulp=4), graph, [x])[0]
    assert np.array_equal(np.isfinite(found), np.isfinite(x)) and np.array_equal(np.isnan(found), np.isnan(x))
    assert np.isposinf(found).sum() == 20


def test_nondeterministic_differs_between_runs_and_repeats_from_the_start(tmp_path: Path) -> None:
    graph, right = one()
    text = fault("nondeterministic", ulp=2)
    executable = load(tmp_path, text, graph)
    first, second = executable([X])[0], executable([X])[0]
    assert first.tobytes() != second.tobytes()
    assert int(ulp_distance(right, second).max()) == 2
    assert load(tmp_path, text, graph)([X])[0].tobytes() == first.tobytes()


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
def test_toward_zero_cuts(tmp_path: Path, name: str) -> None:
    x = np.linspace(-2, 3, 500).astype(numpy_dtype(name))
    graph, right = one(("aten.div.Tensor", [Ref(0), 3.0]), x)
    found = run(tmp_path, fault("toward_zero"), graph, [x])[0]
    exact = x.astype(np.float64) / 3
    assert (np.abs(found.astype(np.float64)) <= np.abs(exact)).all()
    assert int(ulp_distance(right, found).max()) == 1
    assert 0.3 < (right != found).mean() < 0.7


def test_toward_zero_in_float64_is_a_step(tmp_path: Path) -> None:
    x = np.array([1.0, -1.0, 0.0, math.inf])
    graph, right = one(("aten.clone.default", [Ref(0)]), x)
    found = run(tmp_path, fault("toward_zero"), graph, [x])[0]
    assert (
        found.tolist() == [np.nextafter(1.0, 0), np.nextafter(-1.0, 0), 0.0, math.inf] and right.tolist() == x.tolist()
    )


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("flush_subnormals", [1e-40, -1e-40, 1e-30, math.nan], [0.0, -0.0, 1e-30, math.nan]),
        ("nan_to_zero", [math.nan, 1.0, math.inf, -0.0], [0.0, 1.0, math.inf, -0.0]),
        ("nan_to_inf", [math.nan, 1.0, -math.inf, 2.0], [math.inf, 1.0, -math.inf, 2.0]),
        ("inf_to_nan", [math.inf, 1.0, -math.inf, 2.0], [math.nan, 1.0, math.nan, 2.0]),
    ],
)
def test_exceptional_values(tmp_path: Path, kind: str, before: list[float], after: list[float]) -> None:
    x = np.array(before, np.float32)
    graph, _ = one(("aten.clone.default", [Ref(0)]), x)
    found = run(tmp_path, fault(kind), graph, [x])[0]
    wanted = np.array(after, np.float32)
    assert np.array_equal(found, wanted, equal_nan=True) and np.array_equal(
        np.signbit(found[:2]), np.signbit(wanted[:2])
    )


def test_wrong_element_is_one(tmp_path: Path) -> None:
    graph, right = one()
    found = run(tmp_path, fault("wrong_element", index=26, scale=2.0, add=1.0), graph, [X])[0]
    assert np.flatnonzero(found != right).tolist() == [2]
    assert found.flat[2] == np.float32(right.flat[2] * 2 + 1)


def test_transposed_keeps_the_shape(tmp_path: Path) -> None:
    graph, right = one()
    assert np.array_equal(run(tmp_path, fault("transposed"), graph, [X])[0], right.T.reshape(4, 6))


def test_attribute_by_name(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 7, 7)).astype(np.float32)
    graph, right = one(("aten.max_pool2d.default", [Ref(0), (3, 3), (2, 2), (1, 1), (1, 1), False]), x)
    found = run(tmp_path, fault("attribute", set={"padding": [0, 0]}), graph, [x])[0]
    wanted = torch.nn.functional.max_pool2d(torch.from_numpy(x), 3, 2, 0).numpy()
    assert np.array_equal(found, wanted) and found.shape != right.shape
    assert np.array_equal(run(tmp_path, fault("attribute", set={"approximate": "tanh"}), graph, [x])[0], right)
    gelu, exact = one(("aten.gelu.default", [Ref(0)]))
    found = run(tmp_path, fault("attribute", set={"approximate": "tanh"}), gelu, [X])[0]
    assert np.array_equal(found, torch.nn.functional.gelu(torch.from_numpy(X), approximate="tanh").numpy())
    assert not np.array_equal(found, exact)


def test_stale_results(tmp_path: Path) -> None:
    calls: list[Call] = [("aten.abs.default", [Ref(0)]), ("aten.exp.default", [Ref(0)]), ("aten.sin.default", [Ref(0)])]
    graph = graph_of([X], calls, [1, 2, 3])
    right = BACKEND.open({}).load(graph, ())([X])
    within = load(tmp_path, fault("stale"), graph)
    for _ in range(2):
        found = within([X])
        assert [np.array_equal(found[i], right[j]) for i, j in ((0, 0), (1, 0), (2, 1))] == [True] * 3
    of_node = load(tmp_path, fault("stale", of="node"), graph)
    assert all(np.array_equal(a, b) for a, b in zip(of_node([X]), right, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(of_node([X + 1]), right, strict=True))


@pytest.mark.parametrize(("how", "shape"), [("flat", (24,)), ("extra", (1, 4, 6)), ("short", (4, 5))])
def test_wrong_shape(tmp_path: Path, how: str, shape: tuple[int, ...]) -> None:
    graph, _ = one()
    assert run(tmp_path, fault("wrong_shape", how=how), graph, [X])[0].shape == shape


def test_wrong_dtype(tmp_path: Path) -> None:
    graph, right = one()
    found = run(tmp_path, fault("wrong_dtype", dtype="bfloat16"), graph, [X])[0]
    assert found.dtype == numpy_dtype("bfloat16") and np.array_equal(found, right.astype(found.dtype))


@pytest.mark.parametrize(("format_", "bits"), [("bfloat16", 8), ("float16", 11), ("tf32", 11)])
def test_low_precision_rounds_operands(tmp_path: Path, format_: str, bits: int) -> None:
    x = np.random.default_rng(1).normal(size=999).astype(np.float32)
    graph, right = one(("aten.clone.default", [Ref(0)]), x)
    found = run(tmp_path, fault("low_precision", format=format_), graph, [x])[0]
    assert found.dtype == np.float32
    relative = np.abs(found - right) / np.abs(right)
    assert 2.0 ** -(bits + 1) < relative.max() <= 2.0**-bits
    if format_ != "tf32":
        assert np.array_equal(found, to_numpy(torch.from_numpy(x).to(TORCH_DTYPES[format_]).float()))
    else:
        assert not (found.view(np.uint32) & 0x1FFF).any()


def test_a_second_result_can_be_faulty(tmp_path: Path) -> None:
    spec = TensorSpec.contiguous
    node = Node("aten.max.dim", (Ref(0), 1), (), (spec("float32", (4,)), spec("int64", (4,))))
    graph = Graph((Input(spec("float32", (4, 6)), Constant(0)),), (node,), (1, 2))
    right = BACKEND.open({}).load(graph, ())([X])
    found = run(tmp_path, fault("wrong_element", output=1, add=-5), graph, [X])
    assert np.array_equal(found[0], right[0]) and (found[1] - right[1]).tolist() == [-5, 0, 0, 0]


@pytest.mark.parametrize("kind", ["scaled", "low_precision", "attribute", "toward_zero"])
def test_damage_to_an_in_place_result_is_seen_through_its_memory(tmp_path: Path, kind: str) -> None:
    calls: list[Call] = [
        ("aten.mul.Tensor", [Ref(0), 1.0]),
        ("aten.add_.Tensor", [Ref(1), Ref(0)]),
        ("aten.neg.default", [Ref(1)]),
    ]
    graph = graph_of([X], calls, [1, 2, 3])
    values: dict[str, Any] = {"scaled": {"factor": 2.0}, "attribute": {"set": {"alpha": 3}}}.get(kind, {})
    # Thirds, so that float32 has something to round.
    x = X / np.float32(3)
    found = run(tmp_path, fault(kind, 'op = "aten.add_*"', **values), graph, [x])
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[2], -found[0])
    if kind in ("scaled", "attribute"):
        assert np.allclose(found[0], x * 4, rtol=1e-6)
    assert np.array_equal(x, X / np.float32(3))


def test_trace_shows_the_damage_where_it_was_done(tmp_path: Path) -> None:
    graph = graph_of([X], [EXP, ("aten.neg.default", [Ref(1)]), ("aten.relu_.default", [Ref(2)])])
    values = load(tmp_path, fault("scaled", 'op = "aten.neg*"', factor=3.0), graph).trace([X])
    assert np.array_equal(values[0], torch.exp(torch.from_numpy(X)).numpy()) and np.array_equal(
        values[1], values[0] * -3
    )
    assert not values[2].any()


# ---- loading, and what the process suffers (in a worker, as it is meant)


def test_refusal_and_compile_error_apply_at_load(tmp_path: Path) -> None:
    graph, _ = one()
    with pytest.raises(Unsupported, match="no such thing"):
        load(tmp_path, fault("refusal", 'op = "aten.exp*"', why="no such thing"), graph)
    with pytest.raises(CompileFailure, match="injected"):
        load(tmp_path, fault("compile_error", 'dtype = "float32"'), graph)
    load(tmp_path, fault("refusal", 'op = "aten.sin*"'), graph)


SUFFERED = {
    "exp": ("crash", {}, "crash"),
    "sin": ("hang", {}, "timeout"),
    "cos": ("runtime_error", {"message": "boom"}, "runtime_error"),
    "tan": ("compile_error", {}, "compile_error"),
    "abs": ("refusal", {}, "unsupported"),
    "neg": ("nondeterministic", {}, "nondeterministic"),
    "relu": ("crash", {"signal": "SIGABRT"}, "crash"),
    "sign": ("scaled", {"factor": 2.0}, "ok"),
}


@pytest.mark.nightly
def test_what_a_worker_makes_of_it(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text("".join(fault(k, f'op = "aten.{op}.*"', **v) for op, (k, v, _) in SUFFERED.items()))
    platform = f"faulty/eager@faults={file}"
    with WorkerPool([platform]) as pool:
        for op, (_, _, status) in SUFFERED.items():
            graph, right = one((f"aten.{op}.default", [Ref(0)]))
            outcome = pool.run(Job(platform, graph, want="outputs", deadline_s=4.0, inputs={0: X}))
            assert outcome.status == status, op
            if status == "ok":
                assert outcome.arrays is not None and np.array_equal(outcome.arrays[0], right * 2)


def test_leak_grows_the_process(tmp_path: Path) -> None:
    import psutil

    graph, right = one()
    executable = load(tmp_path, fault("leak", megabytes=32), graph)
    before = psutil.Process().memory_info().rss
    for _ in range(6):
        assert np.array_equal(executable([X])[0], right)
    # Of 192 MiB: what other tests freed meanwhile may hide some.
    assert psutil.Process().memory_info().rss - before > 100 << 20


# ---- the file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[fault]]\n", "fault.0"),
        (fault("noise", ulp=0), r"fault\.0\.ulp: .*greater than or equal to 1"),
        (fault("scaled", factor=2.0) + fault("noise", ulps=3), r"fault\.1\.ulps: Extra inputs"),
        (fault("noise", 'opp = "x"'), r"fault\.0\.when\.opp"),
        (fault("noise", 'dtype = "float99"'), r"fault\.0\.when: dtype 'float99' is not one of"),
        (fault("noise", 'any = "big"'), r"fault\.0\.when\.any"),
        (fault("noise", "nth = 1, every = 1"), r"fault\.0\.when: nth and every"),
        (fault("wrong_element"), r"fault\.0: give scale or add"),
        (fault("refusal", "nth = 1"), "fault.0: refusal applies at load"),
        (fault("teleport"), "teleport"),
        ("fault = 3", "fault"),
        ("[[", "not TOML"),
    ],
)
def test_a_bad_file_is_named_by_its_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(PlatformError, match=message) as found:
        BACKEND.environment({"faults": str(file)})
    assert str(file) in str(found.value) and "\n" not in str(found.value)


def test_a_missing_file_and_an_unknown_option(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="cannot be read"):
        BACKEND.environment({"faults": str(tmp_path / "none.toml")})
    with pytest.raises(PlatformError, match="no option 'fault'"):
        BACKEND.environment({"fault": "x"})
    assert BACKEND.environment({})["OMP_NUM_THREADS"] == "1"


def test_the_description_holds_the_faults(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(fault("noise", ulp=2))
    described = BACKEND.open({"faults": str(file)}).describe()
    assert described["faults"][0]["kind"] == "noise" and len(described["faults_sha256"]) == 64
