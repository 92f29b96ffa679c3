"""The matrix: what each platform makes of each operator, dtype and layout, on real platforms and one with faults."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mindgap.graph import Graph, Input, Literal, MindgapError, Node, Ref, TensorSpec, Uniform, concatenate, encode
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.name import CPU_EAGER, PlatformName, parse
from mindgap.results.rows import Row, identities
from mindgap.results.store import Store
from mindgap.results.support_answers import SupportAnswer, SupportTable
from mindgap.results.support_key import Key, key_of
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap_surveys.support.agreement import Agreement, AgreementMeter, Calm, References, _Waiting
from mindgap_surveys.support.matrix import (
    CELL_WORDS,
    Matrix,
    cell_of,
    cell_table,
    findings_of,
    matrix_object,
    matrix_of,
    overall_word,
    pass_of,
)
from mindgap_surveys.support.prober import SurveyBudget
from mindgap_surveys.support.probes import CallProbe, common_forms
from mindgap_surveys.support.survey import SurveyResult, stored_survey, survey_platforms
from mindgap_surveys.table import to_csv

FAULTS = """
[[fault]]
kind = "scaled"
factor = 1.5
when = { op = "aten.tan.default" }
[[fault]]
kind = "noise"
ulp = 1
when = { op = "aten.exp.default" }
[[fault]]
kind = "wrong_shape"
how = "short"
when = { op = "aten.sin.default" }
[[fault]]
kind = "wrong_shape"
how = "short"
when = { op = "aten.rand_like.default" }
[[fault]]
kind = "wrong_shape"
how = "short"
when = { op = "aten.new_empty.default" }
[[fault]]
kind = "refusal"
why = "no kernel"
when = { op = "aten.tanh.default" }
[[fault]]
kind = "runtime_error"
message = "boom"
when = { op = "aten.abs.default" }
"""
Survey = Callable[..., SurveyResult]
NAMES = ("tan", "exp", "sin", "tanh", "abs", "relu", "bernoulli", "empty_like")


def unary(name: str, shape: tuple[int, ...] = (4, 5)) -> CallProbe:
    spec = TensorSpec.contiguous("float32", shape)
    graph = Graph((Input(spec, Uniform(1, 0.1, 0.9)),), (Node(f"aten.{name}.default", (Ref(0),), (), (spec,)),), (1,))
    return CallProbe(*key_of(graph, graph.nodes[0]), encode(graph))


@pytest.fixture(scope="module")
def probes() -> list[CallProbe]:
    return [unary(name) for name in NAMES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("matrix")
    (folder / "faults.toml").write_text(FAULTS)
    return folder


def platforms(folder: Path) -> list[PlatformName]:
    return [parse(f"faulty/eager@faults={folder}/faults.toml"), parse("cpu/jit")]


@pytest.fixture(scope="module")
def pool(folder: Path) -> Iterator[WorkerPool]:
    """The workers of all tests here: starting one takes longer than any test."""
    with WorkerPool([*platforms(folder), CPU_EAGER]) as pool:
        yield pool


@pytest.fixture
def surveyed(folder: Path, pool: WorkerPool) -> Survey:
    return partial(survey, folder, pool)


def survey(
    folder: Path, pool: WorkerPool, probes: list[CallProbe], budget_s: float | None = None, store: str = "s",
    common: bool = False,
) -> SurveyResult:  # fmt: skip
    names = platforms(folder)
    return survey_platforms(
        names, probes, Store(folder / store), compare=True, budget_s=budget_s, pool=pool, common=common
    )


@pytest.fixture(scope="module")
def matrix(folder: Path, pool: WorkerPool, probes: list[CallProbe]) -> Matrix:
    return matrix_of(survey(folder, pool, probes))


def words(matrix: Matrix, platform: int) -> dict[str, str]:
    cells = matrix.cells[matrix.platforms[platform]]
    return {key.op.split(".")[1]: cells[key].word for key in matrix.keys}


@pytest.mark.nightly
def test_each_answer_has_its_word(matrix: Matrix) -> None:
    assert words(matrix, 0) == {
        "tan": "differs", "exp": "agrees", "sin": "wrong shape", "tanh": "refuses", "abs": "fails",
        "relu": "agrees", "bernoulli": "random", "empty_like": "uninitialised",
    }  # fmt: skip
    assert set(words(matrix, 1).values()) == {"agrees", "random", "uninitialised"}
    assert all(cell.reason for cells in matrix.cells.values() for cell in cells.values())
    faulty = matrix.cells[matrix.platforms[0]]
    assert faulty[Key("aten.exp.default", "float32", "contiguous")].verdict == "rounding"
    assert faulty[Key("aten.relu.default", "float32", "contiguous")].reason == "the same bits"


def test_findings_are_grouped_by_culprit(matrix: Matrix) -> None:
    found = {each.culprit: (each.verdict, len(each.keys)) for each in findings_of(matrix)}
    assert found == {"aten.tan.default": ("discrepant", 1), "aten.sin.default": ("structural", 1)}
    lost = matrix.lost(matrix.platforms[1], matrix.platforms[0])
    assert {key.op.split(".")[1] for key in lost} == {"tan", "sin", "tanh", "abs"}
    assert not matrix.lost(matrix.platforms[0], matrix.platforms[1])


def test_what_is_wrong_only_beside_others_is_no_verdict_of_another_platform(folder: Path, pool: WorkerPool) -> None:
    """`cpu/jit` is given, in a batch, the outputs of the platform whose tangent is wrong; alone its own is right."""
    wrong, right = platforms(folder)
    asked = [unary("tan"), unary("relu")]
    graphs = [each.graph for each in asked]
    outcome = pool.run(Job(wrong, concatenate(graphs), repeat=1, attach_up_to=1 << 20))
    references, calm = References(pool), Calm()
    found: dict[tuple[PlatformName, str], Agreement] = {}

    def measure(platform: PlatformName) -> None:
        meter = AgreementMeter(platform, pool, references, calm, lambda each: found.update({(platform, each.op): each}))
        meter.on_run(asked, graphs, replace(outcome, platform=platform))
        meter.judge(SurveyBudget(), lambda *_: None)

    measure(right)
    measure(wrong)
    mixed = found[right, "aten.tan.default"]
    assert mixed.word == "beside_others" and mixed.detail.startswith("alone: identical; beside other calls")
    assert found[right, "aten.relu.default"].word == "identical"
    assert found[wrong, "aten.tan.default"].word == "discrepant"
    assert cell_of(answer("runs"), mixed, "").word == "differs beside others"


def test_a_row_that_a_promised_accuracy_made_calm_is_no_other_platforms(pool: WorkerPool) -> None:
    one = unary("tan")
    outcome = pool.run(Job(CPU_EAGER, one.graph, repeat=1))
    waiting, calm = _Waiting(one, one.graph, outcome, outcome, True), Calm()
    calm.put(one, Row(one.op, CPU_EAGER, "ok", "rounding", digests=identities(outcome)), "OpenCL C")
    assert calm.get(waiting, "") is None and calm.get(waiting, "OpenCL C") is not None
    calm.put(one, Row(one.op, CPU_EAGER, "ok", "rounding", digests=("of other outputs",)), "")
    calm.put(one, Row(one.op, CPU_EAGER, "ok", "discrepant", digests=identities(outcome)), "")
    assert calm.get(waiting, "") is None


def test_a_second_run_reads_the_store(matrix: Matrix, surveyed: Survey, probes: list[CallProbe]) -> None:
    asked = surveyed(probes)
    again = matrix_of(asked)
    assert again.cells == matrix.cells and set(asked.cpu_seconds.values()) == {0.0}
    assert matrix_of(surveyed(probes, budget_s=0)).cells == matrix.cells


def test_a_store_is_shown_without_starting_a_platform(matrix: Matrix, folder: Path, probes: list[CallProbe]) -> None:
    never = parse("mps/eager")
    asked = stored_survey([*platforms(folder), never], probes, Store(folder / "s"))
    assert matrix_of(asked).cells == matrix.cells and asked.absent == {never: "the store has no answers of it"}
    plain = matrix_of(stored_survey(platforms(folder), probes, Store(folder / "s"), common=True))
    assert plain.left_out == frozenset(matrix.keys) - common_forms(matrix.keys)
    empty = stored_survey([never], probes, Store(folder / "new"))
    assert not matrix_of(empty).cells
    with pytest.raises(MindgapError, match="no platform could be asked"):
        empty.check()


class LosesHost:
    """A pool that loses the host of one platform after so many of its jobs."""

    def __init__(self, pool: WorkerPool, platform: PlatformName, jobs: int) -> None:
        self._pool, self._platform, self._jobs = pool, platform, jobs

    def __getattr__(self, name: str) -> object:
        return getattr(self._pool, name)

    def run(self, job: Job) -> Outcome:
        if job.platform == self._platform:
            self._jobs -= 1
            if self._jobs < 0:
                raise HostProblem("host edge: the connection was lost")
        return self._pool.run(job)


def test_a_lost_host_leaves_the_other_platforms_asked(folder: Path, pool: WorkerPool, probes: list[CallProbe]) -> None:
    names, store = platforms(folder), Store(folder / "lost")
    losing = LosesHost(pool, names[0], jobs=1)
    asked = survey_platforms(names, probes, store, compare=True, pool=losing)  # type: ignore[arg-type]
    assert "the connection was lost" in asked.absent[names[0]] and names[0] not in asked.support.platforms
    matrix = matrix_of(asked)
    assert matrix.platforms == (names[1],) and {cell.word for cell in matrix.cells[names[1]].values()} == {
        "agrees", "random", "uninitialised",
    }  # fmt: skip
    again = matrix_of(survey(folder, pool, probes, store="lost"))
    assert not again.absent and words(again, 0)["tan"] == "differs"


def test_what_the_budget_does_not_reach_says_so(surveyed: Survey, probes: list[CallProbe]) -> None:
    nothing = matrix_of(surveyed(probes, budget_s=0, store="empty"))
    for cells in nothing.cells.values():
        assert {(cell.word, cell.reason) for cell in cells.values()} == {
            ("untried", "no processor time was left to ask it (--budget)")
        }


def test_common_forms_are_asked_by_default(surveyed: Survey) -> None:
    forms = [("float32", "contiguous"), ("float16", "contiguous"), ("int64", "contiguous"), ("bool", "contiguous"),
             ("float32", "permuted"), ("float16", "expanded")]  # fmt: skip
    keys = [Key("aten.foo.default", *form) for form in forms] + [Key("aten.only.default", "bool", "scalar")]
    assert common_forms(keys) == {*keys[:3], keys[-1]}
    matrix = matrix_of(surveyed([unary("relu"), unary("relu", ())], common=True, store="common"))
    for cells in matrix.cells.values():
        found = {key.layout: (cell.word, cell.reason) for key, cell in cells.items()}
        assert found == {
            "contiguous": ("agrees", "the same bits"),
            "scalar": ("untried", "this form is not asked by default (--all-forms)"),
        }
    assert {key.layout for key in matrix.left_out} == {"scalar"}


def test_what_is_not_asked_says_that_its_operator_is_refused() -> None:
    plain, other = Key("aten.foo.default", "float32", "contiguous"), Key("aten.foo.default", "int64", "contiguous")
    refusal = SupportAnswer(*plain, "refuses", "unsupported", "no kernel", "", 2)
    table = SupportTable({"f": {plain: refusal}}, {PlatformName("cpu/jit"): "f"})
    matrix = matrix_of(SurveyResult(table, (plain, other)), "no time")
    cells = matrix.cells[PlatformName("cpu/jit")]
    assert (cells[other].word, cells[other].reason) == ("untried", "no time; contiguous float32 is refused: no kernel")
    assert matrix.measured(PlatformName("cpu/jit")) == 1


def test_a_sample_without_elements_is_not_compared(surveyed: Survey) -> None:
    (cells, _) = matrix_of(surveyed([unary("relu", (0, 3))], store="none")).cells.values()
    (cell,) = cells.values()
    assert cell.word == "not compared" and "no element" in cell.reason


def test_results_that_are_no_function_of_operands_are_compared_by_shape(surveyed: Survey) -> None:
    probe = unary("new_empty")
    (node,) = probe.graph.nodes
    graph = replace(probe.graph, nodes=(replace(node, args=(Ref(0), (4, 5))),))
    asked = [unary("rand_like"), CallProbe(*probe.key, encode(graph))]
    wrong, right = matrix_of(surveyed(asked, store="shapes")).cells.values()
    assert {cell.word for cell in wrong.values()} == {"wrong shape"}
    assert all("float32[4, 5]" in cell.reason for cell in wrong.values())
    assert {cell.word for cell in right.values()} == {"random", "uninitialised"}


def test_what_changes_from_run_to_run_on_the_reference_is_random(surveyed: Survey) -> None:
    """An operator that no trait calls random: drawn within a call that the graph holds as one."""
    spec = TensorSpec.contiguous("float32", (64,))
    given = Input(spec, Literal(np.full(64, 0.5, np.float32).tobytes()))
    node = Node("aten.rrelu.default", (Ref(0), 0.1, 0.3, True), (), (spec,))
    graph = Graph((replace(given, recipe=Literal(np.full(64, -1.0, np.float32).tobytes())),), (node,), (1,))
    probe = CallProbe(*key_of(graph, node), encode(graph))
    found = matrix_of(surveyed([probe], store="random"))
    assert {cell.word for cells in found.cells.values() for cell in cells.values()} == {"random"}


def answer(word: str, status: str = "ok", reason: str = "") -> SupportAnswer:
    return SupportAnswer("aten.sin.default", "float32", "contiguous", word, status, reason, "", 1)  # type: ignore[arg-type]


def agreement(word: str, **more: str) -> Agreement:
    return Agreement("aten.sin.default", "float32", "contiguous", word, **more)


def test_words_of_answers_and_agreements() -> None:
    assert cell_of(answer("falls_back", "unsupported", "it ran on the CPU"), None, "").word == "falls back"
    assert cell_of(answer("refuses", "unsupported", "no kernel"), None, "").word == "refuses"
    assert cell_of(answer("fails", "timeout", "130 s"), None, "").word == "hangs"
    assert cell_of(answer("fails", "crash"), None, "").reason == "crash, without a message"
    assert cell_of(answer("runs"), None, "").word == "not compared"
    assert cell_of(answer("runs"), agreement("not_judged", detail="no time"), "").word == "not judged"
    parts = cell_of(answer("decomposed", reason="aten.neg.default"), agreement("rounding"), "")
    assert (parts.word, parts.became) == ("decomposed", "aten.neg.default")
    assert parts.reason == "as aten.neg.default: rounding explains the difference"
    wrong = answer("decomposed", reason="aten.neg.default")
    assert cell_of(wrong, agreement("discrepant", culprit="aten.sin.default"), "").word == "differs"
    policy = agreement("reduced_precision", culprit="dtype policy: float64 computed in float32", detail="why")
    assert cell_of(answer("runs"), policy, "").policy == "float64 computed in float32"


def test_one_word_for_an_overload() -> None:
    assert overall_word(["agrees", "differs", "refuses"]) == "differs"
    assert overall_word(["refuses", "refuses", "fails", "untried"]) == "refuses"
    assert overall_word(["agrees", "untried"]) == "agrees"
    assert overall_word(["untried", "untried", "refuses"]) == "refuses" and overall_word(["untried"]) == "untried"
    assert pass_of("aten.tanh_backward.default") == "backward" and pass_of("aten.tanh.default") == "forward"


def test_csv_and_json_hold_every_cell(matrix: Matrix) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(cell_table(matrix)))))
    assert len(rows) == len(matrix.keys) * len(matrix.platforms)
    assert {row["word"] for row in rows} <= set(CELL_WORDS) and all(row["reason"] for row in rows)
    made = matrix_object(matrix, str(matrix.platforms[0]))
    assert sum(made["words"].values()) == len(made["cells"]) == len(matrix.keys)
    assert {cell["op"]: cell["word"] for cell in made["cells"]}["aten.tan.default"] == "differs"
    assert matrix_object(matrix, "mps/eager") == {}
