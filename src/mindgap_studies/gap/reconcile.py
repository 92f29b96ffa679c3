"""Checks that totals agree between tables, each computed by two independent queries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mindgap.results.failure_rules import CAUSES, TYPES
from mindgap_studies.gap.vocabulary import CALM, WORDS, WRONG
from mindgap_surveys.table import StudyTable, column, records


@dataclass(frozen=True, slots=True)
class Check:
    """Two counts that must be equal. `at_least`: the first may be larger while a run continues."""

    what: str
    left: int
    right: int
    at_least: bool = False

    @property
    def holds(self) -> bool:
        return self.left == self.right or (self.at_least and self.left > self.right)


Row = dict[str, Any]
Tables = Mapping[str, StudyTable]


def checks(tables: Tables, *, finished: bool = True) -> tuple[Check, ...]:
    """Returns all checks. `finished`: in an unfinished run, some outcomes do not have their verdicts yet."""
    return (
        *_sums(tables), *_within_rows(tables), *_failures(tables, finished), *_compared(tables), *_findings(tables),
        *_speed(tables),
    )  # fmt: skip


def _by(table: StudyTable, *names: str) -> dict[tuple[str, ...], Row]:
    return {tuple(row[name] for name in names): row for row in records(table)}


def _by_platform(table: StudyTable) -> dict[str, Row]:
    return {row["platform"]: row for row in records(table)}


def _total(row: Row, names: Iterable[str]) -> int:
    return sum(row[name] for name in names)


def _sums(tables: Tables) -> Generator[Check]:
    """Checks that the last row of a table, or of each group, is the sum of the rows above it."""
    consistency = ("compared", "unjudged", "consistent", "wrong", "beyond_paper", "beyond_assert_close", *CALM, *WRONG)
    tolerances = ("compared", "agree_consistent", "agree_wrong", "only_the_tolerance_alarms", "the_tolerance_misses")
    for name, group, part, counts in (
        ("totals", "", "platform", ("rows", "ran", "findings", *WORDS)),
        ("makeup", "kind", "size", ("models", "ran_on_reference")),
        ("failures", "", "platform", ("outcomes", "ran", "failed", *CAUSES)),
        ("compile_failures", "", "platform", ("models", "failed", *TYPES, "reference_failed_too")),
        ("compiled", "", "platform", ("given", "consistent_in_eager", "differ", "wrong", "nan_for_inf")),
        ("consistency", "base", "platform", consistency),
        ("tolerances", "profile", "platform", tolerances),
        ("slowdown", "platform", "size", ("models", "over_ten_times")),
    ):
        rows = [row for row in records(tables[name]) if not group or row[group] != "all"]
        for key in dict.fromkeys(row[group] if group else "" for row in rows):
            mine = [row for row in rows if not group or row[group] == key]
            for what in counts:
                parts = sum(row[what] for row in mine if row[part] != "all")
                yield Check(f"{name}: {what} over each {part}, and of all {key}".strip(), parts, mine[-1][what])
    kinds = [row for row in records(tables["makeup"]) if row["size"] == "all"]
    if kinds:
        parts = sum(row["models"] for row in kinds if row["kind"] != "all")
        yield Check("makeup: models over kinds, and of all", parts, kinds[-1]["models"])


def _within_rows(tables: Tables) -> Generator[Check]:
    """Checks that the parts of a row add up to its total."""
    words = ("unsupported", "failed", *CALM, *WRONG, "unjudged", "not_judged")
    alarms = ("alarm_is_rounding", "alarm_is_ill_conditioned", "alarm_is_undefined", "alarm_is_internal")
    agreed = ("agree_consistent", "agree_wrong", "only_the_tolerance_alarms", "the_tolerance_misses", "not_asked")
    for name, parts, whole in (
        ("totals", WORDS, "rows"),
        ("failures", ("ran", "failed"), "outcomes"),
        ("failures", CAUSES, "failed"),
        ("compile_failures", TYPES, "failed"),
        ("consistency", (*CALM, *WRONG), "compared"),
        ("consistency", ("consistent", "wrong"), "compared"),
        ("tolerances", agreed, "compared"),
        ("tolerances", alarms, "only_the_tolerance_alarms"),
        ("compiled", words, "consistent_in_eager"),
        ("coverage", ("forward_given", "backward_given"), "packets_given"),
        ("coverage", ("forward_ran", "backward_ran"), "packets_ran"),
        ("ported", ("slow_and_right", "slow_and_wrong", "fast_and_right", "fast_and_wrong", "not_judged"), "models"),
    ):
        for row in records(tables[name]):
            label = " ".join(str(row[key]) for key in ("base", "profile", "platform") if key in row)
            yield Check(f"{name}: the parts of {whole} of {label}", _total(row, parts), row[whole])


def _speed(tables: Tables) -> Generator[Check]:
    """Checks that the tables of run time have the same models, and the same slower ones where each is listed."""
    slower = Counter(row["platform"] for row in records(tables["model_times"]) if row["slowdown"] > 1)
    listed = bool(tables["model_times"].rows)
    whole = {row["platform"]: row["models"] for row in records(tables["slowdown"]) if row["size"] == "all"}
    for row in records(tables["ported"]):
        yield Check(f"ported and slowdown: models of {row['platform']}", row["models"], whole[row["platform"]])
        judged = row["slow_and_right"] + row["slow_and_wrong"]
        yield Check(f"ported: slower models and judged ones of {row['platform']}", row["slower"], judged, at_least=True)
        most = judged + row["not_judged"]
        yield Check(f"ported: judged and other models, and slower of {row['platform']}", most, row["slower"], True)
        if listed:
            here = slower[row["platform"]]
            yield Check(f"ported and model times: slower models of {row['platform']}", row["slower"], here)


def _failures(tables: Tables, finished: bool) -> Generator[Check]:
    """Checks outcomes against verdicts, compile failures against failures, signatures against failures."""
    failed = _by_platform(tables["failures"])
    for platform, row in _by_platform(tables["totals"]).items():
        if platform == "all":
            continue
        outcomes = failed.get(platform, {"outcomes": 0, "failed": 0})
        yield Check(f"outcomes and verdicts of {platform}", outcomes["outcomes"], row["rows"], not finished)
        if not row["not_judged"]:
            without = row["rows"] - row["ran"]
            yield Check(f"failures by outcome and by verdict of {platform}", outcomes["failed"], without, not finished)
    for platform, row in _by_platform(tables["compile_failures"]).items():
        if platform != "all":
            both = row["failed"] + row["reference_failed_too"]
            yield Check(f"compile failures and failures of {platform}", both, failed[platform]["failed"])
    whole = failed.get("all", {"failed": 0, "signatures": 0})
    said = tables["signatures"]
    yield Check("outcomes over signatures, and failures", sum(column(said, "outcomes")), whole["failed"])
    yield Check("distinct signatures", len(set(column(said, "signature"))), whole["signatures"])


def _compared(tables: Tables) -> Generator[Check]:
    """Checks consistency and tolerances against the totals, and against each other."""
    consistent = _by(tables["consistency"], "base", "platform")
    tolerances = _by(tables["tolerances"], "profile", "platform")
    bits = records(tables["precision"])
    none: Row = dict.fromkeys((*CALM, *WRONG, "compared", "beyond_paper", "beyond_assert_close"), 0)
    for platform, row in _by_platform(tables["totals"]).items():
        both = consistent.get(("both", platform), none)
        for word in (*CALM, *WRONG):
            yield Check(f"{word} in totals and consistency of {platform}", row[word], both[word])
        for profile in ("paper", "assert_close"):
            by_profile = tolerances.get((profile, platform))
            if by_profile:
                beyond = by_profile["agree_wrong"] + by_profile["only_the_tolerance_alarms"]
                yield Check(f"compared by {profile} on {platform}", by_profile["compared"], both["compared"])
                yield Check(f"beyond {profile} on {platform}", beyond, both[f"beyond_{profile}"])
        if platform != "all":
            differ = sum(each["models"] for each in bits if each["platform"] == platform)
            yield Check(f"outputs that differ on {platform}", differ, _total(row, (*CALM[1:], *WRONG)))


def _findings(tables: Tables) -> Generator[Check]:
    """Checks findings by culprit against the totals."""
    found = records(tables["findings"])
    for platform, row in _by_platform(tables["totals"]).items():
        total = sum(each["findings"] for each in found if platform in ("all", each["platform"]))
        yield Check(f"findings by culprit and in totals of {platform}", total, row["findings"])
