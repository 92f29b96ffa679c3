"""Sets of arguments of one program: several that its source returns, or files of tensors (`inputs=FILE`).

Each set is a `Program`. `FILE.py:make?arguments=2` names the second that `make` returns; `?inputs=a.npz,b.safetensors`
puts the tensors of files in place of those among the arguments, one set for each file. `?examples=8` repeats the
examples of a batch until there are eight; `?tokens=8` does so along the second dimension.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.torch_private import modules
from mindgap.graph import Array
from mindgap.graph_capture.program import tensor_names
from mindgap.sources.array_files import npz_arrays
from mindgap.sources.program import ArgumentChange, Built, Program
from mindgap.sources.source import Source, SourceError, one_line
from mindgap.sources.translated_model import UntranslatedModel

#: The options that every source of programs takes.
ARGUMENTS: Final = ("arguments", "inputs", "examples", "tokens")
#: The dimension of arguments that an option sets the size of.
SIZES: Final[Mapping[str, int]] = {"examples": 0, "tokens": 1}
_SUFFIXES: Final = (".npz", ".safetensors")


@dataclass(frozen=True, slots=True)
class AskedArguments:
    """Which arguments a source asks for. `number`: of a set, the first is 1; 0 for all. `files`: of tensors.
    `sizes`: of dimensions, by option."""

    number: int = 0
    files: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])


def asked_arguments(source: Source) -> tuple[AskedArguments, Source]:
    """Returns the arguments that a source's options ask for, and the source without these options. Raises
    `SourceError`."""
    sizes = {option: source.number(option) for option in SIZES if option in source.options}
    named = tuple(source.options["inputs"].split(",")) if "inputs" in source.options else ()
    for file in named:
        if not file.endswith(_SUFFIXES):
            raise SourceError(f"inputs={file}: give a file of tensors, .npz or .safetensors")
        if not Path(file).is_file():
            raise SourceError(f"inputs={file}: no such file")
    return AskedArguments(source.number("arguments"), named, sizes), source.without(*ARGUMENTS)


def numbered(name: str, source: str, makes: Sequence[Callable[[], Built]]) -> list[Program]:
    """Returns a program for each set of arguments; with a number in its name and source where there are several."""
    if len(makes) == 1:
        return [Program(name, source, makes[0])]
    texts = [_with_option(source, f"arguments={number}") for number in range(1, len(makes) + 1)]
    return [
        Program(f"{name} (arguments {number})", text, make, name, texts[0])
        for number, (text, make) in enumerate(zip(texts, makes, strict=True), 1)
    ]


def argument_sets(opened: Sequence[Program], asked: AskedArguments) -> list[Program]:
    """Returns the programs with the requested arguments. Building one of them raises `SourceError` for a file
    that does not fit its arguments."""
    if asked.files:
        firsts = [one for one in opened if one.first in ("", one.source)]
        programs = [program for one in firsts for program in _programs_per_file(one, asked.files)]
    else:
        programs = _chosen(opened, asked.number)
    for option, count in asked.sizes.items():
        programs = [_repeated(one, option, count) for one in programs]
    return programs


def _repeated(one: Program, option: str, count: int) -> Program:
    source = _with_option(one.source, f"{option}={count}")
    first = one.first and _with_option(one.first, f"{option}={count}")
    change = ArgumentChange(lambda built: with_size(built, option, count, one.source))
    return one.changed(change, source=source, first=first)


def with_size(built: Built, option: str, count: int, where: str) -> Built:
    """Returns the program with `count` examples (along the first dimension) or tokens (along the second).

    Tensors among the arguments that have the size of the first tensor there are repeated in order, or cut. Raises
    `SourceError`, beginning with `where`, for a program without one.
    """
    axis = SIZES[option]
    leaves, structure = modules.tree_flatten((tuple(built.args), dict(built.kwargs)))
    sizes = [leaf.shape[axis] for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.dim() > axis]
    if not sizes or not sizes[0]:
        raise SourceError(f"{where}: {option}={count}: no argument is a tensor with {option} along dimension {axis}")
    chosen = torch.arange(count) % sizes[0]
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.dim() > axis and leaf.shape[axis] == sizes[0]:
            leaves[place] = leaf.detach().index_select(axis, chosen.to(leaf.device))
    args, kwargs = modules.tree_unflatten(leaves, structure)
    return replace(built, args=args, kwargs=kwargs)


def _chosen(opened: Sequence[Program], number: int) -> list[Program]:
    if not number:
        return [*opened]
    kept: list[Program] = []
    for one in opened:
        group = [each for each in opened if each.group and each.group == one.group]
        if not group or number > len(group):
            count = len(group) or 1
            raise SourceError(
                f"{one.source}: arguments={number}: it returned {count} set{'s' * (count > 1)} of arguments"
            )
        if group[number - 1] is one:
            kept.append(replace(one, group="", first=""))
    return kept


def _programs_per_file(one: Program, files: Sequence[str]) -> list[Program]:
    name, source = one.group or one.name, one.source
    texts = [_with_option(source, f"inputs={file}") for file in files]
    several = len(files) > 1
    return [
        one.changed(
            _filled(file), name=f"{name} ({Path(file).name})" if several else name, source=text,
            group=name if several else "", first=texts[0] if several else "",
        )
        for file, text in zip(files, texts, strict=True)
    ]  # fmt: skip


def _filled(file: str) -> ArgumentChange:
    return ArgumentChange(lambda built: with_tensors(built, _tensors(file), f"inputs={file}"), given=True)


def _with_option(text: str, option: str) -> str:
    """The text of a source with an option, in place of one of the same name."""
    body, _, options = text.partition("?")
    name = option.partition("=")[0]
    kept = [each for each in options.split("&") if each and each.partition("=")[0] != name]
    return f"{body}?{'&'.join([*kept, option])}"


def _tensors(file: str) -> dict[str, torch.Tensor]:
    """The tensors of a file by their names. Raises `SourceError`."""
    if file.endswith(".npz"):
        where = f"inputs={file}"
        return {name: _tensor(array, f"{where}: {name}") for name, array in npz_arrays(Path(file), where).items()}
    try:
        read: Any = importlib.import_module("safetensors.torch").load_file  # typed in parts
        return read(file)
    except Exception as error:
        raise SourceError(f"inputs={file}: it cannot be read: {one_line(error)}") from error


def _tensor(array: Array, where: str) -> torch.Tensor:
    try:
        return torch.as_tensor(np.array(array))
    except TypeError:
        other = "bfloat16 and float8 go into a .safetensors file" if array.dtype.kind == "V" else "convert it"
        raise SourceError(f"{where} is of {array.dtype}, which PyTorch has no tensors of: {other}") from None


def with_tensors(built: Built, given: Mapping[str, torch.Tensor], where: str) -> Built:
    """Returns the program with other tensors among its arguments.

    They are matched by name; by order if they are numbered (`arr_0`, as `numpy.savez` names them) or there is one. Each
    has the dtype and number of dimensions of the tensor that it replaces. Raises `SourceError`, beginning with `where`.
    """
    leaves, structure = modules.tree_flatten((tuple(built.args), dict(built.kwargs)))
    names = tensor_names(built.program, built.args, built.kwargs)
    places = [place for place, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    listed = f"the arguments are {', '.join(map(_form, names, [leaves[place] for place in places]))}"
    numbered = len(names) == 1 or all(re.fullmatch(r"(arr_)?\d+", name) for name in given)
    by_order = numbered and len(given) == len(names) and not set(names) & set(given)
    ordered = dict(zip(names, given.values(), strict=True)) if by_order else given
    if absent := [name for name in names if name not in ordered]:
        raise SourceError(f"{where}: it holds no {', '.join(absent)} ({', '.join(given) or 'nothing'}); {listed}")
    if more := [name for name in ordered if name not in names]:
        raise SourceError(f"{where}: {', '.join(more)}: no such argument; {listed}")
    any_rank = built.program.any_rank if isinstance(built.program, UntranslatedModel) else ()
    for name, place in zip(names, places, strict=True):
        new, old = ordered[name], leaves[place]
        if new.dtype != old.dtype or (new.dim() != old.dim() and name not in any_rank):
            takes = f"where the program takes {_form(name, old)}: write it in that form"
            raise SourceError(f"{where}: it has {_form(name, new)} {takes}")
        leaves[place] = new
    args, kwargs = modules.tree_unflatten(leaves, structure)
    return replace(built, args=args, kwargs=kwargs)


def _form(name: str, tensor: Any) -> str:
    return f"{name} {str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"
