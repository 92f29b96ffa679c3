"""Activation functions and their gradients."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

ACTIVATIONS = family(
    "activations",
    ("sigmoid tanh", Traits(complex_intermediates="exponential")),
    ("gelu glu mish silu softplus", Traits(intermediates="elementwise")),
    ("log_sigmoid_forward", Traits(internal_outputs=(1,))),
    ("relu", Traits(moves_data=True, non_smooth="bent")),
    ("hardswish", Traits(non_smooth="bent", intermediates="elementwise")),
    ("hardsigmoid hardtanh relu6 softshrink", Traits(non_smooth="bent")),
    (
        "hardshrink_backward hardsigmoid_backward hardswish_backward hardtanh_backward leaky_relu_backward "
        "softshrink_backward threshold_backward",
        Traits(non_smooth="jumps", jumps_at=1),
    ),
    ("hardshrink threshold", Traits(non_smooth="jumps")),
    (
        "_prelu_kernel _prelu_kernel_backward celu elu elu_backward gelu_backward glu_backward leaky_relu "
        "log_sigmoid log_sigmoid_backward logit logit_backward mish_backward prelu selu "
        "sigmoid_backward silu_backward softplus_backward special_expit tanh_backward",
        Traits(),
    ),
)
