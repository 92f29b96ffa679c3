"""Compares the arguments of a call in a user's code with the signatures and the samples of a function of PyTorch."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.torch_private.overloads import schema_of

#: Options of a call: the value of each where that is a text, a truth value or None; `DEFAULT`; else `...`.
Options = Mapping[str, object]
#: Names that NumPy's users may write.
_ALIASES: Final = {"axis": "dim", "axes": "dims", "keepdims": "keepdim", "input": "self", "x": "self", "a": "self"}
#: The value of an option that a call leaves out, or gives as it is by default.
DEFAULT: Final = "(default)"
_EMPTY: Final = inspect.Parameter.empty
_METHOD: Final = "torch.Tensor."


@dataclass(frozen=True)
class Signature:
    """One list of parameters. positional: their names, without `self` for a method. defaults: by name; `...` for none.
    any_count: the first takes any number of arguments, as `x.permute(0, 1)` does."""

    positional: tuple[str, ...]
    defaults: Options
    any_count: bool = False

    def takes(self, positional: int, keywords: Iterable[str]) -> bool:
        """Tells whether a call with so many positional arguments, and these keywords, fits."""
        named = {_ALIASES.get(name, name) for name in keywords}
        if not named <= self.defaults.keys() or (positional > len(self.positional) and not self.any_count):
            return False
        return all(self.defaults[name] is not ... or name in named for name in self.positional[positional:])


@functools.cache
def signatures_of(full: str) -> tuple[Signature, ...]:
    """Returns the signatures of `torch.nn.functional.gelu`, `torch.nn.Conv2d` or `torch.Tensor.cumsum`, one for each
    overload; none where they are not known."""
    function = _object(full)
    skipped = int(full.startswith(_METHOD))
    if function is None:
        return ()
    if inspect.isclass(function) or inspect.isfunction(function):
        try:
            return _python_signatures(inspect.signature(function), skipped)
        except (TypeError, ValueError):
            return ()
    packet: Any = getattr(torch.ops.aten, getattr(function, "__name__", ""), None)
    overloads = () if packet is None else (getattr(packet, name) for name in packet.overloads())
    schemas: list[Any] = [schema_of(each) for each in overloads]
    schemas = [each for each in schemas if not any(a.name == "out" for a in each.arguments)]
    # TorchScript has overloads for numbers and lists too: `log.int_int`, `mul.left_t`.
    of_tensors = [each for each in schemas if each.arguments and "Tensor" in str(each.arguments[0].type)]
    return tuple(_schema_signatures(each, skipped) for each in of_tensors or schemas)


def is_tensor_method(name: str, positional: int, keywords: Iterable[str], complete: bool = True) -> bool:
    """Tells whether tensors have a method of this name that takes these arguments. `complete`: there are no others."""
    if not callable(getattr(torch.Tensor, name, None)):
        return False
    known = signatures_of(_METHOD + name)
    return not complete or not known or any(each.takes(positional, keywords) for each in known)


def options_of(full: str, positional: Sequence[object], keywords: Options) -> Options:
    """Returns the options of a call by name, `DEFAULT` for those that have the default. A positional argument has the
    names of all overloads that take so many.

    positional, keywords: a text, a truth value, None, a number, or the name of a member of `torch`, where known; else
    `...`. A dtype (`torch.half`) is an option by its name, and another member of `torch` is not known.
    """
    known = signatures_of(full)
    positional, keywords = [*map(_named, positional)], {name: _named(value) for name, value in keywords.items()}
    fitting = [each for each in known if each.takes(len(positional), keywords)] or list(known)
    operand = int(not full.startswith(_METHOD))
    options: dict[str, object] = {}
    for each in fitting:
        given = dict(zip(each.positional[operand:], positional[operand:], strict=False))
        given |= {_ALIASES.get(name, name): value for name, value in keywords.items()}
        for name, default in each.defaults.items():
            if name in given and (default is ... or not _same(given[name], default)):
                # Numbers are dimensions and sizes mostly: another one is the same option.
                options[name] = given[name] if isinstance(given[name], (str, bool, type(None))) else ...
            elif name in given or default is not ...:
                options.setdefault(name, DEFAULT)
    return options if known else dict(keywords)


def uses_only(sample: Options, calls: Iterable[Options]) -> bool:
    """Tells whether a sample passes only options that some call passes, and texts and truth values that one has."""
    given: dict[str, list[object]] = {}
    for call in calls:
        for name, value in call.items():
            given.setdefault(name, []).append(value)
    return all(
        (value is DEFAULT and name not in given)
        or (name in given and any(each is ... or value is each or _same(value, each) for each in given[name]))
        or (value is ... and any(each is not DEFAULT for each in given.get(name, ())))
        for name, value in sample.items()
    )


def shows_dtypes(sample: Options, calls: Iterable[Options]) -> bool:
    """Tells whether a sample passes no dtype but those that some call passes, or may pass."""
    given = {(name, value) for call in calls for name, value in call.items()}
    dtypes = [(name, value) for name, value in sample.items() if isinstance(value, str) and value.startswith("torch.")]
    return all(each in given or (each[0], ...) in given for each in dtypes)


def _named(value: object) -> object:
    """The name of a dtype that a text names; `...` for another member of `torch`."""
    if not isinstance(value, str) or not value.startswith("torch."):
        return value
    member = getattr(torch, value.removeprefix("torch."), None)
    return str(member) if isinstance(member, torch.dtype) else ...


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _object(full: str) -> Any:
    module, _, name = full.rpartition(".")
    try:
        holder: Any = torch.Tensor if full.startswith(_METHOD) else importlib.import_module(module)
    except ImportError:
        return None
    return getattr(holder, name, None)


def _python_signatures(signature: inspect.Signature, skipped: int) -> tuple[Signature, ...]:
    parameters = list(signature.parameters.values())[skipped:]
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters):
        return ()
    positional = tuple(each.name for each in parameters if each.kind is not each.KEYWORD_ONLY)
    defaults = {each.name: ... if each.default is _EMPTY else each.default for each in parameters}
    return (Signature(_renamed(positional), dict(zip(_renamed(defaults), defaults.values(), strict=True))),)


def _schema_signatures(schema: Any, skipped: int) -> Signature:
    parameters = list(schema.arguments)[skipped:]
    positional = _renamed(each.name for each in parameters if not each.kwarg_only)
    names = _renamed(each.name for each in parameters)
    defaults = [each.default_value if each.has_default_value() else ... for each in parameters]
    any_count = bool(parameters) and "List[int]" in str(parameters[0].type)
    return Signature(positional, dict(zip(names, defaults, strict=True)), any_count)


def _renamed(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(_ALIASES.get(name, name) for name in names)
