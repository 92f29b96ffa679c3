"""What a worker must know of a framework: its public functions, its arrays, and how a call runs on each target."""

from __future__ import annotations

import inspect
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final, Protocol

import numpy as np

from mindgap.graph import Array
from mindgap_studies.porting_runs.function_calls import Drawn, FunctionCall
from mindgap_studies.results.ported_functions import Reason

#: A call that a table holds for a function whose arguments its signature does not tell.
SpecialCall = Callable[[Drawn], tuple[Callable[..., Any], tuple[Any, ...]]]


def one_call(function: Callable[..., Any], *kinds: Callable[[Drawn], Any]) -> tuple[SpecialCall, ...]:
    """Returns the entry of a function with one call. `kinds`: what makes each of its arguments."""
    return (lambda draw: (function, tuple(kind(draw) for kind in kinds)),)


def example_row(draw: Drawn) -> Any:
    """Makes a vector of 8 numbers from -1 to 1, float32."""
    return draw.array(np.linspace(-1.0, 1.0, 8, dtype=np.float32))


def example_square(draw: Drawn) -> Any:
    """Makes a 4 × 4 matrix of numbers from 0.1 to 0.9, float32."""
    return draw.array(np.linspace(0.1, 0.9, 16, dtype=np.float32).reshape(4, 4))


class NoArrays(ValueError):
    """An output is no array, nor holds arrays alone."""


class FrameworkModes(Protocol):
    """A framework with its source and targets. `source`: the name of the source. `packages`: named with versions."""

    source: str
    packages: tuple[str, ...]

    def targets(self) -> Mapping[str, Callable[[FunctionCall], Callable[[], Any]]]:
        """By name, how a call is brought to a target: the result runs it, and compiles with its first call."""
        ...

    def missing(self, target: str) -> str:
        """Why a target is not available here, empty where it is. Starts the framework's runtime."""
        ...

    def public(self) -> Mapping[str, Callable[..., Any]]:
        """All public functions by full name; of several names of one function, one."""
        ...

    def special(self) -> Mapping[str, Sequence[SpecialCall]]:
        """Calls of functions whose signatures do not tell their arguments."""
        ...

    def make(self, array: Array, dtype: str) -> Any: ...

    def key(self) -> Any: ...

    def is_array(self, value: Any) -> bool: ...

    def is_random(self, name: str) -> bool:
        """Whether a function may draw other numbers on each target, by the framework's documentation."""
        ...

    def run_exact(self, call: FunctionCall) -> Any:
        """Runs a call on the source with float64 and complex128 in the place of narrower floats."""
        ...

    def run_source(self, call: Callable[[], Any]) -> Any:
        """Runs a call on the source, and waits for its end."""
        ...

    def wait(self, output: Any) -> Any: ...

    def leaves(self, output: Any) -> list[Any]:
        """Returns the values in an output, in order, and arrays of the framework as numpy's."""
        ...


def arrays_of(modes: FrameworkModes, output: Any) -> list[Array]:
    """Returns the arrays of an output. Raises `NoArrays` where it has none, or holds something else."""
    leaves = [leaf for leaf in modes.leaves(output) if leaf is not None]
    for leaf in leaves:
        if not isinstance(leaf, (np.ndarray, np.generic, int, float, complex, bytes)):
            raise NoArrays(f"it gives a {type(leaf).__name__}, not arrays")
    if not any(isinstance(leaf, (np.ndarray, np.generic, bytes)) for leaf in leaves):
        raise NoArrays("it gives no array")
    return [np.asarray(leaf) for leaf in leaves]


