"""`cpu/aotinductor`: many graphs from one library. Each costs seconds: few of them, looked at from all sides."""

import json
from dataclasses import replace

import pytest
import torch

from mindgap.graph import Graph, Input, Normal, Ref, concatenate
from mindgap.platforms.protocol import CompileFailure, Executable, LoadsMany, Unsupported
from mindgap.platforms.pytorch.ahead_of_time import batch, cpp_source as ahead
from mindgap.platforms.pytorch.ahead_of_time.cpp_library import opened as opened_library
from mindgap.platforms.pytorch.compilation.fx_module import to_fx
from mindgap.platforms.pytorch.device.availability import compiler_present
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from platforms.torch_graphs import arrays, conv_net, counter, node, opened, run, same, spec, unary

pytestmark = [
    pytest.mark.skipif(not compiler_present().available, reason="no C++ compiler on PATH"),
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning"),
]

AHEAD = "cpu/aotinductor@threads=1"


def pooled() -> Graph:
    """A gradient of pooling whose stride is left out. ATen takes the window's; Inductor's translation stops."""
    x, y = spec("float32", (1, 1, 4, 4)), spec("float32", (1, 1, 2, 2))
    call = node("aten.avg_pool2d_backward.default", Ref(0), Ref(1), (2, 2), (), (0,), False, True, None, out=x)
    return Graph((Input(y, Normal(0)), Input(x, Normal(1))), (call,), (2,))


def softened(seed: int) -> Graph:
    """matmul -> layer norm -> softmax -> sum: a library's call, reductions, and an input of its own for each seed."""
    x, w, total = spec("float32", (4, 16)), spec("float32", (16, 16)), spec("float32", ())
    nodes = (
        node("aten.mm.default", Ref(0), Ref(1), out=x),
        node("aten.layer_norm.default", Ref(2), (16,), out=x),
        node("aten.softmax.int", Ref(3), -1, out=x),
        node("aten.sum.default", Ref(4), out=total),
    )
    return Graph((Input(x, Normal(seed)), Input(w, Normal(seed + 1), "parameter")), nodes, (4, 5))


def sorted_rows() -> Graph:
    """An operator that Inductor leaves to ATen."""
    x, i = spec("float32", (3, 5)), spec("int64", (3, 5))
    return Graph((Input(x, Normal(0)),), (node("aten.sort.default", Ref(0), out=(x, i)),), (1, 2))


GRAPHS = [
    conv_net(),
    counter(),
    pooled(),
    unary("aten.tanh.default", "float32"),
    softened(1),
    softened(2),
    sorted_rows(),
    conv_net(grad=(0,)),
    unary("aten.exp.default", "float32"),
]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> LoadsMany:
    """Opened with a cache of this file's own."""
    from mindgap.platforms.pytorch.compilation import inductor_settings

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("ahead")))
        patch.setattr(inductor_settings, "_base", None)
        yield opened("cpu/aotinductor")


@pytest.fixture(scope="module")
def loaded(platform: LoadsMany) -> list[Executable | Exception]:
    return platform.load_many(GRAPHS, [arrays(g) for g in GRAPHS])


@pytest.mark.nightly
def test_graphs_from_one_library_compute_what_each_of_them_says(loaded: list[Executable | Exception]) -> None:
    for graph, executable in zip(GRAPHS, loaded, strict=True):
        if isinstance(executable, Exception):
            continue
        inputs, others = arrays(graph), arrays(graph, seed=1)
        kept = [a.copy() for a in inputs]
        first = executable(inputs)
        for found, wanted in zip(first, run("cpu/eager", graph, inputs), strict=True):
            assert found.dtype == wanted.dtype
            torch.testing.assert_close(torch.from_numpy(found), torch.from_numpy(wanted), rtol=1e-4, atol=1e-5)
        assert same(executable(others), executable(others)) and not same(executable(others), first)
        assert same(executable(inputs), first) and same(inputs, kept)


def test_a_graph_that_cannot_be_compiled_costs_itself_only(loaded: list[Executable | Exception]) -> None:
    failed = [number for number, one in enumerate(loaded) if isinstance(one, Exception)]
    assert failed == [2, 7]
    assert isinstance(loaded[2], CompileFailure) and "avg_pool2d_backward" in str(loaded[2])
    assert isinstance(loaded[7], Unsupported) and loaded[7].op == "backward"


def test_what_was_left_to_aten_is_counted(loaded: list[Executable | Exception]) -> None:
    assert loaded[6].facts["fallbacks"] == {"aten.sort.stable": 1} and loaded[6].facts["kernels"] == 0  # type: ignore[union-attr]
    assert loaded[4].facts["library_calls"] == 1 and loaded[4].facts["kernels"] >= 1  # type: ignore[union-attr]
    assert loaded[8].facts == {"kernels": 1, "library_calls": 0, "fallbacks": {}}  # type: ignore[union-attr]
    assert json.dumps([one.facts for one in loaded if not isinstance(one, Exception)])  # type: ignore[union-attr]


