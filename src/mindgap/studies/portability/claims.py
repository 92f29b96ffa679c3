"""Checks statements of The Grand Illusion (arXiv 2309.07181) on the data of a study.

A statement holds here where its figure is reached on a target at least.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mindgap.results.ported_functions import PortingStudy
from mindgap.studies.portability.slowdown import paper_estimate, steady

_INTOLERABLE: Final = 10.0


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of the paper. paper: its figure. here: the figure of this study, empty where it has none.
    holds: None where it cannot be checked."""

    statement: str
    paper: str
    here: str
    holds: bool | None


def check_claims(study: PortingStudy) -> list[Claim]:
    """Checks all statements."""
    return [check(study) for check in _CHECKS]


def _shares(study: PortingStudy, framework: str, share: Callable[[str], float | None]) -> dict[str, float]:
    """A figure by target, of targets that are available and have it."""
    if framework not in study.draws:
        return {}
    targets = [target for target, why in study.draws[framework].targets.items() if not why]
    found = {target: share(target) for target in targets}
    return {target: value for target, value in found.items() if value is not None}


def lost_shares(study: PortingStudy, framework: str) -> dict[str, float]:
    """Returns by target the share of functions that fail partly or completely."""

    def share(target: str) -> float | None:
        words = [cell.word for cell in study.of(framework, target) if cell.word != "not compared"]
        return sum(word != "success" for word in words) / len(words) if words else None

    return _shares(study, framework, share)


def slower_shares(study: PortingStudy, framework: str, limit: float, *, paper: bool) -> dict[str, float]:
    """Returns by target the share of measured functions that are more than `limit` times slower than on the source.

    `paper`: by the paper's estimator, else by calls after the first.
    """

    def share(target: str) -> float | None:
        latencies = [cell.latency for cell in study.of(framework, target) if cell.latency is not None]
        ratios = [paper_estimate(each) if paper else steady(each).value for each in latencies]
        return sum(ratio > limit for ratio in ratios) / len(ratios) if ratios else None

    return _shares(study, framework, share)


def _by_target(shares: dict[str, float]) -> str:
    return ", ".join(f"{target} {100 * share:.0f} %" for target, share in shares.items())


def _most_lost(study: PortingStudy) -> Claim:
    worst = {
        name: max(shares.items(), key=lambda each: each[1])
        for name in study.draws
        if (shares := lost_shares(study, name))
    }
    here = "; ".join(f"{name}: {100 * share:.0f} % on {target}" for name, (target, share) in worst.items())
    holds = any(share > 0.4 for _, share in worst.values()) if worst else None
    return Claim("A framework can lose over 40 % of its key functions on another target", "over 40 %", here, holds)


def _pytorch_lost(study: PortingStudy) -> Claim:
    shares = lost_shares(study, "pytorch")
    holds = max(shares.values()) >= 0.44 if shares else None
    return Claim(
        "44 % of PyTorch's functions fail partly or completely on a target", "44 % (TPU)", _by_target(shares),
        holds,
    )  # fmt: skip


def _tensorflow_lost(study: PortingStudy) -> Claim:
    shares = lost_shares(study, "tensorflow")
    holds = max(shares.values()) >= 0.22 if shares else None
    return Claim(
        "22 % of TensorFlow's functions fail partly or completely on a target", "22 % (GPU)", _by_target(shares), holds,
    )  # fmt: skip


def _pytorch_slow(study: PortingStudy) -> Claim:
    shares = slower_shares(study, "pytorch", _INTOLERABLE, paper=True)
    holds = max(shares.values()) >= 0.814 if shares else None
    return Claim(
        "81.4 % of PyTorch's functions are more than 10 times slower on the target (paper's estimator)", "81.4 %",
        _by_target(shares), holds,
    )  # fmt: skip


def _pytorch_slow_steady(study: PortingStudy) -> Claim:
    shares = slower_shares(study, "pytorch", _INTOLERABLE, paper=False)
    holds = max(shares.values()) >= 0.767 if shares else None
    return Claim(
        "76.7 % of PyTorch's functions are more than 10 times slower by medians (here: by calls after the first)",
        "76.7 %", _by_target(shares), holds,
    )  # fmt: skip


def _first_calls_decide(study: PortingStudy) -> Claim:
    """The paper's two figures, by means and by medians, differ by 4.7 points; both count first calls."""
    moves: dict[str, float] = {}
    for name in study.draws:
        by_paper = slower_shares(study, name, _INTOLERABLE, paper=True)
        by_later = slower_shares(study, name, _INTOLERABLE, paper=False)
        moves |= {f"{name} {target}": share - by_later[target] for target, share in by_paper.items()}
    worst = sorted(moves.items(), key=lambda each: -abs(each[1]))[:3]
    here = ", ".join(f"{where} by {100 * move:.0f} points" for where, move in worst)
    holds = all(abs(move) <= 0.05 for move in moves.values()) if moves else None
    return Claim(
        "How time is estimated moves the share beyond 10 times by 5 points at most (here: with and without the first "
        "call)", "81.4 to 76.7 %", here, holds,
    )  # fmt: skip


def _jax_fast(study: PortingStudy) -> Claim:
    shares = {target: 1 - s for target, s in slower_shares(study, "jax", 1.0, paper=False).items()}
    holds = max(shares.values()) >= 0.918 if shares else None
    return Claim("91.8 % of JAX's functions are faster on the target", "91.8 % (TPU)", _by_target(shares), holds)


def _tensorflow_slow(study: PortingStudy) -> Claim:
    shares = slower_shares(study, "tensorflow", 1.0, paper=True)
    holds = max(shares.values()) >= 0.98 if shares else None
    return Claim(
        "98 % of TensorFlow's functions are slower on the target (paper's estimator)", "98 %", _by_target(shares),
        holds,
    )  # fmt: skip


def _tensorflow_very_slow(study: PortingStudy) -> Claim:
    shares = slower_shares(study, "tensorflow", _INTOLERABLE, paper=True)
    holds = max(shares.values()) >= 0.176 if shares else None
    return Claim(
        "17.6 % of TensorFlow's functions are more than 10 times slower (paper's estimator)", "17.6 %",
        _by_target(shares), holds,
    )  # fmt: skip


_CHECKS: Final = (
    _most_lost, _pytorch_lost, _tensorflow_lost, _pytorch_slow, _pytorch_slow_steady, _first_calls_decide, _jax_fast,
    _tensorflow_slow, _tensorflow_very_slow,
)  # fmt: skip
