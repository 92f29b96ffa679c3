"""A program runs by a runner; a failure says whose it is."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import mindgap
from mindgap.aten.torch_private.modules import put_buffer
from mindgap.graph import MindgapError
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.own_path import with_own_path
from mindgap.own_path.dynamic import declared_dimensions
from mindgap.own_path.facts import questions, training_modules
from mindgap.own_path.failures import Failure, _message, _sentences
from mindgap.own_path.program_run import FlatProgram, run_by, run_eagerly, run_twice, sensitivity
from mindgap.own_path.runners import runner_json
from mindgap.own_path.runs import own_run
from mindgap.own_path.search import first_part
from mindgap.own_path.stages import step_at_fault
from mindgap.own_path.state import as_it_was
from mindgap.own_path.worker import Programs
from mindgap.platforms.name import parse
from mindgap.platforms.pytorch.script import runner_on_cpu
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.results.rows import Row
from mindgap.sources import Built

from . import programs

TRACED = ScriptRunner("def run(model, fresh):\n    return torch.jit.trace(model, fresh())(*fresh())")
EXPORTED = ScriptRunner("def run(model, fresh):\n    return torch.export.export(model, fresh()).module()(*fresh())")
WITHOUT_GELU = ScriptRunner(
    "def run(model, fresh):\n"
    "    for each in model.modules():\n"
    "        if isinstance(each, torch.nn.GELU):\n"
    "            each.forward = lambda x: x\n"
    "    try:\n"
    "        return model(*fresh())\n"
    "    finally:\n"
    "        for each in model.modules():\n"
    "            each.__dict__.pop('forward', None)\n"
)


def test_a_flat_program_takes_tensors_and_returns_tensors_in_the_order_of_the_graph() -> None:
    flat = FlatProgram(*programs.nested())
    assert [tuple(each.shape) for each in flat.tensors] == [(4, 8), (4, 8)]
    assert [each.shape for each in run_eagerly(flat)] == [(4, 8), (), (4, 8)]


def test_buffers_are_as_before_after_a_run() -> None:
    model, args = programs.counting()
    flat = FlatProgram(model, args, {})
    first, second = run_eagerly(flat), run_by(flat, TRACED)
    assert not isinstance(second, Failure)
    assert model.calls == 0 and np.array_equal(run_eagerly(flat)[0], first[0])


def test_other_arguments_keep_elements_sorted_integers_and_masks() -> None:
    floats, offsets, mask, ids = torch.randn(16), torch.arange(5), torch.rand(9) > 0.5, torch.arange(8).flip(0)
    found = FlatProgram(lambda *each: each, (floats, offsets, mask, ids), {}).other_tensors()
    assert found is not None
    assert set(found[0].tolist()) < set(floats.tolist()) and found[0].abs().max() < floats.abs().max()
    assert torch.equal(found[1], offsets) and torch.equal(found[2], mask)
    assert not torch.equal(found[3], ids) and torch.equal(found[3].sort()[0], ids.sort()[0])
    assert FlatProgram(lambda *each: each, (offsets,), {}).other_tensors() is None


def test_a_failure_of_the_export_names_the_step_and_the_line() -> None:
    class Decides(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1 if x.sum() > 0 else x - 1

    failure = run_by(FlatProgram(Decides(), (torch.ones(3),), {}), EXPORTED)
    assert isinstance(failure, Failure) and not failure.ours
    assert failure.step == "torch.export.export" and failure.line.startswith("test_program_run.py:")


def test_what_fails_on_the_exported_program_is_not_the_export() -> None:
    text = "def run(model, fresh):\n    return json.loads(torch.export.export(model, fresh()))"
    failure = run_by(FlatProgram(lambda x: x + 1, (torch.ones(3),), {}), ScriptRunner(text, ("import json",)))
    assert isinstance(failure, Failure) and failure.step == "json.loads"


@pytest.mark.parametrize(
    "text", ["    a, b = fresh()\n    return a", "    return model(*[each.numpy() for each in fresh()])"]
)
def test_what_the_runner_cannot_feed_is_not_the_platforms_failure(text: str) -> None:
    tensor = torch.ones(3, dtype=torch.bfloat16)
    failure = run_by(FlatProgram(lambda x: x, (tensor,), {}), ScriptRunner(f"def run(model, fresh):\n{text}"))
    assert isinstance(failure, Failure) and failure.ours


def test_the_first_submodule_that_is_wrong_by_itself_is_found() -> None:
    torch.manual_seed(0)
    block = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), block, torch.nn.GELU())
    part = first_part(model, (torch.randn(4, 8),), {}, WITHOUT_GELU, 60, 1.0)
    assert (part.path, part.kind, part.complete) == ("2.1", "GELU", True)


def test_no_submodule_is_named_where_none_is_wrong_by_itself() -> None:
    class Halved(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x) / 2 if torch.jit.is_tracing() else self.layer(x)

    part = first_part(Halved(), (torch.randn(4, 8),), {}, TRACED, 60, 0.5)
    assert (part.path, part.kind) == ("", "Halved")


def test_questions_have_the_module_and_the_line() -> None:
    model, args = programs.compile_branch()
    (asked,) = questions(FlatProgram(model, args, {}))
    assert asked.function == "torch.compiler.is_compiling" and asked.place.startswith("1.0 (programs.py:")


def test_a_question_that_export_and_eager_mode_answer_alike_is_none() -> None:
    model = lambda x: x + 1 if torch.jit.is_scripting() else x * torch.compiler.is_compiling()  # noqa: E731
    (asked,) = questions(FlatProgram(model, (torch.ones(2),), {}))
    assert asked.function == "torch.compiler.is_compiling"


def test_an_operator_without_an_onnx_function_is_named_with_its_line() -> None:
    class Product(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch._int_mm(x, x)

    text = "def run(model, fresh):\n    return torch.onnx.export(model, fresh(), dynamo=True, verbose=False)"
    failure = run_by(FlatProgram(Product(), (torch.ones(32, 32, dtype=torch.int8),), {}), ScriptRunner(text))
    assert isinstance(failure, Failure) and (failure.kind, failure.names) == ("no_conversion", ("aten._int_mm",))
    assert failure.line.startswith("test_program_run.py:") and "OpOverload" not in failure.message


def test_modules_that_train_are_named_where_that_changes_what_they_compute() -> None:
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2), torch.nn.Dropout(0.0), torch.nn.Dropout(0.1)
    )
    assert training_modules(model) == ("1", "3")
    assert training_modules(model.eval()) == ()


def test_inputs_of_a_file_are_matched_by_name_and_else_by_order() -> None:
    x, y = torch.zeros(2, 3), torch.ones(2, 3)
    flat = FlatProgram(lambda x, y: x - y, (x, y), {})
    assert [name for name, _ in flat.matched([("y", [2, 3]), ("x", [None, 3])], flat.tensors)] == ["y", "x"]
    assert flat.matched([("y", [2, 3])], flat.tensors)[0][1] is y
    assert [each for _, each in flat.matched([("a", ["batch", 3]), ("b", [2, 3])], flat.tensors)] == [x, y]


@pytest.mark.parametrize(("inputs", "said"), [([("a", [2, 3])], "has 1 inputs"), ([("x", [2, 4])] * 2, "input x is")])
def test_inputs_that_the_arguments_do_not_fit_are_told(inputs: list[tuple[str, list[int]]], said: str) -> None:
    flat = FlatProgram(lambda x, y: x - y, (torch.zeros(2, 3), torch.ones(2, 3)), {})
    with pytest.raises(ValueError, match=said):
        flat.matched(inputs, flat.tensors)


def test_the_python_api_takes_the_program_by_its_own_way() -> None:
    model, args = programs.frozen()
    (row,) = mindgap.diff(model, args, platforms=["cpu/jit"]).rows
    assert row.verdict == "export" and row.culprit is not None
    assert row.culprit.label.startswith("programs.py:")
    (row,) = mindgap.diff(model, args, platforms=["cpu/jit"], own_path=False).rows
    assert row.verdict == "identical" and row.own_path is None


def test_an_input_map_comes_first_and_else_the_shape_decides() -> None:
    x, y = torch.zeros(2, 3), torch.ones(3, 2)
    flat = FlatProgram(lambda x, y: x @ y, (x, y), {})
    assert [each for _, each in flat.matched([("a", [3, 2]), ("b", [2, 3])], flat.tensors)] == [y, x]
    assert flat.by_order == [("a", "y"), ("b", "x")]
    square = FlatProgram(lambda x, y: x @ y, (x, x + 1), {}, [("x", "b"), ("y", "0")])
    assert [each.sum() for _, each in square.matched([("a", [2, 3]), ("b", [2, 3])], square.tensors)] == [6, 0]
    absent = FlatProgram(lambda x, y: x @ y, (x, y), {}, [("x", "c")])
    with pytest.raises(ValueError, match="--input-map x=c: the inputs of the file are a, b"):
        absent.matched([("a", [2, 3]), ("b", [3, 2])], absent.tensors)


def test_names_of_keyword_arguments_are_those_of_their_tensors() -> None:
    class Apart(torch.nn.Module):
        def forward(self, x: torch.Tensor, *, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return x + a - b

    flat = FlatProgram(Apart(), (torch.zeros(1),), {"b": torch.ones(1), "a": torch.full((1,), 2.0)})
    assert dict(zip(flat.names, (each.item() for each in flat.tensors), strict=True)) == {"x": 0, "b": 1, "a": 2}


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"z": {0: torch.export.Dim("n")}}, "has no z"),
        ({"x": {2: torch.export.Dim("n")}}, "has no dimension 2"),
        ({"x": 3}, "write {dimension"),
        ({"x": None}, "no dimension in it is dynamic"),
    ],
)
def test_declared_dimensions_that_the_arguments_lack_are_told(declared: object, said: str) -> None:
    flat = FlatProgram(torch.nn.ReLU(), (torch.zeros(2, 3),), {})
    flat.program.forward = lambda x: x  # type: ignore[method-assign]
    with pytest.raises(MindgapError, match=said):
        declared_dimensions(flat, declared)


def test_declared_dimensions_are_taken_in_every_form() -> None:
    n = torch.export.Dim("n", min=2, max=5)
    flat = FlatProgram(lambda x, parts: x, (torch.zeros(4, 3), [torch.zeros(8), torch.zeros(3)]), {})
    found = declared_dimensions(flat, ({0: n, 1: torch.export.Dim.AUTO}, [(2 * n,), {0: torch.export.Dim.DYNAMIC}]))
    assert [(each.name, each.low, each.high) for each in found.sizes] == [("n", 2, 5), ("x.1", 2, 7)]
    assert [each.shape for each in found.resized(flat, {"n": 5, "x.1": 2})] == [(5, 2), (10,), (2,)]


class Keeping(torch.nn.Module):
    buffer: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("buffer", torch.zeros(2))
        self.seen: list[int] = []
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        self.last = x
        self.buffer = self.buffer + x
        return self.buffer * self.calls


def test_what_a_program_holds_is_as_it_was_and_what_a_call_changes_is_named() -> None:
    model = Keeping()
    with as_it_was(model) as state:
        model(torch.ones(2))
        changed = dict(state.changes({}))
    assert [*changed] == ["buffer", "seen", "calls", "last"]
    first = int(changed["calls"].partition(":")[2])
    assert changed["calls"].startswith("test_program_run.py:") and changed["buffer"].endswith(f":{first + 3}")
    assert (model.calls, model.seen, model.buffer.tolist(), hasattr(model, "last")) == (0, [], [0, 0], False)


def test_two_calls_show_what_the_second_gives() -> None:
    found = run_twice(FlatProgram(Keeping(), (torch.ones(2),), {}), lambda call: call())
    assert (found.first[0].tolist(), found.second[0].tolist()) == ([1, 1], [4, 4])


class Branches(torch.nn.Module):
    """Writes to a buffer outside of a branch and of a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        found = torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))
        (found,) = torch.while_loop(lambda y: y.sum() < 10, lambda y: (y * 2,), (found,))
        return found


