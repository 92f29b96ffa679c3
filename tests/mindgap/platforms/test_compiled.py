"""`cpu/jit` and `cpu/inductor`. Every compilation costs seconds: few of them, each looked at from all sides."""

import importlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.graph import Graph, Input, Normal, Ref
from mindgap.platforms.protocol import CompileFailure, Fallback, Unsupported
from mindgap.platforms.pytorch.compilation.fx_module import foldable, to_fx
from mindgap.platforms.pytorch.device.availability import compiler_present
from mindgap.platforms.registry import find
from platforms.torch_graphs import arrays, conv_net, counter, node, opened, run, same, spec, unary

needs_compiler = pytest.mark.skipif(not compiler_present().available, reason="no C++ compiler on PATH")


def close(one, other):
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def mismatched() -> Graph:
    x = spec("float32", (3, 4))
    return Graph((Input(x, Normal(0)),), (node("aten.mm.default", Ref(0), Ref(0), out=x),), (1,))


# ---- the module that is compiled


def test_the_module_computes_what_the_graph_says():
    inputs = [torch.from_numpy(a) for a in arrays(conv_net())]
    with torch.no_grad():
        outputs = [t.numpy() for t in to_fx(conv_net(), "cpu")(*inputs)]
        folded = to_fx(conv_net(), "cpu", {1: inputs[1], 2: inputs[2]})
        again = [t.numpy() for t in folded(inputs[0])]
    assert same(outputs, run("cpu/eager", conv_net())) and same(again, outputs)
    assert sum(n.op == "placeholder" for n in folded.graph.nodes) == 1


def test_results_that_are_lists_of_tuples_of_none_find_their_slots():
    x = spec("float32", (4, 6))
    stat = spec("float32", (4, 1))
    nodes = (
        node("aten.native_layer_norm.default", Ref(0), (6,), None, None, 1e-5, out=(x, stat, stat)),
        node("aten.unbind.int", Ref(1), out=(spec("float32", (6,)),) * 4),
        node("aten.cat.default", (Ref(4), Ref(7)), out=spec("float32", (12,))),
    )
    graph = Graph((Input(x, Normal(0)),), nodes, (8, 2))
    given = arrays(graph)
    outputs = [t.numpy() for t in to_fx(graph, "cpu")(torch.from_numpy(given[0]))]
    assert same(outputs, run("cpu/eager", graph, given))


def test_only_what_is_read_may_be_folded():
    assert foldable(conv_net()) == {1, 2}
    assert foldable(conv_net(grad=(1,))) == {2}
    assert foldable(counter()) == frozenset()


# ---- TorchScript


@pytest.mark.parametrize("name", ["cpu/jit", "cpu/jit@freezing=1"])
def test_torchscript_runs_the_graph_again_and_again(name):
    inputs = arrays(conv_net())
    executable = opened(name).load(conv_net(), inputs)
    first = executable(inputs)
    close(first, run("cpu/eager", conv_net(), inputs))
    assert same(first, executable(inputs))


def test_torchscript_leaves_buffers_as_they_were():
    inputs = arrays(counter())
    before = inputs[0].copy()
    executable = opened("cpu/jit").load(counter(), inputs)
    assert same(executable(inputs), run("cpu/eager", counter(), inputs))
    assert same(executable(inputs), run("cpu/eager", counter(), inputs))
    assert (inputs[0] == before).all()


def test_torchscript_follows_other_values_of_the_inputs():
    inputs, others = arrays(conv_net()), arrays(conv_net(), seed=1)
    executable = opened("cpu/jit").load(conv_net(), inputs)
    close(executable(others), run("cpu/eager", conv_net(), others))


def test_a_folded_input_may_come_as_another_array_but_not_with_other_bytes():
    inputs = arrays(conv_net())
    executable = opened("cpu/jit@freezing=1").load(conv_net(), inputs)
    first = executable(inputs)
    assert same(executable([a.copy() for a in inputs]), first)
    with pytest.raises(ValueError, match="input 1 was folded"):
        executable([inputs[0], inputs[1] + 1, inputs[2]])


def test_torchscript_gives_gradients():
    graph = conv_net(grad=(0, 1))
    close(run("cpu/jit", graph), run("cpu/eager", graph))
    with pytest.raises(Unsupported, match="no gradients"):
        run("cpu/jit@freezing=1", graph)


