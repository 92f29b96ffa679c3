"""Writes a reduced finding: script, report, graphs, and a summary as JSON."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mindgap.findings.reduction.evidence import evidence_file, evidence_of, evidence_text
from mindgap.findings.reduction.finding import ReducedFinding
from mindgap.findings.reduction.model_file import diff_command, write_case
from mindgap.findings.reduction.reproducer import VersionRun, report, title_of
from mindgap.graph import Graph, MindgapError, TensorStore, digest, save
from mindgap.graph.compare.culprit import DtypePolicy, policy_of
from mindgap.graph.model_file import SUFFIX
from mindgap.graph.operators import traits
from mindgap.platforms.name import PlatformName, recorded
from mindgap.platforms.stages import Stage
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class Summary:
    """What a table needs of a reduced finding.

    `nodes`: of the graph before. `operators`, `dtypes`: of the reduced graph and its inputs. `signature`: of a failure;
    of another shape or dtype, what becomes of an output (`float32[2,1] becomes float32[2]`).
    `verified`: the script showed the finding twice without mindgap, or mindgap found it in the model file. `short`:
    there is a short script; where there is none, `script` is a model file and `command` runs it. (In a file of an older
    version without `command`, `script` is then a long script.) `complete`: no limit
    ended the reduction. `seconds`: wall-clock time of the reduction. `script`: name of the file. `stage`: the stage of
    the platform that brings the fault; `stage_evidence`: one sentence for each run that shows it. `status`: of the
    platform's outcome. `culprit`: what the row names, an operator, several joined by `+`, or a dtype policy. `origin`:
    module and line of the user's program. `special_inputs`: an input of the reduced graph holds NaN or infinity.
    `internal`: no public function returns any of its outputs. `relative`: of a wrong result, the largest difference
    of an element, relative to the reference's; None where that is not known. `runs`: of a script for two versions of a
    platform, what it did with each, that at fault first. `mechanism`: the code at fault, such as the rule that
    translates the operator; "" where it was not found. `refused`: why no public function makes the reduced graph, so
    that the finding is not to be listed; "" where one makes each node. `condition`: what triggers the fault
    (`0-d input`); `right_for`: neighbours that are right, in words; both "" where not looked for. `remedy`: the line
    that switches the pass at fault off. A file of an older version has none of the fields from `stage` on.
    """

    title: str
    platform: PlatformName
    verdict: str
    blame: str
    operators: tuple[str, ...]
    dtypes: tuple[str, ...]
    signature: str
    nodes: int
    checks: int
    seconds: float
    complete: bool
    short: bool
    verified: bool
    script: str
    stage: Stage = "unknown"
    stage_evidence: tuple[str, ...] = ()
    status: str = ""
    culprit: str = ""
    origin: str = ""
    special_inputs: bool = False
    internal: bool = False
    relative: float | None = None
    runs: tuple[VersionRun, ...] = ()
    mechanism: str = ""
    refused: str = ""
    condition: str = ""
    right_for: str = ""
    command: str = ""
    remedy: str = ""

    @property
    def policy(self) -> DtypePolicy | None:
        """The dtype policy that the row names, if it names one."""
        return policy_of(self.culprit)


def write_finding(out: Path, finding: ReducedFinding, seen: str = "", tensors: TensorStore | None = None) -> Summary:
    """Writes NAME.py, .md, .graph, .json, .evidence.json into `out`; NAME.mindgap in place of NAME.py where there is no
    short script; where there are such graphs, also NAME.passing.graph and NAME.natural.graph, a graph of ordinary size
    that shows the finding.

    The directory is made. `seen`: how often and where the finding was met, for the report. `tensors`: of the graph, by
    default the user's store. Raises `MindgapError` where the directory cannot be written.
    """
    row, reduction, made = finding.row, finding.reduction, finding.reproducer
    graph = reduction.graph
    packets = "-".join(dict.fromkeys(node.op.split(".")[1] for node in graph.nodes[:3]))
    name = re.sub(r"[^\w.-]+", "_", f"{row.model}-{row.platform}-{packets}-{digest(graph)[:6]}")
    script = f"{name}.py" if made.text else f"{name}{SUFFIX}"
    command = diff_command(script, made.command) if made.command else ""
    summary = Summary(
        title=made.title or title_of(graph, row),
        platform=row.platform,
        verdict=row.word,
        blame=row.blame or "",
        operators=tuple(node.op for node in graph.nodes),
        dtypes=tuple(sorted({given.spec.dtype for given in graph.inputs})),
        signature=signature_of(row),
        nodes=len(finding.before.nodes),
        checks=reduction.checks,
        seconds=round(reduction.seconds, 2),
        complete=reduction.complete,
        short=bool(made.text),
        verified=made.verified,
        script=script,
        status=row.status,
        culprit=row.culprit.op if row.culprit is not None else "",
        origin=row.culprit.label if row.culprit is not None else "",
        special_inputs=finding.special_inputs,
        internal=_only_internal(graph),
        relative=_relative(row),
        stage=finding.stage.stage,
        stage_evidence=finding.stage.evidence,
        runs=made.runs,
        refused=finding.refused,
        condition=finding.condition.phrase,
        right_for=finding.condition.right_for,
        command=command,
        remedy=finding.stage.remedy,
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        if made.text:
            Path(out, script).write_text(made.text)
        else:
            write_case(Path(out, script), name, graph, tensors)
        Path(out, f"{name}.md").write_text(report(graph, row, made, finding.stage, seen, command))
        Path(out, f"{name}.json").write_text(json.dumps(asdict(summary), indent=1) + "\n")
        evidence_file(out, summary.script).write_text(evidence_text(evidence_of(finding)), encoding="utf-8")
        save(graph, Path(out, f"{name}.graph"))
        if reduction.passing is not None:
            save(reduction.passing, Path(out, f"{name}.passing.graph"))
        if finding.condition.natural is not None:
            save(finding.condition.natural, Path(out, f"{name}.natural.graph"))
    except OSError as error:
        raise MindgapError(f"{out}: cannot be written: {error}") from None
    return summary


def _relative(row: Row) -> float | None:
    relative, ulp = row.metrics.get("max_rel"), row.metrics.get("max_ulp")
    return float(relative) if isinstance(relative, (int, float)) and ulp is not None else None  # integers have no ulp


def signature_of(row: Row) -> str:
    """The failure signature of a row, or what becomes of the output that has another shape or dtype."""
    if row.verdict == "structural" and "reference" in row.metrics and "other" in row.metrics:
        sides = row.metrics["reference"], row.metrics["other"]
        return " becomes ".join(sides if row.blame != "reference" else reversed(sides))
    return row.signature if row.word in ("failed", "reference_failed", "unsupported") else ""


def _only_internal(graph: Graph) -> bool:
    """Whether all outputs are results that no public function returns, such as saved statistics."""
    producers = [(number, graph.producer[number]) for number in graph.outputs]
    return bool(producers) and all(
        node >= 0 and number - graph.first_value[node] in traits(graph.nodes[node].op).internal_outputs
        for number, node in producers
    )


def read_summary(file: Path) -> Summary:
    """The summary in a file that `write_finding` wrote."""
    data: dict[str, Any] = json.loads(file.read_text())
    data |= {key: tuple(data[key]) for key in ("operators", "dtypes", "stage_evidence") if key in data}
    data["platform"] = recorded(data["platform"])
    runs: list[dict[str, Any]] = data.get("runs", [])
    data["runs"] = tuple(VersionRun(**each | {"platform": recorded(each["platform"])}) for each in runs)  # pyright: ignore[reportArgumentType] # JSON that `write_finding` wrote
    return Summary(**data)


def summary_text(summary: Summary, out: Path) -> str:
    """The summary in a few lines of text. Its command names the model file as seen from the current directory."""
    verified = "verified twice without mindgap" if summary.verified else "NOT VERIFIED: it does not show the finding"
    if summary.command:
        again = "found again" if summary.verified else "NOT VERIFIED: not found again"
        words = shlex.split(summary.command)
        command = shlex.join(str(out / each) if each == summary.script else each for each in words)
        verified = f"no short script; {again} by\n    {command}"
    runs_text = "".join(f"\n  {run.platform}: {run.shown} ({run.versions})" for run in summary.runs)
    remedy = f"  right with: {summary.remedy}\n" if summary.remedy else ""
    ended = "" if summary.complete else ", ended by its limit"
    spent = f"in {summary.checks} checks, {summary.seconds:.1f} s{ended}"
    return (
        f"{summary.title}\n"
        f"  {summary.nodes} -> {len(summary.operators)} operators {spent}\n"
        f"  stage at fault: {summary.stage}\n{remedy}"
        f"  {out / summary.script}: {verified}{runs_text}"
    )
