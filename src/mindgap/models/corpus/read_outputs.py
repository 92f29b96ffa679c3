"""Leaves out outputs, and places of outputs, that nobody reads: `--ignore-output NAME`, `--output-mask ARGUMENT`.

The program itself leaves them out, so that capture, exports and every platform compare the same places.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mindgap.models.capture.deep_copies import fresh_copy
from mindgap.models.capture.errors import SourceNote
from mindgap.models.capture.program import bound_arguments, leaves
from mindgap.models.capture.users_code import users_code
from mindgap.models.corpus.program import Built, Captured, Program
from mindgap.models.corpus.source import Source, SourceError
from mindgap.models.corpus.translated_model import TranslatedModel, UntranslatedModel


class OutputsLeftOut(SourceNote):
    """Outputs, or elements of outputs, are not compared, as the user wants it."""


@dataclass(frozen=True, slots=True)
class OutputSelection:
    """ignored: names of outputs, or what their names begin with. mask: the name of an argument, with `~` before it
    where 1 and not 0 marks what is not read; empty for none."""

    ignored: tuple[str, ...] = ()
    mask: str = ""


class ReadOutputs(torch.nn.Module):
    """Returns the outputs of a program that are read, by name; places that a mask hides are 0."""

    def __init__(
        self, program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], selection: OutputSelection
    ) -> None:
        """Raises `SourceError` for a mask that is no tensor among the arguments."""
        super().__init__()
        self.program, self.selection = program, selection
        self.training = getattr(program, "training", False)
        self._place: int | str | None = _place_of(selection.mask.removeprefix("~"), program, args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> dict[str, torch.Tensor]:
        """Returns the outputs by name."""
        mask = None
        if self._place is not None:
            given = args[self._place] if isinstance(self._place, int) else kwargs[self._place]
            mask = (given == 0) if self.selection.mask.startswith("~") else (given != 0)
        outputs = leaves(self.program(*args, **kwargs))
        return {
            name or "output": value if mask is None else _where(mask, value)
            for name, value in outputs
            if isinstance(value, torch.Tensor) and not _is_ignored(name or "output", self.selection.ignored)
        }


def _place_of(
    name: str, program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> int | str | None:
    if not name:
        return None
    given = bound_arguments(program, args, kwargs)
    value = given.get(name)
    if not isinstance(value, torch.Tensor):
        tensors = [key for key, each in given.items() if isinstance(each, torch.Tensor)]
        raise SourceError(f"--output-mask {name}: the tensors among the arguments are {', '.join(tensors) or 'none'}")
    number = next((number for number, each in enumerate(args) if each is value), None)
    return number if number is not None else name


def _is_ignored(name: str, ignored: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in ignored)


def _shape_of(mask: torch.Tensor, value: torch.Tensor) -> list[int] | None:
    """The shape in which a mask lies over the first dimensions of an output; None where it does not."""
    for sizes in ([*mask.shape], [size for size in mask.shape if size != 1]):
        if sizes and list(value.shape[: len(sizes)]) == sizes:
            return [*sizes, *[1] * (value.dim() - len(sizes))]
    return None


def _where(mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    shape = _shape_of(mask, value)
    return value if shape is None else torch.where(mask.reshape(shape), value, torch.zeros_like(value))


def selected(built: Built, selection: OutputSelection) -> Built:
    """Returns a program without what is not read (`read_outputs`). Raises `SourceError` for a model file too."""
    if isinstance(built.program, (TranslatedModel, UntranslatedModel)):
        raise SourceError("--ignore-output and --output-mask take a program: a model file gives what it gives")
    return replace(built, program=read_outputs(built.program, built.args, built.kwargs, selection))


def read_outputs(
    program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], selection: OutputSelection
) -> ReadOutputs:
    """Returns a program without what is not read, and warns of how much that is. Raises `SourceError` for an unknown
    output and a mask that fits none."""
    read = ReadOutputs(program, args, kwargs, selection)
    warnings.warn(OutputsLeftOut(_left_out(program, args, kwargs, selection)), stacklevel=2)
    return read


def _left_out(
    program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], selection: OutputSelection
) -> str:
    """What is left out, in words, by one run in eager mode."""
    copied_args, copied_kwargs = fresh_copy((tuple(args), dict(kwargs)))
    with torch.no_grad(), users_code():
        outputs = {name or "output": each for name, each in leaves(program(*copied_args, **copied_kwargs))}
    names = [name for name, each in outputs.items() if isinstance(each, torch.Tensor)]
    for each in selection.ignored:
        if not any(_is_ignored(name, [each]) for name in names):
            raise SourceError(f"--ignore-output {each}: the outputs are {', '.join(names)}")
    kept = [name for name in names if not _is_ignored(name, selection.ignored)]
    if not kept:
        raise SourceError(f"--ignore-output: no output is left of {', '.join(names)}")
    words = [f"{name} is left out" for name in names if name not in kept]
    name = selection.mask.removeprefix("~")
    if name:
        given = bound_arguments(program, args, kwargs)[name]
        hidden = (given != 0) if selection.mask.startswith("~") else (given == 0)
        fitting = [each for each in kept if _shape_of(hidden, outputs[each]) is not None]
        if not fitting:
            forms = ", ".join(f"{each} {list(outputs[each].shape)}" for each in kept)
            raise SourceError(f"--output-mask {name}: it is {list(given.shape)}, and no output begins so: {forms}")
        value = 1 if selection.mask.startswith("~") else 0
        words += [
            f"{int(hidden.sum()) * (outputs[each].numel() // hidden.numel())} of {outputs[each].numel()} elements of "
            f"{each} are left out, where {name} is {value}"
            for each in fitting
        ]
    return "; ".join(words)


def selection_option(source: Source) -> tuple[OutputSelection | None, Source]:
    """Returns what a source's options leave out, and the source without these options."""
    ignored, mask = source.options.get("ignore_output", ""), source.options.get("output_mask", "")
    for name in ("ignore_output", "output_mask"):
        source = source.without(name) if name in source.options else source
    if not ignored and not mask:
        return None, source
    return OutputSelection(tuple(filter(None, ignored.split(","))), mask), source


def of_program(one: Program | Captured, selection: OutputSelection) -> Program:
    """Returns a program without what is not read. Raises `SourceError` for a captured graph."""
    if isinstance(one, Captured):
        raise SourceError(f"{one.source}: it is a graph already; outputs are left out of a program")
    return replace(one, make=lambda: selected(one.make(), selection), remake=None, make_submodule=None)