def test_a_program_with_control_flow_runs_while_writes_to_buffers_are_noted() -> None:
    program, x = Branches(), torch.ones(2)
    with as_it_was(program) as state, state.writes() as writes, torch.no_grad():
        found = program(x)
    assert found.tolist() == [8.0, 8.0]
    assert list(writes.lines) == ["calls"] and "test_program_run.py" in writes.lines["calls"]
    flat = FlatProgram(program, (x,), {})
    calls = run_twice(flat, lambda call: questions(flat, call))
    assert calls.first[0].tolist() == calls.second[0].tolist() == [8.0, 8.0]
    # PyTorch's compiler would skip the code of both for the rest of the process.
    targets = [str(node.target) for node in torch.export.export(flat, flat.fresh()).graph.nodes]
    assert {"cond", "while_loop"} <= set(targets)


def test_how_far_rounding_of_arguments_and_parameters_leads_is_measured() -> None:
    layer = torch.nn.Linear(8, 8)
    before = layer.weight.detach().clone()
    calm = sensitivity(FlatProgram(layer, (torch.randn(4, 8),), {}))
    jumping = sensitivity(FlatProgram(lambda x: (x > 1).float(), (torch.ones(64),), {}))
    assert 0 < calm.exact < calm.moved < 1e-4 and jumping.moved == 1.0 and jumping.exact == 0.0
    assert torch.equal(layer.weight, before) and layer.weight.dtype == torch.float32


