"""The entrance: a program and its arguments to a graph that is proven to replay it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from mindgap.aten.operators import overload_name
from mindgap.aten.tensors import spec_of
from mindgap.capture.check import Subject, check
from mindgap.capture.dispatcher import seen_by
from mindgap.capture.errors import CaptureError
from mindgap.capture.neutral import neutral
from mindgap.capture.origin import line_of
from mindgap.capture.program import Copy, Held, copied, leaves, paths_of, uncompiled
from mindgap.capture.recipes import recipe_for
from mindgap.capture.recorder import Recorder
from mindgap.capture.recording import Recorded, Source
from mindgap.graph import Graph, Input, Labels, MindgapError, Node, map_refs, refs
from mindgap.graph.tensors import TensorStore, default_tensor_store

Weights = Literal["stored", "seeded"]


class UnprovenCapture(UserWarning):
    """A capture was not replayed against the program."""


def capture(
    program: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    tensors: TensorStore | None = None,
    name: str = "",
    weights: Weights = "stored",
    verify: bool = True,
) -> Graph:
    """The calls-level graph of `program(*args, **kwargs)`.

    Inputs are numbered: tensors among the arguments first (role `input`, all of them), then the parameters and
    buffers that are used, constants, drawn tensors. Outputs are the tensors that the program returns, in order, then
    every input that it wrote to. `weights`: "stored" keeps the real bytes of parameters, buffers and arguments in
    `tensors` (by default the user's store), "seeded" describes them by seeded recipes of like statistics. `name`
    stands before the labels of parameters. The program runs without gradients; its state is left as it was.

    Raises `CaptureError`, with the reason and the user's line, for what cannot be captured or replays differently.
    Warns `UnprovenCapture` when the replay on two inputs is skipped (`verify=False`, tensors on the meta device).
    """
    store = tensors if tensors is not None or weights == "seeded" else default_tensor_store()
    program = uncompiled(program)
    unproven = "" if verify else "verify=False: the capture was not replayed, so it is not proven"
    with neutral():
        recorded, returned = _trace(program, args, kwargs or {})
        graph, sources = _assemble(recorded, returned, store, weights, name)
        if any(s.real is not None and s.real.device.type == "meta" for s in sources):
            unproven = "captured from meta tensors: there is nothing to replay, so it is not proven"
        if not unproven:
            check(Subject(graph, sources, len(returned), program, args, kwargs or {}))
    if unproven:
        warnings.warn(unproven, UnprovenCapture, stacklevel=2)
    return graph


def _trace(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Recorded, list[tuple[str, int]]]:
    """What the program called, and (name, value number) of each tensor that it returned."""
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes: list[tuple[Held, torch.Tensor]] = []

    def fake_of(held: Held) -> torch.Tensor:
        fake = _faked(held.tensor, fake_mode)
        fakes.append((held, fake))
        return fake

    twin = copied(program, args, kwargs, fake_of)
    recorder = Recorder(fake_mode, paths_of(twin.program))
    for held, fake in fakes:
        recorder.add_input(held.tensor.detach(), fake, held.role, held.name)
    result = _run(twin, fake_mode, recorder)
    with fake_mode:
        returned = [(path, recorder.number(leaf)) for path, leaf in leaves(result) if isinstance(leaf, torch.Tensor)]
    return recorder.recorded, returned


def _run(twin: Copy, fake_mode: FakeTensorMode, recorder: Recorder) -> Any:
    try:
        with seen_by(fake_mode, recorder):
            return twin.program(*twin.args, **twin.kwargs)
    except CaptureError:
        raise
    except MindgapError as error:
        raise CaptureError(str(error), line_of(error.__traceback__)) from error
    except Exception as error:
        raise CaptureError(_reason(error), line_of(error.__traceback__)) from error


def _reason(error: Exception) -> str:
    said = (str(error).strip().splitlines() or [""])[0]
    for words, meaning in _MEANINGS.items():
        if words in said:
            return meaning
    return f"the program raised {type(error).__name__}: {said}"


def _faked(tensor: torch.Tensor, fake_mode: FakeTensorMode) -> torch.Tensor:
    """A stand-in on the CPU without memory; a parameter stays one, without gradient."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise CaptureError(f"a tensor of type {type(tensor).__name__}; capture takes plain tensors")
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise CaptureError(f"a tensor of layout {tensor.layout} and dtype {tensor.dtype}; graphs hold strided ones")
    if tensor.device.type == "meta":
        with fake_mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")
    elif tensor.device.type != "cpu":
        raise CaptureError(f"a tensor on {tensor.device}; move the program and its arguments to the CPU")
    else:
        fake = fake_mode.from_tensor(tensor.detach(), static_shapes=True)
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(fake, requires_grad=False)
    return fake


def _assemble(
    recorded: Recorded, returned: list[tuple[str, int]], store: TensorStore | None, weights: Weights, name: str
) -> tuple[Graph, list[Source]]:
    """The graph with its values renumbered, and its inputs' sources in order."""
    used = {r for call in recorded.calls for arg in (*call.args, *[a for _, a in call.kwargs]) for r in refs(arg)}
    used |= {number for _, number in returned}
    kept = [i for i, s in enumerate(recorded.inputs) if s.role == "input" or -(i + 1) in used]
    kept.sort(key=lambda i: _ORDER[recorded.inputs[i].role])
    renumber = {-(old + 1): new for new, old in enumerate(kept)}
    slots = sum(len(call.outputs) for call in recorded.calls)
    renumber.update({slot: len(kept) + slot for slot in range(slots)})
    written = sorted(renumber[-(i + 1)] for i in recorded.written)
    if not returned and not written:
        raise CaptureError("the program returns no tensor and changes none: there is nothing to compare")
    sources = [recorded.inputs[i] for i in kept]
    names = tuple(f"{name}.{s.name}" if name and s.role in ("parameter", "buffer") else s.name for s in sources)
    graph = Graph(
        inputs=tuple(
            Input(spec_of(s.fake), s.recipe or recipe_for(s, store, weights, i), s.role) for i, s in enumerate(sources)
        ),
        nodes=tuple(
            Node(
                overload_name(c.func),
                tuple(map_refs(a, renumber) for a in c.args),
                tuple((k, map_refs(a, renumber)) for k, a in c.kwargs),
                c.outputs,
            )
            for c in recorded.calls
        ),
        outputs=(*[renumber[number] for _, number in returned], *written),
        labels=Labels(
            names,
            tuple(c.origin for c in recorded.calls),
            (*[path or "output" for path, _ in returned], *[names[i] for i in written]),
        ),
    )
    return graph, sources


#: What PyTorch says of a tensor without values, in words for its author.
_MEANINGS = {
    "not registered": "the program uses a higher-order operator (cond, while_loop, ...), which no graph of calls holds",
    ".numpy() is not supported": "the program turns a tensor into a numpy array, whose values a graph would freeze",
    "Cannot access storage of": "the program makes a tensor without strided storage (a sparse one, say)",
    "tolist() is not supported": "the program turns a tensor into a list, whose values a graph would freeze",
    "does not require grad and does not have a grad_fn": "the program runs a backward pass of its own; "
    "capture its forward part, or use torch.func.grad",
}

_ORDER = {"input": 0, "parameter": 1, "buffer": 2, "constant": 3, "random": 4}