@pytest.mark.nightly
def test_the_bits_are_those_of_a_program_that_aotinductor_built_and_loaded_itself(
    loaded: list[Executable | Exception],
) -> None:
    numbers = [0, 1, 4, 5, 8]
    joined = concatenate([GRAPHS[n] for n in numbers])
    inputs = [a for n in numbers for a in arrays(GRAPHS[n])]
    given = [torch.from_numpy(a.copy()) for a in inputs]
    function = opened_library(ahead.compile_alone(to_fx(joined, "cpu"), given))
    found = [t.numpy() for t in function(*given)]
    assert same(found, [a for n in numbers for a in loaded[n](arrays(GRAPHS[n]))])  # type: ignore[operator]


@pytest.mark.nightly
@pytest.mark.parametrize(("spoil", "expected"), [("this is no C++", [3, 2]), ("#error no\n", [3, 2]), ("", [3, 1, 2])])
def test_a_library_that_cannot_be_built_is_built_without_who_is_at_fault(
    platform: LoadsMany, monkeypatch: pytest.MonkeyPatch, spoil: str, expected: list[int]
) -> None:
    """One program is made bad C++. It is built alone in the end, by AOTInductor itself, from the graph. Where the
    compiler says nothing of whose fault it is, the graphs are halved."""
    sizes: list[int] = []
    build, source_of = batch.build, ahead.source_of

    def spoiled(module, sample):
        source = source_of(module, sample)
        return replace(source, program=f"{source.program}\n{spoil}") if "erf" in str(module.graph) else source

    def counted(sources):
        sizes.append(len(sources))
        if not spoil and len(sources) == 3:
            raise RuntimeError("the linker gave up")
        return build(sources)

    monkeypatch.setattr(batch, "source_of", spoiled)
    monkeypatch.setattr(batch, "build", counted)
    graphs = [unary(f"aten.{op}.default", "float32") for op in ("sin", "erf", "cos")]
    found = platform.load_many(graphs, [arrays(g) for g in graphs])
    assert sizes == expected
    for graph, executable in zip(graphs, found, strict=True):
        assert not isinstance(executable, Exception)
        [one], [other] = executable(arrays(graph)), run("cpu/eager", graph)
        torch.testing.assert_close(torch.from_numpy(one), torch.from_numpy(other))


def test_what_the_compiler_complains_of_is_told_without_its_command(
    platform: LoadsMany, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "false")

    def refused(*_):
        raise RuntimeError(
            "C++ compile error\n\nCommand:\ng++ /tmp/x.cpp\n\nOutput:\n/tmp/x.cpp:3: error: 'f' was not\n"
        )

    monkeypatch.setattr(batch, "build", refused)
    monkeypatch.setattr(batch, "compile_alone", refused)
    [found] = platform.load_many([unary("aten.tan.default", "float32")], [arrays(unary("aten.tan.default", "float32"))])
    assert isinstance(found, CompileFailure) and str(found) == "RuntimeError: error: 'f' was not"


@pytest.mark.slow
def test_operators_without_a_c_interface_share_a_library(platform: LoadsMany, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are called through PyTorch's proxy executor. The second graph calls two, the third none."""
    monkeypatch.setattr(batch, "compile_alone", lambda *_: pytest.fail("a graph was built alone"))
    square = spec("float32", (3, 3))
    decomposition = node("aten.linalg_qr.default", Ref(0), out=(square, square))
    graphs = [
        Graph((Input(square, Normal(0)),), (decomposition,), (1, 2)),
        Graph(
            (Input(square, Normal(1)),),
            (decomposition, node("aten.linalg_lu.default", Ref(1), out=(square, square, square))),
            (2, 3, 4, 5),
        ),
        unary("aten.sin.default", "float32"),
    ]
    for graph, found in zip(graphs, platform.load_many(graphs, [arrays(g) for g in graphs]), strict=True):
        assert not isinstance(found, Exception)
        assert "alone" not in found.facts  # type: ignore[attr-defined]
        if graph is not graphs[2]:
            assert same(found(arrays(graph)), run("cpu/eager", graph)), "the same kernel of ATen's on both sides"


@pytest.mark.nightly
def test_a_worker_compiles_twenty_graphs_at_once() -> None:
    """Through everything: jobs, frames, a worker, one library; the one that fails is an outcome like the others."""
    graphs = [softened(seed) for seed in range(0, 38, 2)]
    graphs.insert(7, pooled())
    with WorkerPool([AHEAD]) as pool:
        outcomes = pool.run_together([Job(AHEAD, g, want="outputs", deadline_s=100) for g in graphs], deadline_s=250)
        assert [o.status for o in outcomes] == ["ok"] * 7 + ["compile_error"] + ["ok"] * 12
        assert len({o.outputs[0].digest for o in outcomes if o.ran}) == 19
        assert outcomes[0].facts["library_calls"] == 1 and pool.starts(AHEAD) == 1
