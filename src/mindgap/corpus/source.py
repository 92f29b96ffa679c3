"""A source: the text that names models on the command line, taken apart.

SCHEME:NAME            timm:resnet18, transformers:BertModel, records:FILE.parquet#ID
FILE.py:CALLABLE       mymodel.py:make
PACKAGE.MODULE:CALLABLE
…?OPTION=VALUE&OPTION=VALUE at the end of any of them
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import MindgapError, kind_of


class SourceError(MindgapError):
    """A source that names nothing, or names what cannot be built. The message is one line."""


#: scheme -> what follows the colon.
SCHEMES: Mapping[str, str] = {
    "timm": "NAME",
    "torchvision": "NAME",
    "transformers": "CLASS or MODEL_TYPE",
    "diffusers": "CLASS",
    "open_clip": "NAME",
    "pyg": "CLASS",
    "pytorchcv": "NAME",
    "ops": "OPERATOR or OPERATOR#SAMPLE",
    "modules": "MODULE or MODULE#SAMPLE",
    "onnx": "CASE",
    "hub": "OWNER/NAME or FOLDER",
    "torchhub": "OWNER/NAME:ENTRYPOINT or FOLDER:ENTRYPOINT",
    "records": "FILE.parquet#ID",
    "graphnet": "DIR",
    "pt2": "FILE.pt2",
    "graph": "FILE.graph",
}

_OPTIONS = re.compile(r"\?(\w+=[^&?]*(?:&\w+=[^&?]*)*)$")


@dataclass(frozen=True, slots=True)
class Source:
    """`scheme` is one of `SCHEMES`, or `python` for a file or module of the user's."""

    text: str
    scheme: str
    target: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Settings:
    """The options every model source understands.

    `seed` of weights and inputs; `dtype` that floating weights and inputs are cast to; `train`:
    leave the model in training mode; `batch`: examples in the input; `size`: edge of square images
    in pixels; `length`: tokens in a text; `layers`: repeated blocks kept of a shrunk transformer.
    None: the model's own.
    """

    seed: int = 0
    dtype: str | None = None
    train: bool = False
    batch: int | None = None
    size: int | None = None
    length: int | None = None
    layers: int | None = None


#: The settings that mean something for each scheme.
UNDERSTOOD: Mapping[str, tuple[str, ...]] = {
    "timm": ("seed", "dtype", "train", "batch", "size"),
    "torchvision": ("seed", "dtype", "train", "batch", "size"),
    "transformers": ("seed", "dtype", "train", "batch", "size", "length", "layers"),
    "diffusers": ("seed", "dtype", "train", "batch", "size", "length", "layers"),
    "open_clip": ("seed", "dtype", "train", "batch", "size"),
    "pyg": ("seed", "dtype", "train"),
    "pytorchcv": ("seed", "dtype", "train", "batch", "size"),
    "ops": ("seed", "dtype"),
    "modules": ("seed", "dtype", "train"),
    "onnx": ("seed",),
    "hub": ("seed", "dtype", "train", "batch", "size", "length", "layers"),
    "torchhub": ("seed", "dtype", "train", "batch", "size"),
    "records": ("seed", "dtype"),
    "graphnet": ("seed", "dtype"),
    "python": ("seed", "dtype", "train"),
    "pt2": ("seed",),
    "graph": (),
}


def parse(text: str) -> Source:
    """Take a source apart. Raises `SourceError` where it follows no known form."""
    found = _OPTIONS.search(text)
    body = text[: found.start()] if found else text
    pairs = found.group(1).split("&") if found else []
    options = dict(pair.split("=", 1) for pair in pairs)
    head, colon, tail = body.partition(":")
    if colon and head in SCHEMES:
        if not tail:
            raise SourceError(f"{text}: nothing after {head}:; write {head}:{SCHEMES[head]}")
        return Source(text, head, tail, options)
    path, colon, name = body.rpartition(":")
    if colon and path and name.isidentifier():
        if not path.endswith(".py") and not all(part.isidentifier() for part in path.split(".")):
            raise SourceError(f"{text}: {path!r} is neither a .py file nor a module{suggest(path, SCHEMES)}")
        return Source(text, "python", body, options)
    forms = ", ".join(f"{scheme}:{rest}" for scheme, rest in SCHEMES.items())
    raise SourceError(
        f"{text}: no source; write FILE.py:CALLABLE, PACKAGE.MODULE:CALLABLE, {forms}{suggest(head, SCHEMES)}"
    )


def settings(source: Source) -> Settings:
    """The source's options as values. Raises `SourceError` naming the option that is wrong."""
    understood = UNDERSTOOD[source.scheme]
    values: dict[str, int | str | bool] = {}
    for name, value in source.options.items():
        if name not in understood:
            known = ", ".join(understood) or "none"
            raise SourceError(f"{source.text}: no option {name!r} here; there are: {known}")
        values[name] = _value(source.text, name, value)
    return Settings(**values)  # pyright: ignore[reportArgumentType] # each option has one type, checked in _value


def _value(text: str, name: str, value: str) -> int | str | bool:
    if name == "dtype":
        if value not in TORCH_DTYPES or kind_of(value) != "float":
            floats = ", ".join(dtype for dtype in TORCH_DTYPES if kind_of(dtype) == "float")
            raise SourceError(f"{text}: dtype={value} is no floating dtype; there are: {floats}")
        return value
    if name == "train":
        if value not in ("0", "1"):
            raise SourceError(f"{text}: train={value}; write train=1 or train=0")
        return value == "1"
    least = 0 if name == "seed" else 1
    if not value.isdecimal() or int(value) < least:
        raise SourceError(f"{text}: {name}={value}; it takes a whole number from {least} up")
    return int(value)


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean …?` with the nearest names, or nothing where none is near."""
    lowered = {other.lower(): other for other in known}
    near = [lowered[match] for match in difflib.get_close_matches(name.lower(), lowered, n=3, cutoff=0.6)]
    return f"; did you mean {', '.join(near)}?" if near else ""


def one_line(error: BaseException) -> str:
    """An exception as one readable line: its type, and the first line of its message."""
    lines = str(error).strip().splitlines()
    first = lines[0].strip()[:300] if lines else ""
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
