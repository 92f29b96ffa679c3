"""Parses sources, the text that names models on the command line, and lists their schemes.

SCHEME:NAME            timm:resnet18, transformers:BertModel, records:FILE.parquet#ID
FILE.onnx              a model file, translated to PyTorch; other suffixes by `mindgap.formats`
FILE.mindgap           what `mindgap capture` wrote, with its weights
FILE.py:CALLABLE       mymodel.py:make, mymodel.py:make#2 (the third of the models that it returns)
PACKAGE.MODULE:CALLABLE
…?OPTION=VALUE&OPTION=VALUE at the end of any of them (of a text, ? and & are written as %3F and %26)
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from urllib.parse import unquote

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import MindgapError, kind_of
from mindgap.platforms.model_formats import formats
from mindgap.platforms.registered_objects import registered_objects
from mindgap.run.message_cleaning import one_line as one_line


class SourceError(MindgapError):
    """A source names nothing, or names a model that cannot be built. The message is one line."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """One kind of source.

    `form`: what follows the colon, for messages. `opener`: MODULE:FUNCTION, imported when a source of this scheme is
    opened. The function takes a `Source` and returns programs. `options`: the names of the options that the scheme
    accepts. `listed`: the module has a function `names` that returns all targets, and patterns such as `timm:resnet*`
    are matched against them.
    """

    form: str
    opener: str
    options: tuple[str, ...]
    listed: bool = False

    def module(self) -> ModuleType:
        """Imports and returns the module of the opener."""
        return importlib.import_module(self.opener.partition(":")[0])

    def open(self, source: Source) -> Sequence[Any]:
        """Returns the programs and graphs (`Program`, `Captured`) that a source names. Raises `SourceError`."""
        return getattr(self.module(), self.opener.partition(":")[2])(source)


#: Options of sources of models, of images, and of texts.
MODEL_OPTIONS: Final = ("seed", "dtype", "train")
IMAGE_OPTIONS: Final = (*MODEL_OPTIONS, "batch", "size")
TEXT_OPTIONS: Final = (*IMAGE_OPTIONS, "length", "layers")

SCHEMES: Final[Mapping[str, Scheme]] = {
    "pt2": Scheme("FILE.pt2", "mindgap.sources.files.exported_program:open_pt2", ("seed",)),
    "graph": Scheme("FILE.graph", "mindgap.sources.files.graph_file:open_graph", ()),
    "model": Scheme("FILE.mindgap", "mindgap.sources.files.graph_file:open_model", ()),
    "onnxfile": Scheme("FILE.onnx", "mindgap.onnx_files.file:open_onnx_file", ("seed",)),
}

#: The entry-point group in which an installed package registers schemes (name: scheme, object: `Scheme`).
GROUP: Final = "mindgap.sources"


@cache
def schemes() -> Mapping[str, Scheme]:
    """Returns all schemes by name: those of mindgap, then those of installed packages (see `GROUP`).

    A package cannot replace a scheme of mindgap. Warns of an entry point that cannot be loaded, and leaves it out.
    """
    by_name = dict(SCHEMES)
    for name, scheme in registered_objects(GROUP, Scheme):
        by_name.setdefault(name, scheme)
    return by_name


#: The user's own code, which no scheme announces.
PYTHON: Final = Scheme(
    "FILE.py:CALLABLE or PACKAGE.MODULE:CALLABLE", "mindgap.sources.files.user_code:open_user_code", MODEL_OPTIONS
)

_OPTIONS = re.compile(r"\?([\w.]+=[^&?]*(?:&[\w.]+=[^&?]*)*)$")


@dataclass(frozen=True, slots=True)
class Source:
    """A parsed source. `scheme`: a name in `schemes()`, or `python` for the user's file or module."""

    text: str
    scheme: str
    target: str
    options: Mapping[str, str]

    @property
    def kind(self) -> Scheme:
        """Returns the description of its scheme."""
        return schemes().get(self.scheme, PYTHON)

    def without(self, *names: str) -> Source:
        """Returns the source without these options."""
        return replace(self, options={name: value for name, value in self.options.items() if name not in names})

    def number(self, name: str, absent: int = 0, least: int = 1) -> int:
        """Returns the value of an option that is a whole number, from `least` up. Raises `SourceError`."""
        value = self.options.get(name)
        if value is not None and (not value.isdecimal() or int(value) < least):
            raise SourceError(f"{self.text}: {name}={value}; it takes a whole number from {least} up")
        return absent if value is None else int(value)

    def flag(self, name: str) -> bool:
        """Returns whether an option is 1, and not 0 or absent. Raises `SourceError`."""
        value = self.options.get(name, "0")
        if value not in ("0", "1"):
            raise SourceError(f"{self.text}: {name}={value}; write {name}=1 or {name}=0")
        return value == "1"


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a source as values.

    `seed`: of weights and inputs. `dtype`: floating weights and inputs are cast to it. `train`: leaves the model in
    training mode. `batch`: examples in the input. `size`: edge of square images in pixels. `length`: tokens in a text.
    `layers`: repeated blocks kept in a shrunk transformer. `text`: what a language model is given, by its tokenizer.
    None: the model's default.
    """

    seed: int = 0
    dtype: str | None = None
    train: bool = False
    batch: int | None = None
    size: int | None = None
    length: int | None = None
    layers: int | None = None
    text: str | None = None

    @property
    def examples(self) -> int:
        """The examples in an input: `batch`, or 2 in training mode, where statistics of one are undefined, else 1."""
        return self.batch or (2 if self.train else 1)


def parse(text: str) -> Source:
    """Parses a source. Raises `SourceError` if it has no known form."""
    match = _OPTIONS.search(text)
    body = text[: match.start()] if match else text
    pairs = match.group(1).split("&") if match else []
    options = dict(pair.split("=", 1) for pair in pairs)
    head, colon, tail = body.partition(":")
    if colon and head in schemes():
        if not tail:
            raise SourceError(f"{text}: nothing after {head}:; write {head}:{schemes()[head].form}")
        return Source(text, head, tail, options)
    for suffix, scheme in (".mindgap", "model"), *((each.suffix, each.scheme) for each in formats().values()):
        if body.endswith(suffix):
            return Source(text, scheme, body, options)
    body += ":make" if body.endswith(".py") else ""
    path, colon, name = body.rpartition(":")
    called, hash_, item = name.partition("#")
    if colon and path and called.isidentifier() and (not hash_ or item.isdecimal()):
        if not path.endswith(".py") and not all(part.isidentifier() for part in path.split(".")):
            raise SourceError(f"{text}: {path!r} is neither a .py file nor a module{suggest(path, schemes())}")
        return Source(text, "python", body, options)
    forms = ", ".join(f"{scheme}:{kind.form}" for scheme, kind in schemes().items())
    raise SourceError(
        f"{text}: no source; write FILE.py:CALLABLE, PACKAGE.MODULE:CALLABLE, {forms}{suggest(head, schemes())}"
    )


def source_options(source: Source) -> SourceOptions:
    """Returns the source's options as values. Raises `SourceError` with the name of a wrong option."""
    understood = source.kind.options
    values: dict[str, int | str | bool] = {}
    for name, value in source.options.items():
        if name not in understood:
            known = ", ".join(understood) or "none"
            raise SourceError(f"{source.text}: no option {name!r} here; there are: {known}")
        values[name] = _value(source, name, value)
    return SourceOptions(**values)  # pyright: ignore[reportArgumentType] # each option has one type, checked in _value


def _value(source: Source, name: str, value: str) -> int | str | bool:
    if name == "text":
        return unquote(value)
    if name == "dtype":
        if value not in TORCH_DTYPES or kind_of(value) != "float":
            floats = ", ".join(dtype for dtype in TORCH_DTYPES if kind_of(dtype) == "float")
            raise SourceError(f"{source.text}: dtype={value} is no floating dtype; there are: {floats}")
        return value
    return source.flag(name) if name == "train" else source.number(name, least=0 if name == "seed" else 1)


def suggest(name: str, known: Iterable[str]) -> str:
    """Returns `; did you mean …?` with similar names, or "" if none is similar."""
    lowered = {other.lower(): other for other in known}
    near = [lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)]
    return f"; did you mean {', '.join(near)}?" if near else ""


def require_file(path: Path) -> None:
    """Raises `SourceError` where there is no such file, with similar names of the folder's files of its kind."""
    if not path.is_file():
        near = suggest(path.name, [p.name for p in path.parent.glob(f"*{path.suffix}")]) if path.parent.is_dir() else ""
        raise SourceError(f"{path}: no such file{near}")
