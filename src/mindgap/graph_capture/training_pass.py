"""Runs a kernels-level pass: the program forward, its gradients, a step of an optimiser.

The same code runs under fake tensors for recording, and for real for the check.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

import torch

from mindgap.graph import Constant, Normal, Recipe, Role, Uniform
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.program import HeldTensor, ProgramCopy, differentiable, leaves

#: By name, or what makes one from parameters (for a fused or foreach form, or another kind).
Optimizer = Literal["sgd", "adamw"] | Callable[[list[torch.Tensor]], torch.optim.Optimizer]


@dataclass(frozen=True, slots=True)
class TrainingPass:
    """`backward`: compute gradients; `optimizer`: take a step with it; `arguments`: differentiate these too."""

    backward: bool
    optimizer: Optimizer | None = None
    arguments: bool = True


class MakeTensor(Protocol):
    """Returns a tensor, described by `recipe`, that belongs to the pass and not to the program."""

    def __call__(
        self, role: Role, name: str, recipe: Recipe, shape: tuple[int, ...], dtype: torch.dtype, readable: bool = False
    ) -> torch.Tensor: ...


Named = list[tuple[str, torch.Tensor]]


def run_pass(
    work: TrainingPass, program_copy: ProgramCopy, held: Sequence[tuple[HeldTensor, torch.Tensor]], own: MakeTensor
) -> Named:
    """Runs the pass and returns (label, tensor) of each result.

    The results are what the program returns; with a backward pass, the `loss` and `grad:<name>` of every parameter and
    floating-point argument that it depends on; then the state that an optimiser made. Raises `CaptureError` if no
    output depends on anything that may have a gradient.
    """
    wanted = [(h, t) for h, t in held if differentiable(h) and (work.arguments or h.role == "parameter")]
    if work.backward:
        for _, tensor in wanted:
            tensor.requires_grad_()
    result = program_copy.program(*program_copy.args, **program_copy.kwargs)
    returned = [(path or "output", leaf) for path, leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
    if not work.backward:
        return returned
    loss = _loss([(path, leaf) for path, leaf in returned if leaf.requires_grad], own)
    grads: Any = torch.autograd.grad(loss, [t for _, t in wanted], allow_unused=True)  # None where it is unused
    slopes = [(h, t, g) for (h, t), g in zip(wanted, grads, strict=True) if g is not None]
    gradients = [(f"grad:{h.name}", g) for h, _, g in slopes]
    made: Named = []
    if work.optimizer is not None:
        made = _step(work.optimizer, [(h.name, t, g) for h, t, g in slopes if h.role == "parameter"], own)
    return [*returned, ("loss", loss), *gradients, *made]


def _loss(roots: Named, own: MakeTensor) -> torch.Tensor:
    """Returns Σ weight·output, with weights uniform in [-1, 1).

    With weights of 1, the gradient of a softmax or of a normalisation would be zero but for rounding.
    """
    loss: torch.Tensor | None = None
    for number, (path, root) in enumerate(roots):
        real = torch.view_as_real(root.resolve_conj()) if root.is_complex() else root
        recipe = Uniform(_seed(f"loss.{number}"), -1.0, 1.0)
        weight = own("constant", f"loss.weight.{number}.{path}", recipe, tuple(real.shape), real.dtype)
        part = (real * weight).sum()
        loss = part if loss is None else loss + part
    if loss is None:
        raise CaptureError("no output of the program has a gradient, so that it has no backward pass")
    return loss


def _step(optimizer: Optimizer, slopes: Sequence[tuple[str, torch.Tensor, torch.Tensor]], own: MakeTensor) -> Named:
    """Takes one step on the parameters, in place. Returns the state tensors that the optimiser made."""
    if not slopes:
        raise CaptureError("no parameter has a gradient: an optimiser has nothing to step")
    parameters = [parameter for _, parameter, _ in slopes]
    chosen = _OPTIMIZERS[optimizer](parameters) if isinstance(optimizer, str) else optimizer(parameters)
    state: Any = chosen.state
    given: set[int] = set()
    for name, parameter, gradient in slopes:
        parameter.grad = gradient.detach()
        if isinstance(optimizer, str):
            state[parameter] = _STATES[optimizer](f"state.{name}", parameter, own)
            given.update(id(one) for one in state[parameter].values())
    chosen.step()
    return [
        (f"state.{name}.{key}", one)
        for name, parameter, _ in slopes
        for key, one in state[parameter].items()
        if isinstance(one, torch.Tensor) and id(one) not in given
    ]


def _sgd(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, weight_decay=1e-4, foreach=False, fused=False)


def _adamw(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, foreach=False, fused=False)


def _sgd_state(name: str, parameter: torch.Tensor, own: MakeTensor) -> dict[str, torch.Tensor]:
    return {"momentum_buffer": _state(own, f"{name}.momentum_buffer", Normal, parameter, 0.0, 0.01)}


def _adamw_state(name: str, parameter: torch.Tensor, own: MakeTensor) -> dict[str, torch.Tensor]:
    """Returns the state after a first step: a step count of 1, a mean and a mean square of gradients."""
    return {
        "step": own("buffer", f"{name}.step", Constant(1.0), (), torch.float32, readable=True),
        "exp_avg": _state(own, f"{name}.exp_avg", Normal, parameter, 0.0, 0.01),
        "exp_avg_sq": _state(own, f"{name}.exp_avg_sq", Uniform, parameter, 1e-6, 1e-3),
    }


def _state(
    own: MakeTensor, name: str, kind: type[Normal | Uniform], like: torch.Tensor, a: float, b: float
) -> torch.Tensor:
    return own("buffer", name, kind(_seed(name), a, b), tuple(like.shape), like.dtype)


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())


_OPTIMIZERS: Final = {"sgd": _sgd, "adamw": _adamw}
_STATES: Final = {"sgd": _sgd_state, "adamw": _adamw_state}
