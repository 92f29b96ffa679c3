"""Every table of the study against a slow recount in plain Python, and the totals against each other."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gap.gap_rows import CALM, FAILURES, PLATFORMS, PROBED, RAN, REFERENCE, WRONG, Made, digests, made
from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec, TensorStore
from mindgap.graph.compare.verdict import equivalence_classes
from mindgap.report.page import roots
from mindgap.report.words import MEANINGS
from mindgap.results.rows import ordered
from mindgap.results.store import Store, StoreError
from mindgap.workflows.diff import RunSettings, Subject, diff_many
from mindgap_studies import StudyTable, column, records
from mindgap_studies.gap import PUBLISHED, TABLES, Study, gap, gap_object
from mindgap_studies.gap.vocabulary import WORDS

COMPARED = ("identical", *CALM, *WRONG)


@pytest.fixture(scope="module", params=[0, 1, 2])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Made, Study]:
    """A run that was made up, and its study, from a store that holds another run of the same graphs."""
    store = Store(tmp_path_factory.mktemp("store"))
    made(store, request.param + 10, kind="diff")
    run = made(store, request.param)
    return run, gap(store, run.run)


def by_platform(table: StudyTable) -> dict[str, dict[str, Any]]:
    return {row["platform"]: row for row in records(table)}


def test_all_totals_agree(pair: tuple[Made, Study]) -> None:
    _, study = pair
    assert len(study.checks) > 200 and not study.wrong


def test_words_are_those_of_reports() -> None:
    assert set(WORDS) == set(MEANINGS)
    assert list(ordered(Counter(WORDS))) == list(WORDS)


def test_totals(pair: tuple[Made, Study]) -> None:
    run, study = pair
    rows = by_platform(study.table("totals"))
    assert set(rows) == {*PLATFORMS, "all"}
    for platform, row in rows.items():
        mine = [v for (_, where), v in run.verdicts.items() if platform in (where, "all")]
        assert row["rows"] == len(mine) and row["ran"] == sum(v["status"] in RAN for v in mine)
        assert {word: row[word] for word in WORDS} == {word: sum(v["word"] == word for v in mine) for word in WORDS}


def test_failures_by_cause(pair: tuple[Made, Study]) -> None:
    run, study = pair
    causes = {signature: cause for _, signature, cause, _ in FAILURES}
    for platform, row in by_platform(study.table("failures")).items():
        mine = [o for (_, where), o in run.outcomes.items() if platform in (where, "all")]
        failed = [o for o in mine if o["status"] not in RAN]
        assert (row["outcomes"], row["failed"]) == (len(mine), len(failed))
        counted = Counter(causes[o["signature"]] for o in failed)
        assert {cause: row[cause] for cause in counted} == dict(counted) and len(failed) == sum(counted.values())
        assert row["signatures"] == len({o["signature"] for o in failed})
    answered = {row["signature"]: row["cause"] for row in records(study.table("signatures"))}
    assert answered.items() <= causes.items() and "" not in answered


def test_compile_failures_by_type(pair: tuple[Made, Study]) -> None:
    run, study = pair
    types = {signature: kind for _, signature, _, kind in FAILURES}
    rows = by_platform(study.table("compile_failures"))
    assert set(rows) == {"cpu/jit", "cpu/inductor", "gpu/compile", "onnxruntime/cpu", "all"}
    for platform, row in rows.items():
        mine = [o for (_, where), o in run.outcomes.items() if where in rows and platform in (where, "all")]
        ran = [o for o in mine if run.outcomes[o["model"], REFERENCE]["status"] in RAN]
        counted = Counter(types[o["signature"]] for o in ran if o["status"] not in RAN)
        assert row["models"] == len(ran) and {kind: row[kind] for kind in counted} == dict(counted)
        assert row["failed"] == sum(counted.values())


def test_consistency_and_tolerances(pair: tuple[Made, Study]) -> None:
    run, study = pair
    sent = Counter(platform for _, platform in run.outcomes)
    broad = [platform for platform in (REFERENCE, *PLATFORMS) if sent[platform] >= 0.9 * max(sent.values())]
    assert "cpu/inductor" not in broad and len(broad) == 6
    everywhere = {
        model for model, _ in run.outcomes if all(run.outcomes[model, p]["status"] in RAN for p in broad)
    }  # fmt: skip
    assert everywhere
    rows = {(row["base"], row["platform"]): row for row in records(study.table("consistency"))}
    assert ("everywhere", "cpu/inductor") not in rows
    for (base, platform), row in rows.items():
        mine = [
            v for (model, where), v in run.verdicts.items()
            if platform in (where, "all") and (base == "both" or (model in everywhere and where in broad))
        ]  # fmt: skip
        compared = [v for v in mine if v["word"] in COMPARED]
        wrong = [v for v in compared if v["word"] in WRONG]
        assert (row["compared"], row["wrong"]) == (len(compared), len(wrong))
        assert row["unjudged"] == sum(v["word"] == "unjudged" for v in mine)
        assert row["wrong_is_the_reference"] == sum(v["blame"] == "reference" for v in wrong)
        assert row["share_wrong"] == pytest.approx(len(wrong) / len(compared))
        assert row["beyond_paper"] == sum(not passes(v, "paper") for v in compared)
        assert row["beyond_assert_close"] == sum(not passes(v, "assert_close") for v in compared)
    for row in records(study.table("tolerances")):
        mine = [
            v for (_, where), v in run.verdicts.items() if row["platform"] in (where, "all") and v["word"] in COMPARED
        ]
        false = [v for v in mine if not passes(v, row["profile"]) and v["word"] not in WRONG]
        missed = [v for v in mine if passes(v, row["profile"]) and v["word"] in WRONG]
        assert (row["compared"], row["only_the_tolerance_alarms"]) == (len(mine), len(false))
        assert row["the_tolerance_misses"] == len(missed)
        assert row["alarm_is_rounding"] == sum(v["word"] in ("rounding", "identical") for v in false)
        assert row["alarm_is_internal"] == sum(v["word"] == "internal" for v in false)


def passes(verdict: dict[str, Any], profile: str) -> bool:
    """Outputs of another shape pass no tolerance, whatever was written."""
    return verdict["word"] != "structural" and verdict["profiles"][profile]


def test_compiled_against_eager(pair: tuple[Made, Study]) -> None:
    run, study = pair
    rows = by_platform(study.table("compiled"))
    assert {p: row["eager"] for p, row in rows.items()} == {
        "cpu/jit": "cpu/eager", "cpu/inductor": "cpu/eager", "gpu/compile": "gpu/eager", "all": None,
    }  # fmt: skip
    for platform in ("cpu/jit", "cpu/inductor", "gpu/compile"):
        counted: Counter[str] = Counter()
        swaps = 0
        for (model, where), outcome in run.outcomes.items():
            eager = run.outcomes[model, rows[platform]["eager"]]
            said = run.verdicts.get((model, eager["platform"]), {"word": "identical"})["word"]
            if where != platform or eager["status"] not in RAN or said not in ("identical", *CALM):
                continue
            word = against_eager(outcome, eager, run.verdicts[model, platform]["word"], said)
            counted[word] += 1
            swaps += word in COMPARED[1:] and swapped(outcome, eager)
        row = rows[platform]
        assert {word: row[word] for word in counted} == dict(counted)
        assert row["consistent_in_eager"] == sum(counted.values()) and row["nan_for_inf"] == swaps
        assert row["wrong"] == sum(counted[word] for word in WRONG)


def against_eager(outcome: dict[str, Any], eager: dict[str, Any], word: str, eager_word: str) -> str:
    if outcome["status"] not in RAN:
        return "unsupported" if outcome["status"] == "unsupported" else "failed"
    if outcome["status"] == eager["status"] == "ok" and digests(outcome) == digests(eager):
        return "identical"
    if word == "identical":
        return "rounding" if eager_word == "identical" else eager_word
    return word if word in (*COMPARED, "unjudged") else "not_judged"


def swapped(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    pairs = zip(ours["outputs"], theirs["outputs"], strict=True)
    return any(a["nan"] != b["nan"] and a["nan"] + a["pos_inf"] == b["nan"] + b["pos_inf"] for a, b in pairs)


def test_coverage(pair: tuple[Made, Study]) -> None:
    run, study = pair
    for platform, row in by_platform(study.table("coverage")).items():
        given: set[str] = set()
        ran: set[str] = set()
        for (_, where), outcome in run.outcomes.items():
            if platform in (where, "all"):
                operators = run.graphs[outcome["graph"]]["operators"]
                given.update(operators)
                ran.update(operators if outcome["status"] in RAN else ())
        assert (row["overloads_given"], row["overloads_ran"]) == (len(given), len(ran))
        assert row["packets_ran"] == len({op.rsplit(".", 1)[0] for op in ran})
        assert row["backward_ran"] == ("aten.relu_backward.default" in ran)
        known = (3, 2, pytest.approx(2 / 3)) if platform in (*PROBED, "all") else (None, None, None)
        assert tuple(row[name] for name in ("supported", "supported_ran", "supported_share")) == known


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_operators_that_never_ran(tmp_path: Path, seed: int) -> None:
    store = Store(tmp_path)
    run = made(store, seed, models=3)
    answered = {(row["platform"], row["operator"]): row for row in records(gap(store).table("never_ran"))}
    wanted: dict[tuple[str, str], list[bool]] = {}
    for (_, platform), outcome in run.outcomes.items():
        for packet in {op.rsplit(".", 1)[0] for op in run.graphs[outcome["graph"]]["operators"]}:
            wanted.setdefault((platform, packet), []).append(outcome["status"] in RAN)
    known = {(platform, packet) for platform in PROBED for packet in ("aten.add", "aten.mm", "aten.sin")}
    lost = {key for key, ran in wanted.items() if not any(ran)}
    assert lost and set(answered) == lost | {key for key in known if not any(wanted.get(key, ()))}
    for key, row in answered.items():
        assert row["graphs_given"] == len(wanted.get(key, ()))
        assert row["supported"] == (key in known if key[0] in PROBED else None)
    assert answered[REFERENCE, "aten.sin"]["signature"] == "no graph of the run holds it"


def test_findings(pair: tuple[Made, Study]) -> None:
    run, study = pair
    wanted: Counter[tuple[str, str, str, str]] = Counter()
    for (model, platform), v in run.verdicts.items():
        if v["word"] in (*WRONG, "failed", "reference_failed"):
            cause = v["culprit_op"] or run.outcomes[model, platform]["signature"]
            wanted[v["word"], cause, v["blame"], platform] += 1
    names = ("verdict", "culprit", "blame", "platform")
    assert {tuple(r[n] for n in names): r["findings"] for r in records(study.table("findings"))} == dict(wanted)


def test_slowdown(pair: tuple[Made, Study]) -> None:
    run, study = pair
    for row in records(study.table("slowdown")):
        if row["size"] == "all":
            ratios = [
                o["timings"]["second_run"] / run.outcomes[model, REFERENCE]["timings"]["second_run"]
                for (model, where), o in run.outcomes.items()
                if where == row["platform"] and o["timings"] and run.outcomes[model, REFERENCE]["timings"]
            ]
            assert row["models"] == len(ratios)
            assert row["median_slowdown"] == pytest.approx(statistics.median(ratios))
            assert row["over_ten_times"] == sum(ratio > 10 for ratio in ratios)


def test_what_is_fast_and_wrong_is_not_ported(pair: tuple[Made, Study]) -> None:
    run, study = pair
    for row in records(study.table("ported")):
        times = {
            model: o["timings"]["second_run"] / run.outcomes[model, REFERENCE]["timings"]["second_run"]
            for (model, where), o in run.outcomes.items()
            if where == row["platform"] and o["timings"] and run.outcomes[model, REFERENCE]["timings"]
        }
        words = {model: run.verdicts[model, row["platform"]]["word"] for model in times}
        slower = {model for model, ratio in times.items() if ratio > 1}
        assert (row["models"], row["slower"]) == (len(times), len(slower))
        assert row["slower_share"] == pytest.approx(len(slower) / len(times))
        assert row["slower_median_slowdown"] == pytest.approx(statistics.median(times[model] for model in slower))
        right = {model for model, word in words.items() if word in ("identical", *CALM)}
        wrong = {model for model, word in words.items() if word in WRONG}
        counts = [len(each) for each in (right - slower, right & slower, wrong - slower, wrong & slower)]
        names = ("fast_and_right", "slow_and_right", "fast_and_wrong", "slow_and_wrong")
        assert [row[name] for name in names] == counts


def test_the_time_of_each_model_stands_in_a_comparison_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    campaign, diff = made(store, 3), made(store, 4, kind="diff")
    assert not gap(store, campaign.run).table("model_times").rows
    for row in records(gap(store, diff.run).table("model_times")):
        times = diff.outcomes[row["model"], row["platform"]]["timings"]
        assert (row["seconds"], row["load_seconds"]) == (times["second_run"], times["load"])
        assert row["verdict"] == diff.verdicts[row["model"], row["platform"]]["word"]


def test_classes_are_the_comparisons_own(pair: tuple[Made, Study]) -> None:
    run, study = pair
    wanted: Counter[int] = Counter()
    for model in {model for model, _ in run.outcomes}:
        answers = {p: digests(o) for (m, p), o in run.outcomes.items() if m == model and o["status"] in RAN}
        if len(answers) > 1:
            wanted[len(equivalence_classes(answers))] += 1
    assert {row["classes"]: row["models"] for row in records(study.table("classes"))} == dict(wanted)


def test_makeup_knows_kinds_and_sizes(pair: tuple[Made, Study]) -> None:
    run, study = pair
    kinds = Counter(kind_of(graph["variant"]) for graph in run.graphs.values())
    rows = records(study.table("makeup"))
    assert {row["kind"]: row["models"] for row in rows if row["size"] == "all"} == {**kinds, "all": len(run.graphs)}
    largest = {row["size"]: row["largest"] for row in rows if row["size"] != "all"}
    assert largest.get("1–10 nodes", 10) <= 10 and largest.get("over 1,000 nodes", 1001) == 1001


def kind_of(variant: str | None) -> str:
    if not variant:
        return "captured"
    made_of = json.loads(variant)
    parts = len(made_of.get("parts", []))
    return made_of.get("kind") or ("merged" if parts > 1 else "region" if parts else "variant")


def test_what_a_campaign_held_back_and_how_broad_it_was(pair: tuple[Made, Study]) -> None:
    _, study = pair
    held = {(row["platform"], row["why"], row["reason"]): row["cases"] for row in records(study.table("not_given"))}
    assert held == {
        ("cpu/inductor", "no time left", ""): 26, ("onnxruntime/cpu", "known to lack", "aten.foo.default"): 9,
    }  # fmt: skip
    breadth = {(row["axis"], row["class"]): row["overloads"] for row in records(study.table("breadth"))}
    assert breadth["dtype", "float32"] == 2 and breadth["dtype", "int64"] == 1 and breadth["size", "odd"] == 1
    assert breadth["all", "dtype × layout × size"] == 3 and breadth["all", "pairs along an edge"] == 1
    assert breadth["mutation", "cast"] == 1


def test_each_table_is_one_query_that_a_reader_can_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = made(store, 5).run
    for ask in TABLES:
        table = ask.table(store, run)
        again = store.query(table.query, {"run": run})
        assert tuple(again.column_names) == table.columns and again.num_rows == len(table.rows)
        assert ";" not in table.query.replace("\\;", "") and table.note and table.empty
    assert {table.name for table in gap(store).tables} >= set(PUBLISHED)


@pytest.mark.parametrize("seed", [4, 5])
def test_answers_depend_on_the_rows_alone(tmp_path: Path, seed: int) -> None:
    one, other = Store(tmp_path / "one"), Store(tmp_path / "other")
    made(one, seed)
    other.merge(one)
    other.compact(below=1 << 30)
    again = gap(other)
    assert [t.rows for t in gap(one).tables] == [t.rows for t in again.tables]
    assert gap_object(again)["wrong"] == []


def test_the_youngest_run_with_outcomes_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="holds no run with outcomes: `mindgap campaign run`"):
        gap(store)
    made(store, 1)
    made(store, 2)
    made(store, 3, models=0)
    made(store, 4, kind="triage")
    assert gap(store).run == "campaign-2" and gap(store, "campaign-1").run == "campaign-1"
    with pytest.raises(StoreError, match="campaign-3 is of kind campaign with 0 outcomes"):
        gap(store, "campaign-3")
    with pytest.raises(StoreError, match="of kind triage"):
        gap(store, "triage-4")
    with pytest.raises(StoreError, match="holds no run yesterday; it holds campaign-1, "):
        gap(store, "yesterday")


def test_a_missing_segment_shows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    made(store, 6)
    (segment,) = tmp_path.glob("tables/verdicts/*")
    segment.unlink()
    study = gap(Store(tmp_path))
    assert not study.table("totals").rows and not study.table("consistency").rows
    rows = [row for row in study.table("failures").rows if row[0] != "all"]
    assert rows, "the outcomes are still there"


def test_a_run_that_goes_on_may_have_outcomes_without_verdicts_and_no_other_may(tmp_path: Path) -> None:
    for finished in (True, False):
        store = Store(tmp_path / str(finished))
        run = made(store, 7, finished=finished)
        more = {**run.outcomes["m000", "cpu/jit"], "model": "late"}
        store.append("outcomes", more)
        study = gap(store)
        assert bool(study.wrong) == finished
        assert all("cpu/jit" in check.what for check in study.wrong)


def test_nothing_divided_by_nothing_is_no_figure(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = made(store, 8, models=6)
    broken = {**next(iter(run.verdicts.values())), "word": "rounding", "verdict": "rounding", "profiles": {}}
    store.append("runs", {"run": "r", "kind": "diff", "created": None, "version": "0", "reference": "a/eager"})
    outcome = {**next(iter(run.outcomes.values())), "run": "r", "model": "m", "status": "ok"}
    store.append("outcomes", [{**outcome, "platform": "a/eager"}, {**outcome, "platform": "b/eager"}])
    store.append("verdicts", {**broken, "run": "r", "model": "m", "graph": outcome["graph"], "platform": "b/eager",
                              "reference": "a/eager", "status": "ok"})  # fmt: skip
    study = gap(store, "r")
    rows = by_platform(study.table("consistency"))
    assert rows["b/eager"]["share_beyond_paper"] is None and rows["b/eager"]["share_wrong"] == 0
    assert set(column(study.table("tolerances"), "share_of_alarms_false")) == {None}
    assert set(column(study.table("tolerances"), "not_asked")) == {1}
    assert not study.wrong


@pytest.mark.nightly
def test_a_real_run_reconciles_with_its_report(tmp_path: Path) -> None:
    """Faults that are known, through workers and the judge, against the report that `diff` gave."""
    faults = tmp_path / "faults.toml"
    faults.write_text(
        '[[fault]]\nkind = "runtime_error"\nmessage = "index 7 is out of bounds for dimension 0 with size 5"\n'
        'when = { op = "aten.neg.default" }\n'
        '[[fault]]\nkind = "wrong_element"\nadd = 0.0003\nwhen = { op = "aten.exp.default" }\n'
        '[[fault]]\nkind = "refusal"\nwhy = "not on this device"\nwhen = { op = "aten.erf.default" }\n'
    )
    faulty = f"faulty/eager@faults={faults}"
    subjects = [Subject(op, lambda op=op: one_node(op)) for op in ("relu", "neg", "exp", "erf")]
    subjects.append(Subject("no such index", no_such_index))
    store = Store(tmp_path / "store")
    report = diff_many(
        subjects, [faulty, "cpu/jit"], settings=RunSettings(deadline_s=100), tensors=TensorStore(tmp_path / "t"),
        store=store, jobs=1,
    )  # fmt: skip
    study = gap(store)
    assert not study.wrong and study.kind == "diff" and study.seconds
    totals = by_platform(study.table("totals"))
    whole = totals["all"]
    assert {word: whole[word] for word in WORDS if whole[word]} == dict(report.totals.words)
    assert (whole["rows"], whole["findings"]) == (report.totals.rows, report.totals.findings)
    failures = by_platform(study.table("failures"))
    assert (failures[faulty]["index_out_of_bounds"], failures[faulty]["unsupported_operator"]) == (2, 1)
    assert failures[REFERENCE]["failed"] == failures[REFERENCE]["index_out_of_bounds"] == 1
    found = [(row["verdict"], row["culprit"], row["blame"]) for row in records(study.table("findings"))]
    assert ("discrepant", "aten.exp.default", "platform") in found
    named = sorted((verdict, op.removeprefix("aten.").split(".")[0], blame) for verdict, op, blame in found)
    assert named == sorted((root.word, root.name, root.blame) for root in roots(report))
    paper = {row["platform"]: row for row in records(study.table("tolerances")) if row["profile"] == "paper"}
    assert paper[faulty]["the_tolerance_misses"] == 1, "0.0003 is less than the paper's tolerance, and wrong"
    classes = Counter(len(report.classes(model.name)) for model in report.models if model.reference_digests)
    assert {row["classes"]: row["models"] for row in records(study.table("classes"))} == dict(classes)


def one_node(op: str) -> Graph:
    spec = TensorSpec("float32", (4, 3), (3, 1))
    return Graph((Input(spec, Constant(0.5)),), (Node(f"aten.{op}.default", (Ref(0),), (), (spec,)),), (1,))


def no_such_index() -> Graph:
    table, index = TensorSpec("float32", (5, 3), (3, 1)), TensorSpec("int64", (2,), (1,))
    found = TensorSpec("float32", (2, 3), (3, 1))
    node = Node("aten.index_select.default", (Ref(0), 0, Ref(1)), (), (found,))
    return Graph((Input(table, Constant(1.0)), Input(index, Constant(7))), (node,), (2,))
