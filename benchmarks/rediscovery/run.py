"""Counts the public reports of wrong results and crashes that mindgap shows, with the operator at fault.

    R=benchmarks/rediscovery/run.py
    python $R --given                 # `mindgap diff` of each report's program
    python $R --given --aside         # of the third that was put aside
    python $R --given --all --only integers: exported:erfcx
    python $R --unguided CATALOGUE --all --platform cpu/inductor@env=torch-2.6.0 --minutes 240

`reports.toml` is the list; `rejected.toml` holds reports that do not show in a released version, or are no fault.
`alone.py` measures without mindgap. A version that is not installed is an environment named PACKAGE-VERSION:
`mindgap env create torch-2.6.0 'torch==2.6.0'`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import resource
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
CALM = frozenset({"identical", "rounding", "ill_conditioned", "undefined", "internal"})
#: Sources of one command.
TOGETHER = 20


@dataclass(frozen=True)
class Report:
    """One public report, rebuilt.

    program: FILE:FUNCTION in `programs`.
    platform: as `mindgap diff -p` takes it, without the environment.
    kind: what the report's user meets: `wrong` results, a call that `fails`, a process that `crashes`.
    operators: base names of the operators of which one is at fault; several where a fusion of them is.
    measured: what the version gave without mindgap.
    gone: the first measured version without the fault; empty where the newest measured one has it.
    """

    program: str
    link: str
    claim: str
    platform: str
    package: str
    version: str
    kind: str
    operators: tuple[str, ...]
    measured: str
    gone: str = ""
    backward: bool = False

    @property
    def aside(self) -> bool:
        """Whether the report is of the third that is not looked at while mindgap is changed."""
        return int(hashlib.sha256(self.link.encode()).hexdigest(), 16) % 3 == 0

    @property
    def source(self) -> str:
        file, _, function = self.program.partition(":")
        return f"{HERE}/programs/{file}.py:{function}"

    @property
    def environment(self) -> str:
        """The environment of the version; empty where it is installed, or where the platform has a recipe."""
        try:
            own = version(self.package)
        except PackageNotFoundError:
            return ""
        return "" if own.split("+")[0] == self.version else f"{self.package}-{self.version}"

    @property
    def asked(self) -> str:
        name, _, options = self.platform.partition("@")
        parts = [f"env={self.environment}"] * bool(self.environment) + [options] * bool(options)
        return f"{name}@{','.join(parts)}" if parts else name


@dataclass(frozen=True)
class Answer:
    """What mindgap answers: the verdict, the operators that it names, and a line."""

    verdict: str
    operators: frozenset[str]
    detail: str

    def shows(self) -> bool:
        """Whether the verdict is right."""
        return self.verdict not in CALM | {"unjudged", "unsupported", "refused", "broken"}

    def names(self, report: Report) -> bool:
        """Whether the operator is right."""
        return bool(self.operators & set(report.operators))


def reports(file: str = "reports.toml") -> list[Report]:
    """The list."""
    rows = tomllib.loads((HERE / file).read_text(encoding="utf-8"))["report"]
    return [Report(**{**row, "operators": tuple(row["operators"])}) for row in rows]


def given(chosen: Sequence[Report]) -> dict[str, Answer]:
    """Runs the programs of reports, those of one platform in few commands. Returns the answers by link."""
    found: dict[str, Answer] = {}
    for asked, backward in dict.fromkeys((each.asked, each.backward) for each in chosen):
        group = [each for each in chosen if (each.asked, each.backward) == (asked, backward)]
        for start in range(0, len(group), TOGETHER):
            found |= _diff(group[start : start + TOGETHER], asked, backward)
    return found


def _diff(group: Sequence[Report], asked: str, backward: bool) -> dict[str, Answer]:
    sources = [each.source for each in group]
    command = [str(Path(sys.executable).parent / "mindgap"), "diff", *dict.fromkeys(sources), "-p", asked, "--json"]
    done = subprocess.run([*command, *["--backward"] * backward], capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise SystemExit(f"status {done.returncode}: {' '.join(command)}\n{done.stderr[-2000:]}")
    return answers(json.loads(done.stdout), group)


def answers(report: dict[str, Any], group: Sequence[Report]) -> dict[str, Answer]:
    """Reads what `mindgap diff --json` prints."""
    found: dict[str, Answer] = {}
    for each in group:
        rows = [row for row in report["rows"] if row["model"].startswith(each.program)]
        refused = [row["reason"] for row in report["refused"] if row["source"] == each.source]
        found[each.link] = _answer(rows[0]) if rows else Answer("refused", frozenset(), " ".join(refused))
    return found


def _answer(row: dict[str, Any]) -> Answer:
    own = row["own_path"] or {}
    culprits = [row["culprit"], *(fault["culprit"] for fault in row["faults"])]
    operators = frozenset(base(op) for each in culprits if each for op in each["op"].split("+"))
    verdict = (
        "broken"
        if row["broken"]
        else row["verdict"] or ("unsupported" if row["status"] == "unsupported" else "unjudged")
    )
    detail = " ".join((row["message"] or row["detail"] or own.get("detail", "")).split())
    return Answer(verdict, operators, detail)


def base(operator: str) -> str:
    """`floor_divide` of `aten.floor_divide.default`."""
    parts = operator.split(".")
    return parts[1] if len(parts) > 1 else operator


def table(chosen: Iterable[Report], found: dict[str, Answer]) -> str:
    """A line for each report that is not answered rightly, and the figures."""
    rows = [(each, found[each.link]) for each in chosen]
    lines = [
        f"{'operator' if answer.shows() else 'verdict':9} {each.program:45} {each.asked:40} "
        f"{answer.verdict} {' '.join(sorted(answer.operators))}: {answer.detail[:150]}"
        for each, answer in rows
        if not (answer.shows() and answer.names(each))
    ]
    shown = sum(answer.shows() for each, answer in rows)
    named = sum(answer.shows() and answer.names(each) for each, answer in rows)
    shares = f"verdict right {shown} ({shown / len(rows):.1%}), operator too {named} ({named / len(rows):.1%})"
    figures = f"{len(rows)} reports: {shares}"
    return "\n".join([*lines, figures])


PLAN = """seed = 1
catalogue = "{catalogue}"
[variants]
count = {count}
sizes = [ {{nodes = 10, share = 1.0}} ]
mutated = 0.3
[platforms]
"{platform}" = {{}}
[limits]
coverage_minutes = 1
"""


def unguided(chosen: Sequence[Report], catalogue: Path, minutes: float, count: int) -> str:
    """Runs a campaign on the version of the chosen reports, ends it after so many minutes, and returns which operators
    of the reports its findings name. Whether it is the reported fault is for a reader to decide."""
    asked = {each.asked for each in chosen}
    if len(asked) != 1:
        raise SystemExit(f"--unguided takes one platform, by --platform: {', '.join(sorted(asked))}")
    run = [str(Path(sys.executable).parent / "mindgap"), "campaign"]
    with tempfile.TemporaryDirectory() as folder:
        plan, out = Path(folder) / "plan.toml", f"{folder}/campaign"
        plan.write_text(PLAN.format(catalogue=catalogue.resolve(), count=count, platform=asked.pop()), encoding="utf-8")
        # A campaign may be ended at any moment: what has run is in its store.
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run([*run, "run", str(plan), "--out", out, "-j", "1"], timeout=60 * minutes, check=False)
        used = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        listed = subprocess.run([*run, "findings", out, "--json"], capture_output=True, text=True, check=False)
        groups = json.loads(listed.stdout) if listed.stdout.strip() else []
        status = subprocess.run([*run, "status", out], capture_output=True, text=True, check=False).stdout
    named = {base(op) for group in groups for op in group["culprit"].split("+")}
    lines = [f"{each.program}: {' '.join(sorted(named & set(each.operators))) or 'none'}" for each in chosen]
    hits = sum(bool(named & set(each.operators)) for each in chosen)
    return "\n".join(
        [
            status,
            *lines,
            f"{len(groups)} groups of findings in {used:.0f} s of processor time; "
            f"they name an operator of {hits} of {len(chosen)} reports",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--given", action="store_true")
    mode.add_argument("--unguided", type=Path, metavar="CATALOGUE", help="a campaign on the platform of --platform")
    parser.add_argument("--aside", action="store_true", help="the reports that were put aside, not the others")
    parser.add_argument("--all", action="store_true", help="both")
    parser.add_argument("--only", nargs="+", default=[""], help="programs that begin so")
    parser.add_argument("--platform", default="", help="platforms that begin so")
    parser.add_argument("--json", type=Path, help="also writes the answers")
    parser.add_argument("--minutes", type=float, default=240.0, help="after which the campaign is ended")
    parser.add_argument("--variants", type=int, default=20_000, help="of the campaign")
    args = parser.parse_args()
    chosen = [
        each
        for each in reports()
        if (args.all or each.aside == args.aside)
        and each.program.startswith(tuple(args.only))
        and each.asked.startswith(args.platform)
    ]
    if not chosen:
        parser.error("no report is chosen")
    if args.unguided:
        print(unguided(chosen, args.unguided, args.minutes, args.variants))
        return
    found = given(chosen)
    if args.json:
        kept = {link: [each.verdict, sorted(each.operators), each.detail[:300]] for link, each in found.items()}
        args.json.write_text(json.dumps(kept, indent=1, sort_keys=True), encoding="utf-8")
    print(table(chosen, found))
    raise SystemExit(any(not (found[each.link].shows() and found[each.link].names(each)) for each in chosen))


if __name__ == "__main__":
    main()