def test_torchscript_has_optimised_the_backward_pass_too():
    """With an in-place call between two differentiable parts, the backward pass is optimised a run later."""
    x = spec("float32", (4, 8))
    nodes = (
        node("aten.layer_norm.default", Ref(0), (8,), Ref(1), out=x),
        node("aten.gelu.default", Ref(2), out=x),
        node("aten.add_.Scalar", Ref(3), 1.0, out=x),
        node("aten.mul.Tensor", Ref(4), Ref(4), out=x),
        node("aten.tanh.default", Ref(5), out=x),
    )
    graph = Graph((Input(x, Normal(0)), Input(spec("float32", (8,)), Normal(1), "parameter")), nodes, (6,), (0, 1))
    close(run("cpu/jit", graph), run("cpu/eager", graph))
    assert "prim::profile" not in str(torch.jit.last_executed_optimized_graph())


def backward_kernels() -> Graph:
    """What kernels-level graphs hold: masks of booleans, and results that they leave out."""
    x, w, g = spec("float32", (1, 3, 8, 8)), spec("float32", (4, 3, 3, 3)), spec("float32", (1, 4, 6, 6))
    rows, weight, stat = spec("float32", (5, 7)), spec("float32", (7,)), spec("float32", (5, 1))
    nodes = (
        node("aten.convolution_backward.default", Ref(0), Ref(1), Ref(2), (0,), (1, 1), (0, 0), (1, 1), False, (0, 0),
             1, (True, True, False), out=(x, w, None)),
        node("aten.native_layer_norm.default", Ref(3), (7,), Ref(4), None, 1e-5, out=(rows, stat, stat)),
        node("aten.native_layer_norm_backward.default", Ref(8), Ref(3), (7,), Ref(9), Ref(10), Ref(4), None,
             (False, True, False), out=(None, weight, None)),
    )  # fmt: skip
    given = tuple(Input(one, Normal(i)) for i, one in enumerate((g, x, w, rows, weight)))
    return Graph(given, nodes, (5, 6, 12))


@pytest.mark.parametrize("name", ["cpu/jit", "cpu/jit@freezing=1"])
def test_torchscript_runs_backward_kernels_with_masks_of_booleans(name):
    graph = backward_kernels()
    assert [o.shape for o in run(name, graph)] == [(1, 3, 8, 8), (4, 3, 3, 3), (7,)]
    close(run(name, graph), run("cpu/eager", graph))


def test_a_program_that_fails_by_itself_is_no_failure_to_compile():
    executable = opened("cpu/jit").load(mismatched(), arrays(mismatched()))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        executable(arrays(mismatched()))


def test_a_refusal_stays_one_when_compiled():
    with pytest.raises(Unsupported) as refused:
        run("cpu/jit", unary("aten.ceil.default", "complex64"))
    assert refused.value.op == "aten.ceil.default"


def test_a_failure_of_the_compiler_alone_is_a_compile_failure(monkeypatch):
    def broken(*_, **__):
        raise AssertionError("an internal invariant does not hold")

    monkeypatch.setattr(torch.jit, "trace", broken)
    with pytest.raises(CompileFailure, match="AssertionError: an internal invariant"):
        run("cpu/jit", conv_net())


# ---- Inductor


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """Inductor's cache for this file alone."""
    from mindgap.platforms.pytorch.compilation import inductor_settings

    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("inductor")
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        patch.setattr(inductor_settings, "_base", None)
        yield folder


@needs_compiler
def test_inductor_compiles_forward_and_backward(cache):
    graph = conv_net(grad=(1,))
    inputs = arrays(graph)
    executable = opened("cpu/inductor").load(graph, inputs)
    first = executable(inputs)
    close(first, run("cpu/eager", graph, inputs))
    assert same(first, executable(inputs))
    assert not same(first, run("cpu/eager", graph, inputs)), "the same bits as eager: was anything compiled?"


@needs_compiler
def test_programs_are_compiled_in_the_cache_of_their_platform(cache):
    runner = find("cpu/inductor")[0].program_runner({})
    module, _, function = runner.prepare.partition(":")
    opened("cpu/inductor")
    folder = os.environ["TORCHINDUCTOR_CACHE_DIR"]
    assert Path(folder).parent == cache
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    getattr(importlib.import_module(module), function)({})
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == folder


