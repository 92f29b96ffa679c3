"""Random numbers, and operators that drop or scale elements at random."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

RANDOM = family(
    "random",
    ("_fused_dropout native_dropout rrelu_with_noise_functional", Traits(internal_outputs=(1,))),
    ("multinomial", Traits(random=True, free_outputs=(0,))),
    (
        "bernoulli cauchy exponential geometric log_normal normal poisson rand rand_like randint randint_like "
        "randn randn_like random randperm uniform",
        Traits(random=True),
    ),
    (
        "alpha_dropout dropout feature_alpha_dropout feature_dropout native_dropout_backward rrelu "
        "rrelu_with_noise rrelu_with_noise_backward",
        Traits(),
    ),
)