def test_a_program_that_does_not_take_float64_is_not_measured_in_it() -> None:
    weight = torch.randn(8, 8)
    assert sensitivity(FlatProgram(lambda x: x @ weight, (torch.randn(4, 8),), {})).exact == math.inf


def test_a_long_message_ends_with_a_sentence_or_a_word() -> None:
    assert _sentences("Short. Text") == "Short. Text"
    assert _sentences(f"First sentence. {'word ' * 100}") == "First sentence."
    assert _sentences("word " * 100) == f"{'word ' * 79}word …"


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            return torch.nn.functional.gelu(x.double())
        return torch.nn.functional.gelu(x)


def step_of(program: torch.nn.Module, runner: ScriptRunner) -> str:
    return step_at_fault(FlatProgram(program, (torch.randn(8),), {}), None, runner, lambda _: 1e-3)


class Unexportable(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if torch.compiler.is_exporting():
            raise RuntimeError("no export of this")
        return x * 2


def test_a_step_that_fails_by_itself_is_recorded() -> None:
    assert step_of(Unexportable(), EXPORTED).endswith("one fails by itself: RuntimeError: no export of this")


def test_the_step_of_an_export_that_is_at_fault_is_shown_by_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    promoted = "torch.export alone gives it, with a dtype promotion: float64 in place of float32"
    assert step_of(Scaled(), EXPORTED) == promoted
    assert step_of(torch.nn.GELU(), EXPORTED).endswith("are right by themselves: what follows them is not")
    usual = torch.export.default_decompositions
    wrong = {torch.ops.aten.silu.default: lambda x: x * 0.5}

    def decompositions() -> dict[object, object]:
        return {**usual().materialize(), **wrong}

    monkeypatch.setattr(torch.export, "default_decompositions", decompositions)
    monkeypatch.setattr("torch.export.exported_program.default_decompositions", decompositions)
    said = step_of(torch.nn.Sequential(torch.nn.SiLU(), torch.nn.Tanh()), EXPORTED)
    assert said == "torch.export is right, and PyTorch's decomposition of aten.silu.default is not"


def test_graph_breaks_are_named_with_the_line() -> None:
    class Broken(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            torch._dynamo.graph_break()
            return y * 2

    said = step_of(Broken(), ScriptRunner("def run(model, fresh):\n    return torch.compile(model)(*fresh())"))
    assert said.startswith("torch.compile breaks the graph in it: Call to `torch._dynamo.graph_break()` (test_program")


def test_what_a_program_holds_under_a_dotted_name_is_as_it_was() -> None:
    """Integers of ONNX files are buffers under the names that the file gives them."""
    module = torch.nn.Module()
    put_buffer(module, "first.weight", held := torch.arange(3))
    with as_it_was(module):
        module._buffers["first.weight"] = torch.zeros(1)
        held += 1
    assert module._buffers["first.weight"] is held and held.tolist() == [0, 1, 2]


def test_a_message_keeps_the_reason_and_of_a_path_the_name() -> None:
    folder = "/data/" + "a_long_folder/" * 12
    error = RuntimeError(f"Loading input model: {folder}m.onnx\nLoad model from {folder}m.onnx failed: no such domain")
    assert _message([error]) == "RuntimeError: Load model from m.onnx failed: no such domain"
    front_end = (
        "Check 'false' failed at src/frontend.cpp:53:\nConverting input model\nGeneralFailure: Check 'it != end' failed"
        " at src/node_context.cpp:190:\nFrontEnd API failed with GeneralFailure:\n"
        "No tensor corresponding input: 34 exist."
    )
    assert _message([RuntimeError(front_end)]) == "RuntimeError: No tensor corresponding input: 34 exist"
    guard = "Could not guard on data-dependent expression Eq(u0, 1) (unhinted: Eq(u0, 1))."
    assert _message([ValueError(f"{guard}  (Size-like symbols: none)\n\nconsider")]) == f"ValueError: {guard[:-1]}"


def test_other_arguments_of_unsigned_integers_have_another_order() -> None:
    program = FlatProgram(lambda x: x, (torch.tensor([3, 1, 2, 9, 4], dtype=torch.uint16),), {})
    others = program.other_tensors()
    assert others is not None and sorted(others[0].tolist()) == [1, 2, 3, 4, 9] != others[0].tolist()
    assert FlatProgram(lambda x: x, (torch.arange(4, dtype=torch.int64).to(torch.uint16),), {}).other_tensors() is None


def test_a_module_that_is_compiled_already_is_compiled() -> None:
    runner = runner_on_cpu("run_program_compiled", {})
    assert runner is not None
    program = FlatProgram(torch.compile(torch.nn.Linear(2, 2), backend="eager"), (torch.ones(1, 2),), {})
    found = run_by(program, runner)
    assert not isinstance(found, Failure) and np.array_equal(found[0], run_eagerly(program)[0])


def test_no_submodule_of_a_scripted_module_is_named() -> None:
    """TorchScript's modules take no hooks, which note the calls of submodules."""
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()))
    for program in (scripted, torch.nn.Sequential(torch.nn.Linear(8, 8), scripted)):
        part = first_part(program, (torch.randn(4, 8),), {}, EXPORTED, 60, None)
        assert part.path == "" and part.complete