@needs_compiler
def test_inductor_folds_what_it_may_and_nothing_that_is_written(cache):
    inputs = arrays(counter())
    executable = opened("cpu/inductor@freezing=1").load(counter(), inputs)
    assert same(executable(inputs), run("cpu/eager", counter(), inputs))
    assert same(executable(inputs), run("cpu/eager", counter(), inputs))
    with pytest.raises(Unsupported, match="no gradients"):
        run("cpu/inductor@freezing=1", conv_net(grad=(1,)))


@needs_compiler
def test_a_graph_that_inductor_did_not_compile_is_a_fallback(cache, monkeypatch):
    platform = opened("cpu/inductor")
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    with pytest.raises(Fallback, match="without compiling"):
        platform.load(counter(), arrays(counter()))


@needs_compiler
def test_what_inductor_cannot_compile_is_told_apart_from_what_nobody_can(cache, monkeypatch):
    platform = opened("cpu/inductor")
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        platform.load(mismatched(), arrays(mismatched()))(arrays(mismatched()))
    with pytest.raises(Unsupported):
        platform.load(unary("aten.ceil.default", "complex64"), arrays(unary("aten.ceil.default", "complex64")))
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", _exploding)
    with pytest.raises(CompileFailure, match="ZeroDivisionError"):
        platform.load(counter(), arrays(counter()))


def _exploding(*_, **__):
    raise ZeroDivisionError("in a pass")


@needs_compiler
def test_vectors_of_another_width_are_in_force_or_refused(cache):
    narrow = opened("cpu/inductor@simdlen=1").describe()["inductor"]
    assert (narrow["vector_bits"], narrow["vector_isa"]) == (1, "none")
    with pytest.raises(Fallback, match="simdlen=37"):
        opened("cpu/inductor@simdlen=37")


@needs_compiler
def test_a_cache_is_used_for_what_it_was_made_for_and_emptied_otherwise(cache):
    opened("cpu/inductor")
    plain = [d for d in cache.glob("mindgap-*") if json.loads((d / "made-for.json").read_text())["options"] == {}]
    opened("cpu/inductor@freezing=1")
    assert len(plain) == 1 and len(list(cache.glob("mindgap-*"))) > 1
    left = plain[0] / "left"
    left.write_text("by an earlier run")
    opened("cpu/inductor")
    assert left.exists()
    (plain[0] / "made-for.json").write_text("another machine")
    opened("cpu/inductor")
    assert not left.exists() and json.loads((plain[0] / "made-for.json").read_text())["options"] == {}


@needs_compiler
def test_what_was_compiled_without_vectors_is_not_taken_where_there_are_some(cache, monkeypatch):
    from mindgap.platforms.pytorch.compilation import inductor_settings

    opened("cpu/inductor")
    before = {*cache.glob("mindgap-*")}
    monkeypatch.setattr(inductor_settings, "pick_vec_isa", lambda: None)  # its trial compilation failed
    opened("cpu/inductor")
    (new,) = {*cache.glob("mindgap-*")} - before
    facts = json.loads((new / "made-for.json").read_text())
    assert (facts["vector_isa"], facts["options"]) == ("none", {})
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(new)


def test_without_a_compiler_inductor_is_not_available(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    backend, _ = find("cpu/inductor")
    found = backend.probe()
    assert not found.available and "no-such-compiler" in found.reason


# ---- stages left out


@pytest.mark.nightly
@needs_compiler
@pytest.mark.slow
def test_parts_of_inductor_are_left_out(cache):
    """The numbers of kernels tell what Inductor made: fused ones, scalar ones, one for each operator, or none."""
    from torch._inductor import metrics

    graph = unary("aten.softmax.int", "float32", (4, 33), -1)
    found = {}
    for option in ("", "@off=vectors", "@off=fusion", "@off=generated_kernels", "@off=passes", "@stage=decomposed"):
        metrics.reset()
        with torch._inductor.config.patch(force_disable_caches=True):
            close(opened(f"cpu/inductor{option}").load(graph, arrays(graph))(arrays(graph)), run("cpu/eager", graph))
        found[option] = metrics.generated_kernel_count, metrics.generated_cpp_vec_kernel_count
    kernels, vectors = found[""]
    assert kernels and vectors and found["@off=vectors"][1] == 0
    assert found["@off=fusion"][0] > kernels
    assert found["@off=generated_kernels"] == found["@stage=decomposed"] == (0, 0)


def test_torchscript_runs_without_its_optimisation():
    assert same(run("cpu/jit@opt=off", conv_net()), run("cpu/eager", conv_net()))
