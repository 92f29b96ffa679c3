"""Samples of operators: named, numbered, the same each time, and captured with what they need kept."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from mindgap.graph import Stored, Uniform
from mindgap.graph.codec import encode
from mindgap.sources import SourceError, capture_program, capture_source, open_source
from mindgap.sources.sample_inputs import SampleDrawingMode, new_registry, round_inexact
from mindgap_zoo.operator_samples.operators import MOST, names
from mindgap_zoo.operator_samples.sample_call import evenly_spaced, sample_of


def test_the_suite_is_whole():
    known = names()
    assert len(known) > 600 and len(set(known)) == len(known)
    assert {"add", "div.floor_rounding", "nn.functional.conv2d", "bitwise_and"} <= set(known)
    assert torch.backends.disable_global_flags.__globals__["__allow_nonbracketed_mutation_flag"]


def test_a_name_gives_samples_of_different_form_each_under_its_own_name():
    some, every = open_source("ops:nn.functional.conv2d"), open_source("ops:nn.functional.conv2d#*")
    assert 1 < len(some) <= MOST < len(every)
    assert [one.name for one in every] == [f"nn.functional.conv2d#{k}" for k in range(len(every))]
    graphs = [capture_program(one) for one in some]
    assert len({encode(graph) for graph in graphs}) == len(graphs)
    ((name, alone),) = capture_source(some[-1].source)
    assert name == some[-1].name and alone == graphs[-1]


def test_what_was_drawn_is_a_recipe_with_the_label_of_its_argument():
    ((_, graph),) = capture_source("ops:nn.functional.linear#0")
    assert graph.labels.inputs == ("input", "argument_1", "argument_2")
    assert isinstance(graph.inputs[0].recipe, Uniform)
    assert graph.inputs[0].recipe.low == -2.0 and graph.inputs[0].recipe.high == 2.0


def test_nothing_is_left_outside_the_graph():
    for name in ("linalg.cholesky_ex", "fft.fft2", "searchsorted", "nn.functional.embedding"):
        for _, graph in capture_source(f"ops:{name}"):
            assert not any(isinstance(given.recipe, Stored) for given in graph.inputs)


def test_options():
    ((_, half),) = capture_source("ops:exp#0?dtype=bfloat16")
    assert half.inputs[0].spec.dtype == "bfloat16"
    ((_, first),), ((_, other),) = capture_source("ops:exp#0"), capture_source("ops:exp#0?seed=1")
    assert first.inputs[0].spec == other.inputs[0].spec and first.inputs[0].recipe != other.inputs[0].recipe
    ((_, whole),) = capture_source("ops:gcd#0")
    assert whole.inputs[0].spec.dtype == "int64"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ops:nn.functional.conv9d", "no samples for 'nn.functional.conv9d'; did you mean nn.functional.conv"),
        ("ops:add#999", "no sample '999'; they are numbered 0 to"),
        ("ops:add#x", "no sample 'x'"),
        ("ops:gcd?dtype=float32", "no samples of float32; it takes int16, int32"),
        ("ops:std_mean.unbias", "no samples for"),
        ("ops:add?size=3", "no option 'size'"),
    ],
)
def test_bad_names_are_one_line(text, says):
    with pytest.raises(SourceError, match=says) as refused:
        open_source(text)
    assert "\n" not in str(refused.value)


def test_a_base_name_without_samples_of_its_own_tells_its_variants():
    with pytest.raises(SourceError, match=r"its variants: div\.no_rounding_mode, div\."):
        open_source("ops:div")


def test_an_unstrided_sample_costs_itself():
    (program,) = open_source("ops:sparse.sampled_addmm#0")
    with pytest.raises(SourceError, match=r"layout torch\.sparse_csr"):
        capture_program(program)


def test_statistics_without_gradients_are_buffers_and_the_backward_pass_is_captured():
    ((_, graph),) = capture_source("ops:nn.functional.batch_norm#0", backward=True)
    roles = dict(zip(graph.labels.inputs, (given.role for given in graph.inputs), strict=True))
    assert roles["input"] == "input" and roles["kept.argument_1"] == "buffer"
    assert any("batch_norm_backward" in node.op for node in graph.nodes)


def test_a_call_has_the_tensors_as_its_arguments_wherever_they_were():
    x, y = torch.ones(2), torch.full((2,), 3.0)
    sample = sample_of(lambda parts, scale, other: parts[0] * scale - other["b"], ([x], 2.0), {"other": {"b": y}}, "p")
    assert sample.call.names == ("p_0", "other_b") and sample.call(x, y).tolist() == [-1.0, -1.0]
    again = sample_of(sample.call.function, ([x + 1], 2.0), {"other": {"b": y}}, "p")
    wider = sample_of(sample.call.function, ([x + 1], 4.0), {"other": {"b": y}}, "p")
    assert again.form() == sample.form() != wider.form()
    built = sample.built(new_registry())
    built.args[0].add_(1)
    assert x.tolist() == [1.0, 1.0]


def test_spread_keeps_the_ends():
    assert evenly_spaced(range(3), 8) == [0, 1, 2]
    chosen = evenly_spaced(range(100), 8)
    assert chosen[0] == 0 and chosen[-1] == 99 and len(set(chosen)) == 8


def test_random_calls_are_answered_from_recipes_whatever_the_generator_holds():
    def draw():
        with SampleDrawingMode(new_registry(), "name", 0):
            return [torch.randn(20), torch.rand(3, dtype=torch.float64), torch.randint(5, (9,)), torch.randperm(7)]

    torch.manual_seed(1)
    first = draw()
    torch.manual_seed(2)
    assert all(torch.equal(a, b) for a, b in zip(first, draw(), strict=True))
    mode = SampleDrawingMode(new_registry(), "name", 0)
    with mode:
        _ = torch.ones(2, 2).expand(2, 2).clamp(0, 1)
        assert not mode.inexact
        _ = torch.ones(2, 2) @ torch.ones(2, 2)
        assert mode.inexact


def test_what_was_computed_keeps_twelve_bits_so_that_the_last_ones_do_not_matter():
    registry = new_registry()
    x = torch.tensor([1 / 3, -1e-30, 0.0, float("inf"), 5.0])
    nearby = torch.nextafter(x, torch.tensor(0.0))
    nearby[3] = float("inf")
    one, other = round_inexact(x.clone(), registry), round_inexact(nearby, registry)
    assert torch.equal(one, other) and torch.allclose(one, x, rtol=2**-12)
    drawn = registry.draw(Uniform(3), "float32", (4,))
    assert torch.equal(round_inexact(drawn.clone(), registry), drawn)


def some_bytes():
    names = ("linalg.solve", "cholesky_inverse", "linalg.eigh", "nn.functional.cross_entropy", "fft.rfft")
    graphs = [encode(graph) for name in names for _, graph in capture_source(f"ops:{name}#0")]
    return hashlib.sha256(b"".join(graphs)).hexdigest()


@pytest.mark.nightly
def test_graphs_do_not_depend_on_the_vectors_of_the_machine():
    """The suite's own draws of normal numbers do."""
    settings = {"ATEN_CPU_CAPABILITY": "default", "OMP_NUM_THREADS": "1"}
    program = "import test_operators; print(test_operators.some_bytes())"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **settings}, cwd=Path(__file__).parent, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.stdout.strip() == some_bytes(), ran.stderr


