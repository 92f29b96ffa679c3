"""Defines a cause: findings with one root cause, with its class and its severity."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Final, Literal, get_args

from mindgap.findings.reduction.files import Summary
from mindgap.graph.compare.verdict import FINDINGS
from mindgap.platforms.name import PlatformName

#: What a user gets: wrong values, NaN or infinity handled wrongly, another shape or dtype, fewer correct bits, an
#: error message, a process that ends, no end.
Damage = Literal["values", "special values", "shape", "precision", "failure", "crash", "hang"]
#: The classes of the paper "Mind the Gap": four for results, four for compilation.
CauseClass = Literal[
    "operator implementation", "exceptional values", "scheduling", "undefined behaviour",
    "stalled", "unsupported", "crash", "code generation",
]  # fmt: skip
Severity = Literal["critical", "high", "medium", "low"]
#: The state of a cause in a ledger: not in it; in it; known and not found again; found after it was gone.
CauseState = Literal["", "new", "known", "gone", "back"]

#: Every word for what kind of cause it is: classes, damages and verdicts.
KINDS: Final[tuple[str, ...]] = tuple(dict.fromkeys((*get_args(CauseClass), *get_args(Damage), *FINDINGS)))
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "high", "medium", "low")


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """What upstream knows of a cause. `link`: the issue; "" where none was looked up. `expires`: then look again."""

    link: str
    note: str = ""
    expires: date | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Findings with one root cause.

    `id`: ten hexadecimal digits, the same in every campaign that finds the cause. `platforms`: all that show it.
    `verdict`, `blame`: of the finding that is shown. `kind`: class of the paper. `severity_reason`: one sentence.
    `stage`: the stage of the platform that is at fault, or `unknown`; `stage_evidence`: sentences that tell so.
    `operators`: overloads of the reduced graphs. `dtypes`: of their inputs. `signature`: of a failure. `rows`: findings
    of the campaign. `cases`: the variants that show it. `upstream`: None where it was not looked up. `findings`: the
    reduced findings, the best script first. A file of an older version has none of the fields from `condition` on.
    """

    id: str
    title: str
    platforms: tuple[PlatformName, ...]
    verdict: str
    blame: str
    damage: Damage
    kind: CauseClass
    severity: Severity
    severity_reason: str
    stage: str
    stage_evidence: tuple[str, ...]
    operators: tuple[str, ...]
    dtypes: tuple[str, ...]
    signature: str
    rows: int
    cases: tuple[str, ...]
    findings: tuple[Summary, ...]
    upstream: KnownIssue | None = None
    state: CauseState = ""
    #: When it happens, in words; "any input" where there is no condition, "" where none was looked for.
    condition: str = ""
    #: Neighbours of the reduced call that give the right result.
    right_for: str = ""
    #: The code at fault: a translation rule, a kernel, a formula.
    mechanism: str = ""
    #: The file of a second reproducer, in the runtime's own format.
    native: str = ""
    #: How wrong the results are, in words with a number.
    error: str = ""
    #: How many counted models meet the condition (`ConditionUse.text`).
    uses: str = ""
    #: The first and the last version of the runtime in which it was seen.
    versions: tuple[str, ...] = ()
    #: For each other cause that was found to have the same mechanism, one sentence: what was run or read.
    merged: tuple[str, ...] = ()

    @property
    def upstream_text(self) -> str:
        """The link to the upstream issue, its note, or `not looked up`."""
        if self.upstream is None:
            return "not looked up"
        return self.upstream.link or self.upstream.note or "not looked up"

    @property
    def verified(self) -> bool:
        """Whether a script of it showed the fault twice without mindgap."""
        return any(finding.verified for finding in self.findings)
