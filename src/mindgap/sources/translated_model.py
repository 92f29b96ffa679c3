"""The PyTorch module of a translated model file: one submodule for each of its nodes, under the node's name; and
the table of a format's translations."""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Callable, Generator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.torch_private.modules import put_buffer, put_module, put_parameter
from mindgap.graph import Array, MindgapError
from mindgap.graph_capture.errors import CaptureError
from mindgap.sources.source import one_line

#: A translation takes a node and its operands, and gives one tensor, or a sequence with one for each output.
Translate = Callable[..., Any]

#: How far two correct implementations of one operator may be apart, of the largest magnitude and of each element.
_APART: Final[Mapping[str, float]] = {"float64": 1e-7, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
#: What PyTorch's allocator for the CPU raises, as a `RuntimeError`.
_ALLOCATOR: Final = re.compile(r"DefaultCPUAllocator: .* allocate (\d+) bytes")
#: Another process has compared the translation with the reference evaluator.
CHECKED: Final = contextvars.ContextVar("checked", default=False)


@contextlib.contextmanager
def checked_before() -> Generator[None]:
    """Leaves out the comparison of nodes with a reference, which another process has made for the same source."""
    token = CHECKED.set(True)
    try:
        yield
    finally:
        CHECKED.reset(token)


class NoTranslation(CaptureError):
    """A model file has an operator without a translation, so that there is no graph; runtimes may run the file.
    `valid`: the format's checker takes it."""

    def __init__(self, reason: str, valid: bool = True) -> None:
        MindgapError.__init__(self, reason)
        self.reason, self.line, self.valid = reason, "", valid


class Untranslated(Exception):
    """A node has no equivalent in PyTorch. The message is one line. `located`: it names the node."""

    located = False

    def at(self, name: str, op: str) -> Untranslated:
        """Returns the same with the node's name before it."""
        located = type(self)(f"node {name} ({op}): {self}")
        located.located = True
        return located


class MissingTranslation(Untranslated):
    """Operators have no translation, by their kind, or values of the inputs decide what they do: no other inputs
    help."""


class InvalidFile(Untranslated):
    """The format's checker refuses the file; a runtime may forgive it."""


class Unrunnable(Untranslated):
    """What no runtime may be given either: it does not end, or takes more memory than there is."""


def apart(ours: Array, theirs: Array) -> int:
    """Counts elements that are further apart than two correct implementations may be. Integers must be equal."""
    limit = _APART.get(ours.dtype.name, 0.0 if ours.dtype.kind in "biu" else 0.25)
    wide = np.complex128 if np.iscomplexobj(ours) else np.float64
    with np.errstate(all="ignore"):
        a, b = ours.astype(wide), theirs.astype(wide)
        if not limit:
            return int((ours != theirs.astype(ours.dtype)).sum())
        finite = np.abs(b[np.isfinite(b)])
        largest = float(finite.max()) if finite.size else 0.0
        return int((~np.isclose(a, b, limit, limit * largest * 0.1 + 1e-30, equal_nan=True)).sum())


@dataclass(frozen=True)
class Translation:
    """One entry of a table. `structural`: positions of operands that must be known before the program runs."""

    function: Translate
    structural: tuple[int, ...] = ()


class TranslationTable(dict[str, Translation]):
    """The translations of a format's operators, by name."""

    def register(self, *ops: str, structural: tuple[int, ...] = ()) -> Callable[[Translate], Translate]:
        """Returns a decorator that adds a translation for these operators. Raises `ValueError` for a second one."""

        def add(function: Translate) -> Translate:
            for op in ops:
                if op in self:
                    raise ValueError(f"two translations of {op}")
                self[op] = Translation(function, structural)
            return function

        return add


@dataclass(frozen=True, slots=True)
class ProbedModel:
    """A model file whose outputs are those of another, then the integers of some nodes.

    path: of the file. nodes: by the name of each node with a quantised result, as captured graphs have it, the position
    of its integers among the outputs; of a further result n of a node, by its name, a colon and n (`result_key`).
    own: how many outputs the model has itself. all: how many the file has.
    """

    path: Path
    nodes: dict[str, int]
    own: int
    all: int


def result_key(name: str, result: int) -> str:
    """Returns what a result of a node is called in `ProbedModel.nodes`."""
    return f"{name}:{result}" if result else name


class TranslatedNode(torch.nn.Module):
    """One node. `function`: its translation, which takes the operands. `operands`: names of values; "" for an operand
    that is left out or structural."""

    def __init__(
        self, name: str, op: str, function: Callable[..., Any], operands: Sequence[str], outputs: Sequence[str]
    ) -> None:
        super().__init__()
        self.name, self.function, self.operands, self.outputs = name, function, tuple(operands), tuple(outputs)
        #: What `capture` shows in place of a line of code, and the arguments' names.
        self.source_line = op
        self.argument_names = tuple(each or f"operand_{i}" for i, each in enumerate(operands))
        self.eval()

    def forward(self, *operands: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        result = self.function(*operands)
        return (result,) if isinstance(result, torch.Tensor) else tuple(result)

    def run(self, values: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Returns the node's results for values by name. Raises `Untranslated` where PyTorch refuses them."""
        try:
            return self(*[values[name] if name else None for name in self.operands])
        except Untranslated:
            raise
        except Exception as error:
            if (size := _allocation_text(error)) is not None:
                raise Unrunnable(f"memory does not suffice: {size}") from error
            raise Untranslated(f"PyTorch has no {self.source_line} like this: {one_line(error)}") from error


def _allocation_text(error: Exception) -> str | None:
    """Returns what was to be allocated where memory ran out, None for another error."""
    if isinstance(error, MemoryError):
        return one_line(error) if str(error) else "Python told no size"
    match = _ALLOCATOR.search(str(error))
    return None if match is None else f"PyTorch asked for {int(match[1]):,} bytes ({int(match[1]) / 2**30:,.1f} GiB)"


class TranslatedModel(torch.nn.Module):
    """Runs the nodes of a model on its inputs, and returns its outputs by name.

    argument_names: the inputs that it takes, in the file's order.
    fixed_inputs: the inputs that are constants of the program: they give shapes, axes and the like.
    """

    def __init__(
        self, inputs: Sequence[str], fixed: Mapping[str, Array], known: Mapping[str, torch.Tensor], weights: Set[str],
        steps: Sequence[TranslatedNode], outputs: Sequence[str],
    ) -> None:  # fmt: skip
        """Holds what the outputs need: of the `steps`, and of the `known` tensors, by name, that no step gives. Those
        in `weights` that hold floats become parameters, the others buffers."""
        super().__init__()
        self.argument_names, self.fixed_inputs, self.outputs = tuple(inputs), dict(fixed), tuple(outputs)
        steps, needed = _needed(steps, outputs)
        made = {name for step in steps for name in step.outputs}
        for name, tensor in known.items():
            if name not in needed or name in made:
                continue
            if name in weights and tensor.is_floating_point():
                put_parameter(self, name, torch.nn.Parameter(tensor))
            else:
                put_buffer(self, name, tensor)
        self._steps = tuple(step.name for step in steps)
        for step in steps:
            put_module(self, step.name, step)
        self.eval()

    @property
    def steps(self) -> list[TranslatedNode]:
        return [self._modules[name] for name in self._steps]  # pyright: ignore[reportReturnType] # put there above

    def forward(self, *tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        held: Any = {**self._parameters, **self._buffers}
        values: dict[str, torch.Tensor] = {**held, **dict(zip(self.argument_names, tensors, strict=True))}
        steps = self.steps
        last = {name: i for i, step in enumerate(steps) for name in step.operands}
        for i, step in enumerate(steps):
            results = step(*[values[name] if name else None for name in step.operands])
            values.update({name: tensor for name, tensor in zip(step.outputs, results, strict=False) if name})
            for name in (*step.operands, *step.outputs):
                if last.get(name, -1) <= i and name not in self.outputs:
                    values.pop(name, None)
        return {name: values[name] for name in self.outputs}


class UntranslatedModel(torch.nn.Module):
    """Stands for a model file that has no translation, with the inputs that it takes. Gives no outputs.

    reason: why it has none, a line.
    any_rank: inputs that may have any number of dimensions.
    fixed_inputs: further inputs by name that a runtime may ask for, as it is given them: texts, sequences,
        initializers.
    valid: the format's checker takes the file.
    """

    def __init__(
        self, inputs: Sequence[str], reason: str, any_rank: Set[str] = frozenset(),
        fixed: Mapping[str, Any] | None = None, valid: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.valid = valid
        self.argument_names, self.reason, self.any_rank = tuple(inputs), reason, any_rank
        self.fixed_inputs = dict(fixed or {})
        self.eval()

    def forward(self, *_: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns nothing."""
        return {}


def _needed(steps: Sequence[TranslatedNode], outputs: Sequence[str]) -> tuple[list[TranslatedNode], set[str]]:
    """Returns the steps that the outputs need, and the names that are read."""
    needed, kept = set(outputs), list[TranslatedNode]()
    for step in reversed(steps):
        if not needed.isdisjoint(step.outputs):
            kept.append(step)
            needed.update(name for name in step.operands if name)
    return kept[::-1], needed
