"""Compares the log-probabilities of a server with those of a local model, place by place.

Both sides have the same tokens before a place: those that the server chose. A place is beyond rounding where one of
its log-probabilities is further from the model's, in float64 and with the rounding of its dtype, than the oracle's
limit (16 σ), or all together are (root mean square, in σ) than in any replay, at any place of the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.judge.oracle.examination import SIGMAS
from mindgap_surveys.servers.local_model import LocalText
from mindgap_surveys.servers.served_texts import How, Place, ServedText


@dataclass(frozen=True, slots=True)
class ComparedPlace:
    """The log-probabilities after one token. index, how: as of `Place`.

    compared: how many. exact, stepwise: the largest distance from the model in float64, and in its dtype. ratio: of
    the distance from the nearer one to how far rounding leads. limit: how far that is, there.
    other_token: the server chose a token that rounding does not make the likeliest.
    """

    index: int
    how: How
    compared: int
    exact: float
    stepwise: float
    limit: float
    ratio: float
    other_token: bool

    @property
    def beyond(self) -> bool:
        return self.ratio > 1


@dataclass(frozen=True, slots=True)
class ComparedText:
    served: ServedText
    places: tuple[ComparedPlace, ...]

    @property
    def verdict(self) -> Literal["rounding", "beyond", "other token"]:
        """`beyond` outweighs another token: the server cannot be expected to choose the same one."""
        if any(each.beyond for each in self.places):
            return "beyond"
        return "other token" if any(each.other_token for each in self.places) else "rounding"

    @property
    def first(self) -> ComparedPlace | None:
        """The place of the fewest tokens that is beyond rounding, or where another token was chosen."""
        wrong = [each for each in self.places if each.beyond or (each.other_token and self.verdict != "beyond")]
        return min(wrong, key=lambda each: each.index, default=None)


def compared(
    served: ServedText, local: LocalText, step: float, moved: int = 0, first_tokens: bool = True
) -> ComparedText:  # fmt: skip
    """`step`: between numbers that the server prints. `moved`: tokens that the prompt has in `local` and not here.
    `first_tokens`: with these places."""
    places = [each for each in served.places if each.logprobs and (first_tokens or each.how != "first tokens")]
    if not places:
        raise MindgapError(f"{served.prompt!r}: the server names no token by a name that one token alone has here")
    largest, words = max(one for each in served.places for one in each.logprobs), local.exact.shape[1]
    if largest >= words:
        raise MindgapError(f"the server names token {largest}, and the local model has {words} tokens")
    sigma = (local.limit + step / 2) / SIGMAS
    noise = max(_noise(local, sigma, each, moved) for each in places)
    made = [_place(each, local, sigma, noise, moved) for each in places]
    return ComparedText(served, tuple(sorted(made, key=lambda each: each.index)))


def _place(place: Place, local: LocalText, sigma: Array, noise: float, moved: int) -> ComparedPlace:
    row, (tokens, got) = place.index + moved, place.arrays
    exact, stepwise = (np.abs(got - side[row][tokens]) for side in (local.exact, local.stepwise))
    nearer, own = np.minimum(exact, stepwise), sigma[row][tokens]
    ratio = max(float((nearer / own).max()) / SIGMAS, min(_size(exact / own), _size(stepwise / own)) / noise)
    best = int(np.argmax(local.exact[row]))
    chosen = best if place.chosen is None else place.chosen
    other = local.exact[row][best] - local.exact[row][chosen] > SIGMAS * (sigma[row][best] + sigma[row][chosen])
    limit = float(nearer.max()) / ratio if ratio else 0.0
    return ComparedPlace(
        place.index, place.how, len(tokens), float(exact.max()), float(stepwise.max()), limit, ratio, bool(other)
    )


def _noise(local: LocalText, sigma: Array, place: Place, moved: int) -> float:
    """The largest root mean square, in σ, of the errors of a replay at a place."""
    row, (tokens, _) = place.index + moved, place.arrays
    return max(map(_size, (local.replays[:, row][:, tokens] - local.stepwise[row][tokens]) / sigma[row][tokens]))


def _size(values: Array) -> float:
    return float(np.sqrt(np.square(values).mean()))


def root_mean_square(places: Sequence[Place], logprobs: Array, others: Array | None = None, moved: int = 0) -> float:
    """Of the differences between a model's log-probabilities, [tokens, vocabulary], and the server's at places, or
    `others`."""
    differences: list[Array] = []
    for each in places:
        tokens, got = each.arrays
        got = got if others is None else others[each.index][tokens]
        differences.append(logprobs[each.index + moved][tokens] - got)
    return _size(np.concatenate(differences))