def widened(array: Array) -> Array:
    """Returns floats as float64 and complex numbers as complex128; anything else as it is."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def uses_of_public(public: Mapping[str, Callable[..., Any]], calls: Mapping[str, int]) -> Counter[str]:
    """Counts calls by public function. A call by another name of the same function, also from an inner module of the
    framework, counts for it."""
    names = {id(function): name for name, function in public.items()}
    uses: Counter[str] = Counter()
    for name, count in calls.items():
        known = names.get(id(_object_at(name)))
        if known is not None:
            uses[known] += count
    return uses


def _object_at(name: str) -> Any:
    """The object of a full name in modules that are loaded; None where there is none."""
    parts = name.split(".")
    for length in range(len(parts) - 1, 0, -1):
        value: Any = sys.modules.get(".".join(parts[:length]))
        if value is None:
            continue
        for part in parts[length:]:
            try:
                value = getattr(value, part)
            except Exception:  # lazy attributes of a package may import, and raise anything
                return None
        return value
    return None


def functions_of(modules: Mapping[str, ModuleType]) -> dict[str, Callable[..., Any]]:
    """The public functions of modules by full name, those of earlier modules first. Classes are no functions."""
    callables: dict[int, tuple[str, Callable[..., Any]]] = {}
    for prefix, module in modules.items():
        for name in getattr(module, "__all__", None) or sorted(vars(module)):
            value = getattr(module, name, None)
            if name.startswith("_") or not callable(value) or inspect.isclass(value) or inspect.ismodule(value):
                continue
            callables.setdefault(id(value), (f"{prefix}.{name}", value))
    return dict(callables.values())


def inner_modules(prefix: str, module: ModuleType, left_out: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yields a module and the public modules in it, outer ones first, four levels."""
    level, seen = [(prefix, module)], {id(module)}
    for _ in range(4):
        yield from level
        inner = [
            (f"{name}.{part}", value)
            for name, each in level
            for part, value in sorted(vars(each).items())
            if inspect.ismodule(value) and not part.startswith("_") and part not in left_out
            and value.__name__.startswith(prefix)
        ]  # fmt: skip
        level = [(name, value) for name, value in dict(inner).items() if id(value) not in seen]
        seen |= {id(value) for _, value in level}


#: Names of operators, whose words are no reason: `aten.to.dtype`, `prims::convert_element_type`.
_OPERATOR: Final = re.compile(r"\b(?:_?aten|_?prims?|_?quantized\w*|torchvision|torchaudio)(?:\.|::)\w+(?:\.\w+)?")
#: What says plainly that something is not implemented.
_LACKING: Final = (
    r"lowering not found",
    r"not implemented|notimplemented|not support|unsupported|isn't supported|unimplemented",
    r"no (lowering|conversion|opkernel|kernel|translation)|not available|not a registered|has no ",
)
#: What messages of targets say, by reason; the first that matches counts.
_TEXTS: Final[tuple[tuple[Reason, str], ...]] = (
    ("memory", r"out of memory|resource.exhausted|bad_alloc|memoryerror|cannot allocate memory"),
    ("time-out", r"deadline|timed out|time-out|timeouterror"),
    ("not implemented", _LACKING[0]),
    ("error", r"\battributeerror: .*has no attribute"),
    ("type failure", r"dtype|data ?type|input type|element type|type mismatch|tensor\(\w+\)|bfloat16|complex64"),
    ("type failure", r"does not support (complex|bool|int|float|double|half)|(for|of) type (complex|bool|int|float)"),
    *(("not implemented", pattern) for pattern in _LACKING[1:]),
    ("not implemented", r"(could not find|without) an implementation|custom op|flex|cannot convert|fully converted"),
    ("not implemented", r"concrete|tracer|data-dependent|symbolic|abstract|must be known|statically|compile-time"),
    ("type failure", r"typeerror"),
)  # fmt: skip


def reason_of(text: str) -> Reason:
    """Returns the paper's reason for what a target said (error type and message); `error` where none fits."""
    lowered = _OPERATOR.sub("_", text.lower())
    before, _, _ = lowered.partition("attributeerror: ")
    if any(re.search(pattern, before) for pattern in _LACKING):
        lowered = before  # the error is of the code that goes on without an implementation
    for reason, pattern in _TEXTS:
        if re.search(pattern, lowered):
            return reason
    return "error"
