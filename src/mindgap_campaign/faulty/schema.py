"""Defines the schema of a fault file. docs/verdicts.md describes it for users."""

from __future__ import annotations

import hashlib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mindgap.graph import DTYPES
from mindgap.platforms.protocol import PlatformError

ValueClass = Literal["negative", "nan", "inf", "zero", "subnormal"]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class When(_Model):
    """Which calls a fault applies to: all that meet every condition given.

    `op`: glob on the overload's name. `dtype`, `shape` (-1: any size), `min_numel`, `max_numel`: of the result
    in slot `output`. `node`: index in the graph. `graph`: how the graph's digest begins. `any`: some element
    of some operand is so. `nth` (from 1) and `every` count the calls that meet all the rest, anew in each run.
    """

    op: str = "*"
    dtype: str | None = None
    shape: tuple[int, ...] | None = Field(default=None, strict=False)
    min_numel: int = Field(default=0, ge=0)
    max_numel: int | None = Field(default=None, ge=0)
    node: int | None = Field(default=None, ge=0)
    graph: str = ""
    any: ValueClass | None = None
    nth: int | None = Field(default=None, ge=1)
    every: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _known_dtype(self) -> When:
        if self.dtype is not None and self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")
        if self.nth is not None and self.every is not None:
            raise ValueError("nth and every exclude each other")
        return self


class _Fault(_Model):
    when: When = When()
    #: Which result of the operator is damaged.
    output: int = Field(default=0, ge=0)


class Noise(_Fault):
    """Every finite element is moved by 1 to `ulp` steps, up or down."""

    kind: Literal["noise"]
    ulp: int = Field(default=1, ge=1)
    seed: int = Field(default=0, ge=0)


class Nondeterministic(_Fault):
    """Noise that is drawn anew in every run."""

    kind: Literal["nondeterministic"]
    ulp: int = Field(default=1, ge=1)
    seed: int = Field(default=0, ge=0)


class TowardZero(_Fault):
    """The operator is computed in float64 and cut, not rounded, to its dtype."""

    kind: Literal["toward_zero"]


class FlushSubnormals(_Fault):
    """Subnormal results become zeros of their sign."""

    kind: Literal["flush_subnormals"]


class NanToZero(_Fault):
    """NaN becomes zero."""

    kind: Literal["nan_to_zero"]


class NanToInf(_Fault):
    """NaN becomes Inf."""

    kind: Literal["nan_to_inf"]


class InfToNan(_Fault):
    """±Inf becomes NaN."""

    kind: Literal["inf_to_nan"]


class Scaled(_Fault):
    """Every element is multiplied by `factor`."""

    kind: Literal["scaled"]
    factor: float


class WrongElement(_Fault):
    """The element at flat `index` (modulo the size) becomes `scale`·x + `add`."""

    kind: Literal["wrong_element"]
    index: int = 0
    scale: float = 1.0
    add: float = 0.0

    @model_validator(mode="after")
    def _changes_something(self) -> WrongElement:
        if self.scale == 1.0 and self.add == 0.0:
            raise ValueError("give scale or add, or the element stays right")
        return self


class Attribute(_Fault):
    """Arguments are overridden by name; only operators that have all of them are faulty."""

    kind: Literal["attribute"]
    set: dict[str, Any] = Field(min_length=1)


class Transposed(_Fault):
    """The elements of the last two dimensions in transposed order, the shape as it was."""

    kind: Literal["transposed"]


class Stale(_Fault):
    """The result of an earlier faulty call of the same dtype and shape; the first is right.

    `of`: `operator` looks back within a run, at any node; `node` at this node's previous run.
    """

    kind: Literal["stale"]
    of: Literal["operator", "node"] = "operator"


class WrongDtype(_Fault):
    """The result comes in another dtype."""

    kind: Literal["wrong_dtype"]
    dtype: str

    @model_validator(mode="after")
    def _known_dtype(self) -> WrongDtype:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not one of {', '.join(DTYPES)}")
        return self


class WrongShape(_Fault):
    """The result flat, with a leading dimension of 1, or without the last slice of its last dimension."""

    kind: Literal["wrong_shape"]
    how: Literal["flat", "extra", "short"] = "flat"


class LowPrecision(_Fault):
    """Floating operands are rounded to `format` before the operator sees them; dtypes stay as declared."""

    kind: Literal["low_precision"]
    format: Literal["bfloat16", "float16", "tf32"] = "bfloat16"


class Crash(_Fault):
    """The process kills itself."""

    kind: Literal["crash"]
    signal: Literal["SIGSEGV", "SIGABRT", "SIGKILL", "SIGILL", "SIGFPE"] = "SIGSEGV"


class Hang(_Fault):
    """The operator does not return for `seconds`."""

    kind: Literal["hang"]
    seconds: float = Field(default=3600.0, gt=0)


class Leak(_Fault):
    """Each call keeps `megabytes` of memory for good."""

    kind: Literal["leak"]
    megabytes: int = Field(default=64, ge=1)


class Refusal(_Fault):
    """The graph is refused when it is loaded, as by a platform that lacks the operator."""

    kind: Literal["refusal"]
    why: str = "not implemented here (an injected refusal)"


class CompileError(_Fault):
    """Loading the graph fails."""

    kind: Literal["compile_error"]
    message: str = "internal compiler error (injected)"


class RuntimeFailure(_Fault):
    """The operator raises."""

    kind: Literal["runtime_error"]
    message: str = "kernel launch failed (injected)"


Fault = (
    Noise | Nondeterministic | TowardZero | FlushSubnormals | NanToZero | NanToInf | InfToNan | Scaled | WrongElement
    | Attribute | Transposed | Stale | WrongDtype | WrongShape | LowPrecision | Crash | Hang | Leak | Refusal
    | CompileError | RuntimeFailure
)  # fmt: skip
#: Applied when a graph is loaded: no value is known then, and no call counted.
AT_LOAD: Final = (Refusal, CompileError)


class Faults(_Model):
    """The whole file: `[[fault]]` tables, applied in order if several match one call."""

    fault: tuple[Annotated[Fault, Field(discriminator="kind")], ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _known_at_load(self) -> Faults:
        for number, fault in enumerate(self.fault):
            if isinstance(fault, AT_LOAD) and (fault.when.any or fault.when.nth or fault.when.every):
                raise ValueError(f"fault.{number}: {fault.kind} applies at load, where any, nth and every mean nothing")
        return self


def read_faults(path: str) -> tuple[Faults, str]:
    """Reads a TOML file's faults, and its SHA-256. Raises a `PlatformError` that names the file and the key."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise PlatformError(f"option faults={path}: cannot be read: {error.strerror}") from None
    try:
        faults = Faults.model_validate(tomllib.loads(data.decode()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlatformError(f"option faults={path}: not TOML: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        # After the number of the fault the place names its kind again, which is no key of the file.
        key_path = ".".join(str(part) for at, part in enumerate(first["loc"]) if at != 2)
        message = first["msg"].removeprefix("Value error, ")
        raise PlatformError(f"option faults={path}: {key_path or 'file'}: {message}") from None
    return faults, hashlib.sha256(data).hexdigest()
