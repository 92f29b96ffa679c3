"""Captures a program at the level of kernels: the calls that the ATen dispatcher gives a backend below autograd."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mindgap.aten.torch_private.fake_tensors import FakeTensorMode
from mindgap.graph import Graph, Recipe, Role
from mindgap.graph.tensors import TensorStore, default_tensor_store
from mindgap.graph_capture.assemble import Weights, assemble
from mindgap.graph_capture.errors import CaptureError, UnprovenCapture
from mindgap.graph_capture.kernel_recorder import KernelRecorder, KernelReplayMode
from mindgap.graph_capture.neutral_settings import neutral_kernel_settings
from mindgap.graph_capture.origin import current_origin
from mindgap.graph_capture.program import module_paths, modules_of
from mindgap.graph_capture.quantised_modules import quantised_modules
from mindgap.graph_capture.recording import CallRecording
from mindgap.graph_capture.replay_check import CheckSubject, PreparedRun, Run, Verify, checked
from mindgap.graph_capture.tracing import fake_program, run_traced
from mindgap.graph_capture.training_pass import Optimizer, TrainingPass, run_pass
from mindgap.graph_capture.users_code import blamed
from mindgap.graph_capture.wrappers import tell_compiled, unwrapped

#: Autograd's message when a program writes to an argument that is to have a gradient.
_WRITTEN_LEAF = "leaf Variable that requires grad"


def capture_kernels(
    program: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    tensors: TensorStore | None = None,
    name: str = "",
    weights: Weights = "stored",
    backward: bool = False,
    optimizer: Optimizer | None = None,
    verify: Verify = True,
) -> Graph:
    """Captures the kernels-level graph of `program(*args, **kwargs)`: composite operators decomposed, gradients as
    calls.

    `backward`: the output `loss` is the sum of products of the floating-point outputs with fixed seeded weights. The
    gradients of parameters and floating-point arguments that the loss depends on are outputs, labelled `grad:<name>`
    (of parameters only, if the program writes to its arguments). `optimizer`: a whole training step, `backward`
    included. "sgd" (momentum 0.9, weight decay 1e-4) and "adamw" (PyTorch's defaults) start from seeded state, inputs
    `state.<name>.<key>`. A function from parameters to another optimiser starts without state. Parameters and state
    that the step writes to are outputs, as is everything that the program writes to.

    Inputs, weights, labels and the check are as for `capture`. Every operator of the graph exists on every device.
    Fused attention and operators of one library are off while the program runs, and refused by name if one is called.
    Raises `CaptureError`. Warns `UnprovenCapture` if the replay on two inputs is skipped (see `capture`).
    """
    if isinstance(optimizer, str) and optimizer not in ("sgd", "adamw"):
        raise CaptureError(f"optimizer {optimizer!r}: sgd, adamw, or a function from parameters to an optimiser")
    store = tensors if tensors is not None or weights == "seeded" else default_tensor_store()
    work = TrainingPass(backward or optimizer is not None, optimizer)
    call = (unwrapped(program), args, kwargs or {})
    tell_compiled(call[0])
    if any(quantised_modules(root) for _, root in modules_of(call[0])):
        raise CaptureError("it holds quantised modules, which have no gradient; capture it without a backward pass")
    with neutral_kernel_settings(work.backward):
        work, recorded, returned = _traced(work, *call)
        graph, sources = assemble(recorded, returned, store, weights, name)
        subject = CheckSubject(graph, sources, len(returned), *call, run=_replay_with(work))
        with blamed(*call):
            graph, unproven = checked(subject, verify)
    if unproven:
        warnings.warn(unproven, UnprovenCapture, stacklevel=2)
    return graph


_Traced = tuple[TrainingPass, CallRecording, list[tuple[str, int]]]


def _traced(work: TrainingPass, program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Traced:
    try:
        return _trace(work, program, args, kwargs)
    except CaptureError as error:
        if not work.backward or _WRITTEN_LEAF not in error.reason:
            raise
        return _trace(dataclasses.replace(work, arguments=False), program, args, kwargs)


def _trace(work: TrainingPass, program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Traced:
    """Returns the pass, the recording, and (label, value number) of each resulting tensor."""
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    copied, fakes = fake_program(program, args, kwargs, fake_mode)
    paths = module_paths(copied.program)
    recorder = KernelRecorder(fake_mode, lambda: current_origin(paths))
    values = recorder.values
    for held, fake in fakes:
        values.add_input(held.tensor.detach(), fake, held.role, held.name)
    with blamed(program, args, kwargs):
        named = run_traced(lambda: run_pass(work, copied, fakes, values.made), fake_mode, recorder)
    with fake_mode:
        return work, values.recorded, [(label, values.number(tensor)) for label, tensor in named]


def _replay_with(work: TrainingPass) -> Run:
    """Returns a function that runs the same pass for real, on the graph's inputs."""

    def run(ready: PreparedRun) -> list[torch.Tensor]:
        def own(
            role: Role, name: str, recipe: Recipe, shape: tuple[int, ...], dtype: torch.dtype, readable: bool = False
        ) -> torch.Tensor:
            made = ready.made.get(name)
            if made is None or tuple(made.shape) != shape or made.dtype != dtype:
                raise CaptureError(f"the program returns other tensors than when it was captured ({name})")
            return made

        with KernelReplayMode(ready.pool):
            return [tensor for _, tensor in run_pass(work, ready.copied, ready.held, own)]

    return run
