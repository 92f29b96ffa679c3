"""The rows of several sets of arguments become one, the worst first."""

from __future__ import annotations

from mindgap.graph.compare.culprit import culprit_of
from mindgap.graph.compare.verdict import Contradiction, Fault, Weakness
from mindgap.platforms.name import CPU_EAGER, recorded
from mindgap.results.argument_sets import joined
from mindgap.workflows.diff import Model, Report, Row

P = recorded("p/a")


def row(number: int, verdict: str | None, op: str = "", **more: object) -> Row:
    fault = Fault(culprit_of(1, op, ""), verdict, detail=f"{op} is wrong")  # type: ignore[arg-type]
    faults = (fault,) if op else ()
    name = f"m (arguments {number})"
    return Row(name, P, "ok", verdict, faults=faults, digests=(str(number),), **more)  # type: ignore[arg-type]


def report(*rows: Row) -> Report:
    models = [Model(each.model, "", 1, 1, (), (), "ok", reference_digests=("r",)) for each in rows]
    whole = Report(CPU_EAGER, (), tuple(models), rows)
    return joined(whole, {each.model: "m" for each in rows})


def test_a_finding_comes_before_what_is_unknown_before_calm_rows() -> None:
    calm, unknown, found = row(1, "identical"), row(2, None, unjudged=True), row(3, "discrepant", "aten.exp.default")
    assert report(calm, found, unknown).rows[0].word == "discrepant"
    assert report(calm, unknown).rows[0].word == "unjudged"
    assert report(calm, row(2, "rounding")).rows[0].word == "rounding"


def test_the_row_has_the_faults_of_all_sets_each_once_and_all_digests() -> None:
    exp, log = "aten.exp.default", "aten.log.default"
    found = report(row(1, "discrepant", exp), row(2, "exceptional", log), row(3, "discrepant", exp))
    (one,), (model,) = found.rows, found.models
    assert (one.model, model.name, model.argument_sets) == ("m", "m", 3)
    assert [each.culprit.op for each in one.faults if each.culprit] == [log, exp]
    assert one.detail.startswith("arguments 2 (arguments 1: discrepant, arguments 3: discrepant)")
    assert one.faults[1].detail == "arguments 1: aten.exp.default is wrong"
    assert one.digests == ("1", "2", "3") and model.reference_digests == ("r", "r", "r")


def test_the_row_has_what_was_noted_of_any_set() -> None:
    weak = Weakness(3, "aten.gelu.default", "bound rule", "the operator has no bound rule")
    unfit = Contradiction(1, (0,), "aten.isinf.default", 1, 6, "at [0, 1]")
    found = report(row(1, "rounding", contradictions=(unfit,)), row(2, "undefined", weaknesses=(weak,)))
    assert (found.rows[0].weaknesses, found.rows[0].contradictions) == ((weak,), (unfit,))


def test_other_models_stay_as_they_are() -> None:
    one = row(1, "identical")
    whole = Report(CPU_EAGER, (), (), (one,))
    assert joined(whole, {"another": "m"}).rows == (one,)
