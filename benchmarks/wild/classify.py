"""Classifies each measured row by rules that do not use mindgap's oracle.

    python benchmarks/wild/classify.py DIR

Reads `DIR/sample.csv`, `DIR/measured/` and, if present, `DIR/reviewed.csv`; writes `DIR/checked.csv`. A row
that the rules cannot decide has the class `review`: a person reads its script, tries the operator in the runtime alone,
and writes a line (case, platform, class, culprit_check, evidence) into `reviewed.csv`, which overrides the rules.

The rules compare each side's largest error against float64 in units in the last place (ulp). Clearly wrong is an error
above `WRONG_ULP` and `WORSE` times the other side's; clearly right is one up to `RIGHT_ULP`, or up to `ALIKE` times the
other side's.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

sys.path.insert(0, str(Path(__file__).parent))
from draw import Drawn, read_sample
from measure import answer_of

WRONG_ULP = 256.0
WORSE = 32.0
RIGHT_ULP = 16.0
ALIKE = 4.0
#: A runtime's own words that it does not implement something.
REFUSAL = re.compile(
    r"not (?:yet )?(?:supported|implemented)|unsupported|NOT_IMPLEMENTED|NotImplemented|No conversion rule|"
    r"No decompositions registered|No ONNX function found|only supported for|does not support",
    re.IGNORECASE,
)
#: Private and gradient operators that public forward functions reach, as `reached.py` measured it.
REACHED = frozenset(
    line.split()[0]
    for line in Path(__file__).with_name("reached.txt").read_text().splitlines()
    if line and not line.startswith("#")
)
CALM = ("identical", "rounding", "ill_conditioned", "undefined", "internal")

Side = Literal["wrong", "right", "unclear"]


@dataclass(frozen=True)
class Checked:
    """What the check of a row came to. `culprit_check`: `right`, `wrong`, or empty where it was not checked."""

    kind: str
    culprit_check: str
    evidence: str


def main() -> int:
    """Writes the table; prints how many rows are in each class."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    folder: Path = parser.parse_args().dir
    sample = read_sample(folder / "sample.csv")
    reviewed = read_reviewed(folder / "reviewed.csv")
    lines: list[dict[str, Any]] = []
    for row in sample:
        found = unreachable(row, reviewed.get((row.case, row.platform)) or by_rule(folder, row))
        measured = {key: value for key, value in asdict(row).items() if key != "detail"}
        lines.append({**measured, "class": found.kind, "culprit_check": found.culprit_check,
                      "evidence": one_line(found.evidence)})  # fmt: skip
    with (folder / "checked.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    print(dict(Counter(line["class"] for line in lines)))
    return 0


def one_line(text: str) -> str:
    """The text without colours, folders and line ends, cut to 260 characters."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return " ".join(re.sub(r"(?<![\w.])/(?:[\w.+-]+/)+", "…/", plain).split())[:260]


def unreachable(row: Drawn, found: Checked) -> Checked:
    """A real finding at an operator that no public function of a forward program calls is debatable: the runtime is
    wrong, and its users do not meet it."""
    packets = {op.split(".")[1] for op in row.culprit.split("+") if op.count(".") == 2}
    hidden = {p for p in packets if ("_backward" in p or p.startswith("_")) and p not in REACHED}
    if found.kind != "real" or not hidden:
        return found
    return Checked(
        "debatable", found.culprit_check, f"no public forward function calls {min(hidden)}; {found.evidence}"
    )


def read_reviewed(path: Path) -> dict[tuple[str, str], Checked]:
    """A person's decisions, by case and platform."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        return {
            (line["case"], line["platform"]): Checked(line["class"], line["culprit_check"], line["evidence"])
            for line in csv.DictReader(file)
        }


def by_rule(folder: Path, row: Drawn) -> Checked:
    """The class that the measurement alone leads to."""
    answer = answer_of(folder, row)
    if not answer.exists():
        return Checked("review", "", "no measurement")
    measured = json.loads(answer.read_text())
    if not measured["inputs_ok"]:
        return Checked("review", "", "the script has other inputs than the campaign had")
    if measured["status"]["eager"]["status"] != "ok":
        return Checked("review", "", f"eager: {measured['status']['eager']}")
    if row.verdict in CALM:
        return calm_row(measured)
    if row.verdict == "failed":
        return failed_row(measured)
    return wrong_row(row, measured)


