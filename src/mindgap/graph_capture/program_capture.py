"""Captures a program at the level of its calls (`capture`), the entry point of this package."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from mindgap.aten.torch_private.fake_tensors import FakeTensorMode
from mindgap.aten.torch_private.pre_dispatch import run_under_pre_dispatch
from mindgap.graph import Graph
from mindgap.graph.decisions import path_words
from mindgap.graph.tensors import TensorStore, default_tensor_store
from mindgap.graph_capture.assemble import Weights, assemble
from mindgap.graph_capture.control_flow import followed
from mindgap.graph_capture.errors import CaptureError, PathTaken, UnprovenCapture, WrongDeclaration
from mindgap.graph_capture.kernels import Optimizer, capture_kernels
from mindgap.graph_capture.neutral_settings import neutral_settings
from mindgap.graph_capture.operator_declarations import declaration_faults
from mindgap.graph_capture.program import differentiable, leaves, module_paths
from mindgap.graph_capture.quantised_modules import plain_program
from mindgap.graph_capture.recorder import Recorder
from mindgap.graph_capture.recording import CallRecording, RecordedInput
from mindgap.graph_capture.replay_check import CheckSubject, Verify, checked, run_calls
from mindgap.graph_capture.tracing import fake_program, run_traced
from mindgap.graph_capture.unwritten_memory import refuse_unwritten_reads
from mindgap.graph_capture.users_code import blamed
from mindgap.graph_capture.wrappers import tell_compiled, unwrapped

__all__ = ["UnprovenCapture", "Weights", "capture"]


def capture(
    program: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    tensors: TensorStore | None = None,
    name: str = "",
    weights: Weights = "stored",
    verify: Verify = True,
    grad: bool | Sequence[str] = False,
    backward: bool = False,
    optimizer: Optimizer | None = None,
    path_taken: bool = False,
) -> Graph:
    """Captures the calls-level graph of `program(*args, **kwargs)`; with `backward` or `optimizer`, the kernels-level
    one.

    Inputs of the graph are, in order: the tensors among the arguments (role `input`, all of them), the parameters and
    buffers that are used, constants, drawn tensors. Outputs are the tensors that the program returns, then every input
    that it wrote to. `weights`: "stored" keeps the bytes of parameters, buffers and arguments in `tensors` (by default
    the user's store); "seeded" describes them by seeded recipes with similar statistics. `name` is a prefix of the
    labels of parameters. The program runs without gradients, and its state is left as it was.

    `grad` makes the torch platforms also run the graph's backward pass through autograd: True for every parameter that
    requires a gradient and every floating-point argument, or a list of their names. This is the gradient of the graph.
    A region under `no_grad` inside the program has gradients here; `backward` keeps such regions. `backward`,
    `optimizer`: see `capture_kernels`.

    `path_taken`: where Python code decides by a value (`if x.sum() > 0`, `.item()`, `.tolist()`), and where a size
    depends on data (`x[x > 0]`), the graph holds the path that these arguments take. Each value that decides is an
    separate output behind the others, and `Labels.decisions` has what it decided. What `torch.cond` and
    `while_loop` decide is recorded in any case. Warns `PathTaken`.

    Raises `CaptureError`, with the reason and the user's line, if the program cannot be captured or replays
    differently. Warns `UnprovenCapture` if the replay on two inputs is skipped: for tensors on the meta device, and if
    `verify` is False or returns False for the traced graph.
    """
    if backward or optimizer is not None:
        if path_taken:
            raise CaptureError("path_taken= is for graphs of calls; capture it without a backward pass")
        if grad:
            raise CaptureError("grad= is for graphs of calls; a graph with backward=True has its gradients already")
        return capture_kernels(
            program, args, kwargs, tensors=tensors, name=name, weights=weights, backward=backward,
            optimizer=optimizer, verify=verify,
        )  # fmt: skip
    store = tensors if tensors is not None or weights == "seeded" else default_tensor_store()
    program = unwrapped(program)
    tell_compiled(program)
    program = plain_program(program, args, kwargs or {})
    with neutral_settings():
        recorded, returned, able = _trace(program, args, kwargs or {}, path_taken)
        graph, sources = assemble(recorded, returned, store, weights, name)
        run = partial(run_calls, reads=recorded.reads) if recorded.decisions else run_calls
        subject = CheckSubject(graph, sources, len(returned), program, args, kwargs or {}, run)
        if verify is not False:
            refuse_unwritten_reads(graph, program, args, kwargs or {})
        with blamed(program, args, kwargs or {}):
            graph, unproven = checked(subject, verify)
        checks = recorded.custom and verify is not False
        faults = declaration_faults(program, args, kwargs or {}) if checks else []
    for fault in faults:
        warnings.warn(fault.words, WrongDeclaration, stacklevel=2)
    if unproven:
        warnings.warn(unproven, UnprovenCapture, stacklevel=2)
    if graph.labels.decisions:
        warnings.warn(path_words(graph.labels.decisions), PathTaken, stacklevel=2)
    return dataclasses.replace(graph, grad=_grad_inputs(grad, sources, able)) if grad else graph


def _trace(
    program: Any, args: Sequence[Any], kwargs: Mapping[str, Any], path_taken: bool
) -> tuple[CallRecording, list[tuple[str, int]], set[tuple[str, str]]]:
    """Records the program under fake tensors.

    Returns the recording, (name, value number) of each returned tensor, and (role, name) of the tensors that may have
    a gradient.
    """
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    copied, fakes = fake_program(program, args, kwargs, fake_mode)
    recorder = Recorder(fake_mode, module_paths(copied.program))
    values = recorder.values
    for held, fake in fakes:
        values.add_input(held.tensor.detach(), fake, held.role, held.name)
    with blamed(program, args, kwargs), followed(values, path_taken):
        result = run_traced(
            lambda: copied.program(*copied.args, **copied.kwargs),
            run_under_pre_dispatch(fake_mode, recorder),
        )
    with fake_mode:
        returned = [(path, values.number(leaf)) for path, leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
    able = {(held.role, held.name) for held, _ in fakes if differentiable(held)}
    return values.recorded, returned, able


def _grad_inputs(
    grad: bool | Sequence[str], sources: Sequence[RecordedInput], able: set[tuple[str, str]]
) -> tuple[int, ...]:
    """Returns the numbers of the inputs to differentiate. Raises `CaptureError` for a name that has no gradient."""
    places = {s.name: i for i, s in enumerate(sources) if (s.role, s.name) in able}
    if isinstance(grad, bool):
        return tuple(sorted(places.values()))
    for name in grad:
        if name not in places:
            known = ", ".join(list(places)[:6]) or "none"
            raise CaptureError(
                f"grad names {name!r}, which is no parameter or argument with a gradient (have: {known})"
            )
    return tuple(sorted({places[name] for name in grad}))
