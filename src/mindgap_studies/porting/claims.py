"""Checks statements of The Grand Illusion (arXiv 2309.07181) on the data of a study.

A share on a target is above or below the paper's figure where its 95 % interval (Wilson) is, else it is the same within
the interval. A statement holds (`yes`) where no target's share is below the figure, and does not (`no`) where all are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from mindgap_studies.porting.slowdown import INTOLERABLE, RATIOS
from mindgap_studies.results.ported_functions import Estimator, FunctionCell, PortingStudy
from mindgap_surveys.shares import Share, wilson

#: Whether a statement holds: `no data` where it cannot be checked.
Holds = Literal["yes", "no", "on some targets", "not determined", "no data"]


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper. paper: its figure. here: the shares of this study, with their intervals; empty where it
    has none."""

    statement: str
    paper: str
    here: str
    holds: Holds


def check_claims(study: PortingStudy) -> list[Claim]:
    slower = " are more than 10 times slower on the target, by means of first calls (the paper's estimator)"
    very_slow = slower_shares(study, "pytorch", INTOLERABLE, "paper's")
    by_medians = slower_shares(study, "pytorch", INTOLERABLE, "medians")
    jax_faster = {t: wilson(s.of - s.count, s.of) for t, s in slower_shares(study, "jax", 1.0, "paper's").items()}
    return [
        _most_lost(study),
        _figure("of PyTorch's functions fail partly or completely on a target", 44, " (TPU)",
                lost_shares(study, "pytorch")),
        _figure("of TensorFlow's functions fail partly or completely on a target", 22, " (GPU)",
                lost_shares(study, "tensorflow")),
        _figure(f"of PyTorch's functions{slower}", 81.4, "", very_slow),
        _figure("of PyTorch's functions are more than 10 times slower, by medians of first calls", 76.7, "",
                by_medians),
        _means_or_medians(study),
        _figure("of JAX's functions are not slower on the target, by means of first calls (the paper's estimator)",
                91.8, " (TPU)", jax_faster),
        _figure("of TensorFlow's functions are slower on the target, by means of first calls (the paper's estimator)",
                98, "", slower_shares(study, "tensorflow", 1.0, "paper's")),
        _figure(f"of TensorFlow's functions{slower}", 17.6, "",
                slower_shares(study, "tensorflow", INTOLERABLE, "paper's")),
    ]  # fmt: skip


def lost_share(cells: Iterable[FunctionCell]) -> Share | None:
    """Returns the share of functions that fail partly or completely, of those whose values were compared; None where
    none was."""
    words = [cell.word for cell in cells if cell.word not in ("form only", "not compared")]
    return wilson(sum(word != "success" for word in words), len(words)) if words else None


def lost_shares(study: PortingStudy, framework: str) -> dict[str, Share]:
    """Returns `lost_share` by target."""
    found = {target: lost_share(study.of(framework, target)) for target in _targets(study, framework)}
    return {target: share for target, share in found.items() if share is not None}


def slower_shares(study: PortingStudy, framework: str, limit: float, estimator: Estimator) -> dict[str, Share]:
    """Returns by target the share of measured functions that are more than `limit` times slower than on the source."""
    found: dict[str, Share] = {}
    for target in _targets(study, framework):
        ratios = [RATIOS[estimator](each) for each in study.latencies(framework, target)]
        if ratios:
            found[target] = wilson(sum(ratio > limit for ratio in ratios), len(ratios))
    return found


def _targets(study: PortingStudy, framework: str) -> list[str]:
    return study.draws[framework].available if framework in study.draws else []


def _text(where: str, share: Share) -> str:
    return f"{where} {100 * share.value:.0f} % ({100 * share.low:.0f}–{100 * share.high:.0f})"


def _figure(statement: str, per_cent: float, where: str, shares: dict[str, Share]) -> Claim:
    """Checks a statement that a share of functions is `per_cent` on a target."""
    here = ", ".join(_text(target, share) for target, share in shares.items())
    below = [share.high < per_cent / 100 for share in shares.values()]
    return Claim(f"{per_cent:g} % {statement}", f"{per_cent:g} %{where}", here, _holds(below))


def _holds(below: Sequence[bool]) -> Holds:
    if not below:
        return "no data"
    return "no" if all(below) else "on some targets" if any(below) else "yes"


def _most_lost(study: PortingStudy) -> Claim:
    lost = {name: shares for name in study.draws if (shares := lost_shares(study, name))}
    worst = {name: max(shares.items(), key=lambda each: each[1].value) for name, shares in lost.items()}
    here = "; ".join(f"{name}: {_text(target, share)}" for name, (target, share) in worst.items())
    every = [share for shares in lost.values() for share in shares.values()]
    holds: Holds = "no data"
    if every:
        above, below = any(share.low > 0.4 for share in every), all(share.high < 0.4 for share in every)
        holds = "yes" if above else "no" if below else "not determined"
    return Claim("A framework can lose over 40 % of its key functions on another target", "over 40 %", here, holds)


def _means_or_medians(study: PortingStudy) -> Claim:
    """The paper's two figures, by means and by medians of first calls, differ by 4.7 points."""
    moves: dict[str, float] = {}
    for name in study.draws:
        means, medians = (slower_shares(study, name, INTOLERABLE, each) for each in ("paper's", "medians"))
        moves |= {f"{name} {t}": abs(medians[t].value - share.value) for t, share in means.items()}
    worst = sorted(moves.items(), key=lambda each: -each[1])[:3]
    here = ", ".join(f"{where} by {100 * move:.0f} points" for where, move in worst)
    return Claim(
        "Medians of first calls for means move the share beyond 10 times by 5 points at most", "81.4 to 76.7 %", here,
        _holds([move > 0.05 for move in moves.values()]),
    )  # fmt: skip