def failed_row(measured: dict[str, Any]) -> Checked:
    """A platform that fails in the user's hands as well is a real failure, unless it says that it refuses."""
    status, alone = measured["status"]["platform"], measured.get("culprit")
    if status["status"] == "ok":
        agrees = not measured["differs"]
        return Checked("false" if agrees else "review", "", "runs by the user's own path" + ", and agrees" * agrees)
    if status["status"] == "not_run":
        return Checked("review", "", "the script knows no way to run this platform")
    said = f"{status.get('stage', '')}: {status.get('error', '')}: {status.get('message', '')}"
    culprit = "" if alone is None else "right" if alone["status"]["platform"]["status"] != "ok" else "wrong"
    return Checked("debatable" if REFUSAL.search(said) else "real", culprit, said)


def wrong_row(row: Drawn, measured: dict[str, Any]) -> Checked:
    """A wrong result is real where the side that is blamed is wrong, in the culprit alone or in the whole."""
    if measured["status"]["platform"]["status"] != "ok":
        return Checked("review", "", f"the user's own path: {measured['status']['platform']}"[:300])
    alone = measured.get("culprit")
    whole_side, whole_why = judged(row, measured)
    if alone is None or alone["status"]["platform"]["status"] != "ok":
        return Checked({"wrong": "real", "right": "false"}.get(whole_side, "review"), "", whole_why)
    side, why = judged(row, alone)
    if side == "wrong":
        return Checked("real", "right", f"{alone['name']} alone: {why}")
    if whole_side == "wrong":
        return Checked("review", "", f"the whole: {whole_why}; but {alone['name']} alone: {why}")
    if side == "right" and whole_side == "right":
        return Checked("false", "", f"alone: {why}; the whole: {whole_why}")
    return Checked("review", "", f"alone: {why}; the whole: {whole_why}")


def judged(row: Drawn, program: dict[str, Any]) -> tuple[Side, str]:
    """What can be said of the side that a finding blames, over all outputs of one program."""
    sides = {"reference": ("eager",), "platform": ("platform",)}.get(row.blame, ("platform", "eager"))
    verdicts = [judged_side(output, side) for output in program["outputs"] for side in sides]
    for wanted in ("wrong", "unclear"):
        for number, (word, why) in enumerate(verdicts):
            if word == wanted:
                return word, f"output {number // len(sides)}: {why}"
    return "right", verdicts[0][1] if verdicts else "no outputs"


def calm_row(measured: dict[str, Any]) -> Checked:
    """A calm row hides something where the platform is wrong; anything unclear is for a person."""
    status = measured["status"]["platform"]
    if status["status"] != "ok":
        return Checked("review", "", f"the user's own path: {status}"[:300])
    worst = ""
    for number, output in enumerate(measured["outputs"]):
        for side in ("platform", "eager"):
            word, why = judged_side(output, side)
            if word != "right":
                return Checked("review", "", f"output {number}: {why}")
            worst = worst or why
    return Checked("calm", "", worst or "no output")


def judged_side(output: dict[str, Any], side: str) -> tuple[Side, str]:
    """Whether one side of one output is wrong against float64, with the other side beside it."""
    other = "eager" if side == "platform" else "platform"
    mine, rival = output[side], output[other]
    if mine is None or rival is None:
        return "unclear", f"{side} gave no such output"
    if (mine["dtype"], mine["shape"]) != (output["dtype"], output["shape"]):
        return "wrong", f"{side}: {mine['dtype']}{mine['shape']}, declared {output['dtype']}{output['shape']}"
    if "max_abs_err" not in mine or "max_abs_err" not in rival:
        same = not output.get("differs")
        return (
            "right" if same else "unclear"
        ), f"no float64 to compare with; the sides {'agree' if same else 'differ'}"
    special = mine["nan_mismatch"] + mine["inf_mismatch"]
    if special and not rival["nan_mismatch"] + rival["inf_mismatch"]:
        return "wrong", f"{side}: NaN or infinity where float64 and {other} agree on another class, {special} elements"
    if special:
        return "unclear", f"{side} and {other} differ from float64 in NaN or infinity"
    if "wrong" in mine:
        if mine["wrong"] and not rival["wrong"]:
            return "wrong", f"{side}: {mine['wrong']} discrete elements differ from float64, of {other} none"
        return ("unclear" if mine["wrong"] else "right"), f"{mine['wrong']} discrete elements differ from float64"
    ulp, least = float(mine["max_ulp_err"]), float(rival["max_ulp_err"])
    why = f"{side}: {ulp:.4g} ulp ({mine['max_abs_err']:.3g}) from float64, {other} {least:.4g} ulp"
    if ulp > WRONG_ULP and ulp > WORSE * least:
        return "wrong", why
    return ("right" if ulp <= RIGHT_ULP or ulp <= ALIKE * least else "unclear"), why


if __name__ == "__main__":
    raise SystemExit(main())