class Seeded(torch.nn.Module):
    """Draws from a generator: one that each call seeds, or one that all calls share."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(7) if shared else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        generator = torch.Generator().manual_seed(7) if self.generator is None else self.generator
        return x.multinomial(2, replacement=True, generator=generator)


@pytest.mark.parametrize("shared", [False, True])
def test_numbers_that_each_call_seeds_are_those_of_eager_mode(shared: bool) -> None:
    program, x = Seeded(shared), torch.rand(64, 20)
    body = "def run(model, fresh):\n    traced = torch.jit.trace(model, fresh(), check_trace=False)\n"
    runner = {"run": f"{body}    traced(*fresh())\n    return traced(*fresh())", "imports": [], "properties": {}}
    asked = {"source": "", "runner": runner, "again_s": 0.0, "first": ""}
    header, arrays = Programs(Built(program, (x,))).run(asked)
    run = own_run(parse("cpu/jit"), "torch.jit.trace", header, arrays, 0.0)
    whole = SimpleNamespace(ran=True, arrays=run.eager)
    context = SimpleNamespace(tensors=None)
    comparison: Any = SimpleNamespace(
        graph=capture(Seeded(shared), (x,)), whole_reference=lambda: whole, context=context
    )
    judged = with_own_path(comparison, Row("m", run.platform, "ok", "identical"), run, lambda _: None, list)
    assert judged.own_path is not None and run.repeats is not shared and not run.draws
    expected = ("identical", "not_compared") if shared else ("export", "differs")
    assert (judged.verdict, judged.own_path.status) == expected


COMPILED = """def run(model, fresh):
    graphs = []
    def backend(graph, _):
        graphs.append(graph)
        return graph.forward
    model.program = torch.compile(model.program, backend=backend)
    outputs = model(*fresh())
    if not graphs:
        raise RuntimeError("it ran eagerly")
    return outputs"""


def test_many_programs_of_one_class_are_all_compiled(tmp_path: Path) -> None:
    """`torch.compile` keeps eight versions of one function, and runs the next one eagerly."""
    (tmp_path / "many.py").write_text(
        "import torch\n\n"
        + "".join(
            f"def make{n}():\n    return torch.nn.Sequential(torch.nn.Linear({n}, {n})), (torch.ones(1, {n}),)\n"
            for n in range(2, 13)
        )
    )
    programs, runner = Programs(), runner_json(ScriptRunner(COMPILED))
    for n in range(2, 13):
        header = {"source": f"{tmp_path}/many.py:make{n}", "runner": runner, "again_s": 0, "first": ""}
        assert programs.run(header)[0]["failure"] is None, n
