"""Concludes a dtype policy from a sample of a large graph's calls.

A platform that declares that it computes sums of products in bfloat16 does so at every product of a model, and running
each of them alone takes longer than all else. The evidence of a sample is weaker, so three things must hold: every
operator of the sample that errs is explained by the policy, the reference errs in none of them, and so are the
outputs, held against the whole graph computed in the dtype of the policy. Where one does not hold, all nodes are run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindgap.judge.oracle import Examined
from mindgap.judge.trace.dtype_policy import Explanation
from mindgap.judge.trace.independent_faults import IndependentFault
from mindgap.judge.trace.single_operators import Confirmed, SingleOperators
from mindgap.judge.trace.subgraphs import Array
from mindgap.platforms.name import PlatformName


@dataclass(frozen=True)
class SampledPolicy:
    """A policy as a fault, whose nodes are those of the sample that err. `extent`: how many nodes were run."""

    fault: IndependentFault
    extent: str


def policy_by_sample(
    singles: SingleOperators, explanations: Sequence[Explanation], sides: tuple[PlatformName, PlatformName],
    public: tuple[list[Examined], list[Examined]], runs: Sequence[Sequence[Array]], shown: Sequence[bool],
) -> SampledPolicy | None:  # fmt: skip
    """The policy that explains all that a platform gives for a large graph; None where a sample does not decide that.

    `explanations`: of the policies that the platform declares. `sides`: the platform and the reference. `public`: what
    the oracle finds of the outputs of either. `runs`: the platform's outputs, in each repetition. `shown`: which
    outputs are public.
    """
    platform, mine, theirs = sides[0], *public
    beyond = any(one.kind == "discrepant" for one in mine) and all(one.kind in ("calm", "discrepant") for one in mine)
    if not explanations or not beyond or any(one.kind != "calm" for one in theirs):
        return None
    sample = singles.sampled()
    if sample is None:
        return None
    # Right numbers in another dtype change no output.
    own, other = ([one for one in sample.own(*each) if not one.retyped] for each in (sides, sides[::-1]))
    if not own or other or any(one.internal for one in own):
        return None
    for explanation in explanations:
        if explanation.beyond(own, platform):
            continue
        first = _wrong_alone(sample, own, platform)
        if first is not None and all(explanation.outputs(run, shown) for run in runs):
            nodes = tuple(node for one in own for node in one.nodes)
            few = f"{len(sample.nodes)} of {len(singles.nodes)} nodes"
            extent = f"{few} were run alone, the first and the last of each distinct call"
            return SampledPolicy(IndependentFault(first, platform, nodes, explanation.policy), extent)
    return None


def _wrong_alone(sample: SingleOperators, own: Sequence[Confirmed], platform: PlatformName) -> Confirmed | None:
    """The first operator that is wrong in a separate job as well."""
    return next((one for one in own[:2] if sample.holds_alone(one, platform)), None)
