"""Operators whose sums are split among threads: reductions, long products, weight gradients (Figure 2)."""

# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false, reportUnknownArgumentType=false
# (torch is typed in parts only)

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from mindgap.graph import TensorStore
from mindgap.graph_capture import capture
from mindgap_studies.machines.models.initial_weights import uniform
from mindgap_studies.machines.subjects.runnable import Runnable, runnable

_LONG: Final = (1 << 20,)


#: Name -> program, shapes of its arguments, whether the gradients of all arguments are results too.
_OPERATORS: Final[dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], bool]]] = {
    "sum": (torch.sum, (_LONG,), False),
    "sum_rows": (lambda x: torch.sum(x, 1), ((256, 4096),), False),
    "prod": (lambda x: torch.prod(1.0 + x * 2.0**-10), (_LONG,), False),
    "std": (torch.std, (_LONG,), False),
    "norm": (lambda x: torch.linalg.vector_norm(x), (_LONG,), False),
    "dot": (torch.dot, (_LONG, _LONG), False),
    "cumsum": (lambda x: torch.cumsum(x, 0), (_LONG,), False),
    "logsumexp": (lambda x: torch.logsumexp(x, 0), (_LONG,), False),
    "mm": (torch.mm, ((256, 256), (256, 256)), False),
    "mm_long": (torch.mm, ((8, 1 << 17), (1 << 17, 8)), False),
    "fft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), ((1 << 16,),), False),
    "svdvals": (torch.linalg.svdvals, ((96, 96),), False),
    "softmax": (lambda x: torch.softmax(x, 1), ((256, 4096),), False),
    "gelu": (torch.nn.functional.gelu, ((256, 4096),), False),
    "conv2d_gradients": (
        lambda x, w, b: torch.conv2d(x, w, b, padding=1), ((8, 16, 32, 32), (16, 16, 3, 3), (16,)), True
    ),
    "linear_gradients": (
        lambda x, w, b: torch.nn.functional.linear(x, w, b), ((512, 256), (128, 256), (128,)), True
    ),
    "layer_norm_gradients": (
        lambda x, w, b: torch.layer_norm(x, (256,), w, b), ((512, 256), (256,), (256,)), True
    ),
}  # fmt: skip


def operators(store: TensorStore) -> Iterator[Runnable]:
    """Yields one subject per operator; arguments are uniform in [−1, 1)."""
    for seed, (name, (program, shapes, grad)) in enumerate(_OPERATORS.items()):
        arguments = [torch.from_numpy(uniform(s, 1.0, 100 * seed + i)) for i, s in enumerate(shapes)]
        if grad:
            for each in arguments:
                each.requires_grad_()
        graph = capture(program, arguments, tensors=store, grad=grad)
        yield runnable(f"operator/{name}", "operators", graph, {"operator": name}, groups=("tiers", "float32"))