SPREAD = (
    "ops:nn.functional.cross_entropy", "ops:nn.functional.rms_norm", "ops:nn.functional.max_unpool2d.grad",
    "ops:nn.functional.grid_sample", "ops:linalg.solve", "ops:index_put", "ops:histc", "ops:einsum",
    "ops:nn.functional.dropout", "modules:LSTM", "modules:BatchNorm2d", "modules:CrossEntropyLoss",
)  # fmt: skip


def digests(sources):
    """The digest of each sample's graph, with the recipes and bytes of its inputs."""
    return {name: hashlib.sha256(encode(graph)).hexdigest() for one in sources for name, graph in capture_source(one)}


@pytest.mark.nightly
def test_samples_depend_on_no_process_order_or_hash_seed():
    """Fresh processes, of which one has drawn numbers, and captures the sources from the last to the first."""
    program = """
import json, random, sys
import numpy, torch
import test_operators
if sys.argv[1] == "2":
    torch.rand(7), numpy.random.rand(7), random.random()
print(json.dumps(test_operators.digests(test_operators.SPREAD[:: 3 - 2 * int(sys.argv[1])])))
"""
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, seed],
            env={**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}, cwd=Path(__file__).parent,
            stdout=subprocess.PIPE, text=True,
        )
        for seed in ("1", "2")
    ]  # fmt: skip
    first, second = (json.loads(worker.communicate()[0]) for worker in workers)
    assert len(first) > 60 and first == second
