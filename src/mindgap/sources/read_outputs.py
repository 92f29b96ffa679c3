"""Leaves out outputs, and places of outputs, that no caller reads: `--ignore-output NAME`, `--output-mask ARGUMENT`.

The program itself leaves them out, so that capture, exports and every platform compare the same places.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from mindgap.graph_capture.deep_copies import fresh_copy
from mindgap.graph_capture.errors import SourceNote
from mindgap.graph_capture.program import bound_arguments, leaves
from mindgap.graph_capture.users_code import users_code
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError
from mindgap.sources.translated_model import TranslatedModel, UntranslatedModel


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
        hidden, outputs = self.hidden(args, kwargs), self.named(self.program(*args, **kwargs))
        return {name: _shown(hidden, value) for name, value in outputs.items() if self.reads(name)}

    def hidden(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
        """Returns where the mask among these arguments hides outputs; None without a mask."""
        if self._place is None:
            return None
        given = args[self._place] if isinstance(self._place, int) else kwargs[self._place]
        return (given != 0) if self.selection.mask.startswith("~") else (given == 0)

    def named(self, result: Any) -> dict[str, torch.Tensor]:
        """Returns the tensors of a result of the program by name."""
        return {name or "output": each for name, each in leaves(result) if isinstance(each, torch.Tensor)}

    def reads(self, name: str) -> bool:
        """Returns whether an output is read."""
        return not _is_ignored(name, self.selection.ignored)


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


def _shown(hidden: torch.Tensor | None, value: torch.Tensor) -> torch.Tensor:
    shape = None if hidden is None else _shape_of(hidden, value)
    if hidden is None or shape is None:
        return value
    return torch.where(hidden.reshape(shape), torch.zeros_like(value), value)


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
    warnings.warn(OutputsLeftOut(_left_out(read, args, kwargs)), stacklevel=2)
    return read


def _left_out(read: ReadOutputs, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """What is left out, in words, by one run in eager mode."""
    copied_args, copied_kwargs = fresh_copy((tuple(args), dict(kwargs)))
    hidden = read.hidden(copied_args, copied_kwargs)
    with torch.no_grad(), users_code():
        outputs = read.named(read.program(*copied_args, **copied_kwargs))
    for each in read.selection.ignored:
        if not any(_is_ignored(name, [each]) for name in outputs):
            raise SourceError(f"--ignore-output {each}: the outputs are {', '.join(outputs)}")
    kept = {name: each for name, each in outputs.items() if read.reads(name)}
    if not kept:
        raise SourceError(f"--ignore-output: no output is left of {', '.join(outputs)}")
    words = [f"{name} is left out" for name in outputs if name not in kept]
    if hidden is not None:
        name, value = read.selection.mask.removeprefix("~"), int(read.selection.mask.startswith("~"))
        sizes = {each: output.numel() for each, output in kept.items() if _shape_of(hidden, output) is not None}
        if not sizes:
            forms = ", ".join(f"{each} {list(output.shape)}" for each, output in kept.items())
            raise SourceError(f"--output-mask {name}: it is {list(hidden.shape)}, and no output begins so: {forms}")
        count = int(hidden.sum())
        words += [
            f"{count * (size // hidden.numel())} of {size} elements of {each} are left out, where {name} is {value}"
            for each, size in sizes.items()
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


def of_program(one: Program, selection: OutputSelection) -> Program:
    """Returns a program without what is not read."""
    return replace(one, make=lambda: selected(one.make(), selection), remake=None, make_submodule=None)
