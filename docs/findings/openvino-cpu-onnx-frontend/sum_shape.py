"""reduced: openvino/cpu@frontend=onnx,precision=f32 against cpu/eager, 1 nodes.

Recorded: structural, blamed on the platform. another shape or dtype than declared on
openvino/cpu@frontend=onnx,precision=f32: aten.sum.default

python FILE.py [--json] [--save OUTPUTS.pt] [--no-culprit] [--in-process]; it needs torch, numpy and openvino.
It runs the model in eager mode, in float64, and on the platform by the way that its users go. It prints how
far the two are from float64 and from each other. The last line is JSON. Exit status: 0 if they agree within
TOLERANCES, 1 if they do not or the platform fails, 2 if eager itself fails.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import math
import numpy as np
import os
import platform
import signal
import struct
import subprocess
import sys
import tempfile
import time
import torch
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from math import inf, nan
from torch.overrides import TorchFunctionMode
from typing import Any


#: (rtol, atol) by dtype, as in torch.testing.assert_close (narrower for float64): floats differ where
#: |a - b| > atol + rtol * |a|. Anything else differs where it is not equal.
TOLERANCES = {'bfloat16': (0.016, 1e-05)}
#: Seconds that the platform may take.
TIMEOUT_S = 300.0
#: Of dtypes, shapes, strides and bytes of the arguments and then of the weights.
INPUTS_SHA256 = "1447d763c0e26e4e8c7733562377315c6b1c296d0b6d39e96f4228fcaaa9cb03"
#: What was measured when the case ran; of each output at most 8 elements.
RECORDED = {'row': {}}


def make_arguments():
    """The arguments of Model.forward."""
    x0 = torch.empty((0, 0, 0), dtype=torch.bfloat16)
    return [x0]


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.ops.aten.sum.default(x0)  # node 0: bfloat16[]
        return (v1,)


class Culprit(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.ops.aten.sum.default(x0)  # node 0: bfloat16[]
        return (v1,)


# --------------------------------------------------------------------------------------------------------------------
# From here on scripts differ only in the parts that their platforms and inputs need.
# --------------------------------------------------------------------------------------------------------------------


# Makes tensors from bits, copies them with their strides, computes their checksums.

#: Integers of the same width: how bits are moved without a conversion.
CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}


def from_bits(text: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Makes a tensor from its row-major, little-endian bytes in hexadecimal."""
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8).view(dtype).reshape(shape)


def unpacked(text: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Makes a tensor from bytes compressed by zlib and written in base 85."""
    data = bytearray(zlib.decompress(base64.b85decode("".join(text.split()))))
    return torch.frombuffer(data, dtype=torch.uint8).view(dtype).reshape(shape)


def loaded(file: str, name: str, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Makes a tensor from an array of bytes in an .npz file beside this script."""
    with np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), file)) as arrays:
        return torch.from_numpy(arrays[name]).view(dtype).reshape(shape)


def strided(values: torch.Tensor, stride: Sequence[int]) -> torch.Tensor:
    """Lays values out with these strides (in elements). Elements that share memory must be equal."""
    count = 1 + sum(step * (size - 1) for step, size in zip(stride, values.shape, strict=True)) if values.numel() else 0
    carrier = CARRIERS[values.element_size()]
    memory = torch.zeros(count, dtype=values.dtype)
    places = torch.arange(count).as_strided(values.shape, stride) if count else torch.empty(0, dtype=torch.int64)
    memory.view(carrier)[places.flatten()] = values.contiguous().view(-1).view(carrier)
    return memory.as_strided(values.shape, stride)


def memory_of(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the memory from a tensor's first to its last element, in one dimension."""
    steps = zip(tensor.stride(), tensor.shape, strict=True)
    count = 1 + sum(step * (size - 1) for step, size in steps) if tensor.numel() else 0
    return tensor.as_strided((count,), (1,), tensor.storage_offset())


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Copies with the same strides, overlapping ones included."""
    return memory_of(tensor).clone().as_strided(tensor.shape, tensor.stride(), 0)


def recast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Copies to another dtype with the same strides."""
    return memory_of(tensor).to(dtype, copy=True).as_strided(tensor.shape, tensor.stride(), 0)


def widened(tensor: torch.Tensor) -> torch.Tensor:
    """Copies to float64 or complex128 with the same strides; other dtypes stay."""
    return recast(tensor, wide_dtype(tensor.dtype))


def wide_dtype(dtype: torch.dtype) -> torch.dtype:
    """Returns float64 for a float, complex128 for a complex, else the same dtype."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


def epsilon(dtype: torch.dtype) -> float:
    """Returns the gap after 1. torch.finfo gives 0.125 for float8_e5m2fnuz, which has two bits of fraction."""
    return 0.25 if dtype == torch.float8_e5m2fnuz else torch.finfo(dtype).eps


def require_known(options: dict[str, str], known: str, platform: str) -> None:
    """Raises `ValueError` for an unknown option. `known`: names, separated by spaces."""
    unknown = sorted(set(options) - set(known.split()))
    if unknown:
        raise ValueError(f"this script knows no option {', '.join(unknown)} of {platform}")


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Lists the tensors in nested lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def with_tensors(value: Any, change: Any) -> Any:
    """Applies `change` to each item of a nested value that is no list, tuple or dict."""
    if isinstance(value, (list, tuple)):
        return [with_tensors(item, change) for item in value]
    if isinstance(value, dict):
        return {key: with_tensors(item, change) for key, item in value.items()}
    return change(value)


def checksum(tensors: Sequence[torch.Tensor]) -> str:
    """Computes the SHA-256 of dtype, shape, strides (none of an empty tensor) and row-major bytes of each tensor."""
    found = hashlib.sha256()
    for tensor in tensors:
        name = str(tensor.dtype).removeprefix("torch.")
        stride = list(tensor.stride()) if tensor.numel() else []
        found.update(f"{name}{list(tensor.shape)}{stride}".encode())
        plain = tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)
        found.update(plain.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


# Runs the program in float64, without rounding to the declared dtypes.

#: Operators whose meaning is in the bits of the declared dtype: run in that dtype.
BITWISE = ("aten.view.dtype", "aten.nextafter", "aten.frexp", "aten._scaled_mm", "aten._weight_int")
#: Operators whose float scalar sets a size.
SIZED = ("upsample", "interpolate")


@dataclass
class Call:
    """One operator call of the run in the declared dtypes. `fresh`: which results share no memory with an operand."""

    operands: list[torch.dtype]
    results: list[torch.dtype]
    fresh: list[bool]


@dataclass
class Watched:
    """All calls of a run, and copies of the operands of one of them."""

    calls: list[Call] = field(default_factory=list)
    kept: list[torch.Tensor] = field(default_factory=list)


class Watch(TorchFunctionMode):
    """Records the operator calls of a run. `keep`: the number of the call whose operands are copied."""

    def __init__(self, keep: int | None = None) -> None:
        super().__init__()
        self.keep = keep
        self.seen = Watched()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        operands = list(tensors_in([args, kwargs]))
        if len(self.seen.calls) == self.keep:
            self.seen.kept = [copied(operand.detach()) for operand in operands]
        result = func(*args, **kwargs)
        results = list(tensors_in(result))
        owned = {memory_id(operand) for operand in operands}
        self.seen.calls.append(
            Call([t.dtype for t in operands], [t.dtype for t in results], [memory_id(t) not in owned for t in results])
        )
        return result


class Float64(TorchFunctionMode):
    """Runs operators on float64 in place of every float dtype, complex128 in place of every complex one.

    `calls`: the same calls in their declared dtypes. `narrow`: numbers of the calls that ran in the declared dtypes
    because the operator has no float64 form, with the reason.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.calls = calls
        self.number = -1
        self.narrow: dict[int, str] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        self.number += 1
        call = self.calls[self.number]
        if str(func).startswith(BITWISE):
            return self.in_declared(func, args, kwargs, call, "depends on the bits of its dtype")
        try:
            wide = self.wide_argument(func, call)
            named = with_defaults(func, args, with_tensors(kwargs, wide), call)
            result = func(*with_tensors(list(args), wide), **named)
        except Exception as error:
            return self.in_declared(func, args, kwargs, call, f"{type(error).__name__}: {first_line(error)}")
        return self.separated(result, args, kwargs, call)

    def wide_argument(self, func: Any, call: Call) -> Any:
        """Widens an argument: dtypes to 64 bits, float scalars to the value that a declared-dtype kernel uses."""
        reals = [d for d in (*call.results, *call.operands) if d.is_floating_point or d.is_complex]
        double = not call.operands or not reals or any(wide_dtype(d) == d for d in reals)
        softmax = str(func).startswith(("aten._softmax.", "aten._log_softmax."))

        def change(value: Any) -> Any:
            if isinstance(value, torch.dtype):
                return wide_dtype(value)
            if value is True and softmax:
                return False  # half_to_float: for half precision only
            if isinstance(value, float) and not double and not any(word in str(func) for word in SIZED):
                return as_float32(value)
            if isinstance(value, torch.Tensor) and value.dtype != wide_dtype(value.dtype):
                return widened(value)
            return value

        return change

    def separated(self, result: Any, args: Any, kwargs: Any, call: Call) -> Any:
        """Copies a result where the declared call made a copy: float64 to float64 returns its operand."""
        owned = {memory_id(operand) for operand in tensors_in([args, kwargs])}
        fresh = iter(call.fresh)

        def change(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return copied(value) if next(fresh, False) and memory_id(value) in owned else value

        return with_tensors(result, change) if isinstance(result, (list, tuple)) else change(result)

    def in_declared(self, func: Any, args: Any, kwargs: Any, call: Call, why: str) -> Any:
        """Makes the call in the declared dtypes; widens its results and the operands that it wrote to."""
        self.narrow[self.number] = f"{func}: {why}"
        dtypes = iter(call.operands)
        pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

        def change(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            narrow = recast(value, next(dtypes))
            pairs.append((value, narrow))
            return narrow

        with default_dtype(torch.float32):
            result = func(*with_tensors(list(args), change), **with_tensors(kwargs, change))
        if any(argument.alias_info and argument.alias_info.is_write for argument in func._schema.arguments):
            for value, narrow in pairs:
                value.copy_(narrow)
            originals = {id(narrow): value for value, narrow in pairs}
            return with_tensors([result], lambda made: originals.get(id(made), made))[0]
        return with_tensors([result], lambda made: widened(made) if isinstance(made, torch.Tensor) else made)[0]


class default_dtype:
    """Sets the default dtype within a block."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __enter__(self) -> None:
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(self.before)


def with_defaults(func: Any, args: Any, kwargs: dict[str, Any], call: Call) -> dict[str, Any]:
    """Fills in arguments whose default depends on the dtype, with the declared dtype's default."""
    reals = [dtype for dtype in call.operands if dtype.is_floating_point]
    defaults: dict[str, float] = {}
    if reals and str(func).startswith("aten.rms_norm"):
        narrow = torch.finfo(reals[0]).bits <= 16
        defaults = {"eps": torch.finfo(torch.float32 if narrow else reals[0]).eps}
    elif reals and str(func).startswith("aten.nan_to_num"):
        defaults = {"posinf": torch.finfo(reals[0]).max, "neginf": torch.finfo(reals[0]).min}
    names = [argument.name for argument in func._schema.arguments]
    given = {names[place] for place, value in enumerate(args) if value is not None}
    free = {name: value for name, value in defaults.items() if name not in given and names.index(name) >= len(args)}
    return {**free, **{name: value for name, value in kwargs.items() if value is not None or name not in free}}


def as_float32(value: float) -> float:
    """Returns the scalar that a float32 kernel uses."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def memory_id(tensor: torch.Tensor) -> int:
    """Returns a number that is equal for tensors that share memory."""
    return tensor.untyped_storage()._cdata


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message."""
    return next(iter(str(error).splitlines()), "")[:300]


# Compares two sides with float64, element by element.

#: How many elements are printed, and counted as worst.
SHOWN = 5


def compared(
    declared: Sequence[tuple[str, list[int]]],
    reference: Sequence[torch.Tensor] | None,
    platform: Sequence[torch.Tensor] | None,
    exact: Sequence[torch.Tensor] | None,
    tolerances: dict[str, tuple[float, float]],
) -> list[dict[str, Any]]:
    """Returns a record for each output. A side is None if it did not run."""
    return [
        one_output(dtype, shape, item(reference, i), item(platform, i), item(exact, i), tolerances.get(dtype))
        for i, (dtype, shape) in enumerate(declared)
    ]


def one_output(
    dtype: str,
    shape: list[int],
    reference: torch.Tensor | None,
    platform: torch.Tensor | None,
    exact: torch.Tensor | None,
    tolerance: tuple[float, float] | None,
) -> dict[str, Any]:
    """Compares both sides with float64 and with each other. `tolerance`: (rtol, atol) of the dtype."""
    truth = None if exact is None else numbers(exact)
    found: dict[str, Any] = {"dtype": dtype, "shape": shape, "float64_is_wider": is_narrow(getattr(torch, dtype))}
    for name, side in (("eager", reference), ("platform", platform)):
        found[name] = None if side is None else one_side(side, dtype, shape, truth)
    if reference is None or platform is None:
        return found
    a, b = numbers(reference), numbers(platform)
    if a.shape != b.shape:
        return found | {"differs": f"shape {list(b.shape)}, eager has {list(a.shape)}"}
    differing = bits_differ(a, b)
    nan, infinite = np.isnan(f64(a)) != np.isnan(f64(b)), infinities(a) != infinities(b)
    beyond = beyond_tolerance(a, b, tolerance)
    found |= {
        "elements": int(a.size), "differing": int(differing.sum()), "nan_mismatch": int(nan.sum()),
        "inf_mismatch": int(infinite.sum()), "beyond_tolerance": int(beyond.sum()), "max_abs_diff": largest(gap(a, b)),
    }  # fmt: skip
    found["worst"] = worst(a, b, truth, beyond, nan | infinite)
    if reference.dtype != platform.dtype:
        return found | {"differs": f"dtype {platform.dtype}, eager has {reference.dtype}"}
    if found["nan_mismatch"] or found["inf_mismatch"]:
        return found | {"differs": "NaN or infinity in different places"}
    if found["beyond_tolerance"]:
        return found | {"differs": f"{found['beyond_tolerance']} of {a.size} elements beyond the tolerance"}
    return found | {"differs": ""}


def one_side(side: torch.Tensor, dtype: str, shape: list[int], truth: np.ndarray | None) -> dict[str, Any]:
    """Returns counts of a side, and its error against float64, also in ulp of the declared dtype."""
    own = numbers(side)
    found: dict[str, Any] = {
        "dtype": name_of(side.dtype), "shape": list(side.shape), "nan": int(np.isnan(f64(own)).sum()),
        "inf": int(np.isinf(f64(own)).sum()),
    }  # fmt: skip
    if truth is None or truth.shape != own.shape:
        return found
    error = gap(own, truth)
    found["max_abs_err"] = largest(error)
    found["nan_mismatch"] = int((np.isnan(f64(own)) != np.isnan(f64(truth))).sum())
    found["inf_mismatch"] = int((infinities(own) != infinities(truth)).sum())
    kind = getattr(torch, dtype)
    if kind.is_floating_point or kind.is_complex:
        found["max_ulp_err"] = largest(error / last_place(truth, kind))
    else:
        found["wrong"] = int((own != truth).sum())
    return found


def numbers(tensor: torch.Tensor) -> np.ndarray:
    """Converts to a numpy dtype that holds the values exactly; a complex tensor gains a last dimension of 2."""
    tensor = tensor.detach().resolve_conj().resolve_neg().cpu()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.is_floating_point():
        tensor = tensor.to(torch.float64 if tensor.dtype == torch.float64 else torch.float32)
    return tensor.contiguous().numpy()


def f64(values: np.ndarray) -> np.ndarray:
    """Converts to float64; integers beyond 2**53 are rounded."""
    return values.astype(np.float64)


def bits_differ(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns where values or signs of zero differ; NaN equals NaN."""
    differing = a != b
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        differing = (differing | (np.signbit(a) != np.signbit(b))) & ~(np.isnan(a) & np.isnan(b))
    return differing


def infinities(values: np.ndarray) -> np.ndarray:
    """Returns 1 for +inf, -1 for -inf, 0 for anything else."""
    wide = f64(values)
    return np.where(np.isinf(wide), np.sign(wide), 0)


def gap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns |a - b| in float64 where both are finite, 0 elsewhere; exact for integers that fit."""
    one, other = f64(a), f64(b)
    with np.errstate(all="ignore"):
        found = np.abs(one - other)
    if a.dtype.kind in "iu" and b.dtype.kind in "iu" and found.size and np.abs(one).max() >= 2.0**53:
        found = np.array([float(abs(int(x) - int(y))) for x, y in zip(a.flat, b.flat, strict=True)]).reshape(a.shape)
    return np.where(np.isfinite(one) & np.isfinite(other), found, 0.0)


def last_place(truth: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    """Returns the gap between neighbours of the dtype at each exact value."""
    about = torch.finfo(dtype)
    wide = np.abs(f64(truth))
    _, exponent = np.frexp(np.where(np.isfinite(wide), wide, 0.0))
    eps = epsilon(dtype)
    return np.maximum(np.ldexp(eps, exponent - 1), about.smallest_normal * eps)


def beyond_tolerance(a: np.ndarray, b: np.ndarray, tolerance: tuple[float, float] | None) -> np.ndarray:
    """Returns where finite floats differ by more than atol + rtol * |a|, and where anything else differs."""
    if tolerance is None or a.dtype.kind != "f":
        return a != b
    rtol, atol = tolerance
    return gap(a, b) > atol + rtol * np.where(np.isfinite(f64(a)), np.abs(f64(a)), 0.0)


def worst(
    a: np.ndarray, b: np.ndarray, truth: np.ndarray | None, beyond: np.ndarray, special: np.ndarray
) -> list[dict[str, Any]]:
    """Lists the elements that differ most: NaN and infinities first, then by the size of the difference."""
    rank = np.where(special, np.inf, np.where(bits_differ(a, b), gap(a, b), -1.0)).ravel()
    order = [int(i) for i in np.argsort(-rank, kind="stable")[:SHOWN] if rank[i] >= 0]
    known = truth is not None and truth.shape == a.shape
    return [
        {
            "index": [int(i) for i in np.unravel_index(place, a.shape)],
            "eager": a.flat[place].item(),
            "platform": b.flat[place].item(),
            "float64": truth.flat[place].item() if known and truth is not None else None,
        }
        for place in order
    ]


def show(records: Sequence[dict[str, Any]], width: int = 12) -> None:
    """Prints the records: whole ones where the sides differ, one line for each of the others."""
    for number, output in enumerate(records):
        title = f"output {number}: {output['dtype']}{output['shape']}"
        no_better = output["dtype"] in ("float64", "complex128")
        print(f"{title}{'  (float64 is no more exact than eager here)' if no_better else ''}"
              f"{'  DIFFERS: ' + output['differs'] if output.get('differs') else ''}")  # fmt: skip
        for name in ("eager", "platform"):
            print(f"  {name:<9} {side_line(output[name])}")
        if output.get("differing"):
            most, beyond = f"{output['max_abs_diff']:.6g}", output["beyond_tolerance"]
            print(f"  the sides differ in {output['differing']} of {output['elements']} elements, by {most} at most; "
                  f"{beyond} are beyond the tolerance")  # fmt: skip
        for row in output.get("worst") or ():
            cells = "  ".join(f"{name} {row[name]!r}" for name in ("eager", "platform", "float64"))
            print(f"    {row['index']!s:<{width}} {cells}")


def side_line(side: dict[str, Any] | None) -> str:
    """Formats one side as a line."""
    if side is None:
        return "did not run"
    parts = [f"{side['dtype']}{side['shape']}"]
    if "max_abs_err" in side:
        ulps = f" ({side['max_ulp_err']:.4g} ulp)" if "max_ulp_err" in side else f" ({side['wrong']} elements wrong)"
        parts.append(f"largest error against float64 {side['max_abs_err']:.6g}{ulps}")
        if side["nan_mismatch"] or side["inf_mismatch"]:
            parts.append(
                f"NaN where float64 has none or the reverse: {side['nan_mismatch']}, Inf: {side['inf_mismatch']}"
            )
    parts.append(f"NaN {side['nan']}, Inf {side['inf']}")
    return "; ".join(parts)


def largest(values: np.ndarray) -> float:
    """Returns the largest, 0 without any."""
    return float(values.max()) if values.size else 0.0


def is_narrow(dtype: torch.dtype) -> bool:
    """Returns whether float64 is wider than the dtype."""
    return (dtype.is_floating_point or dtype.is_complex) and wide_dtype(dtype) != dtype


def item(values: Sequence[torch.Tensor] | None, index: int) -> torch.Tensor | None:
    """Returns a member, None if it is missing."""
    return values[index] if values is not None and index < len(values) else None


def name_of(dtype: torch.dtype) -> str:
    """Returns a dtype's name: `float32`."""
    return str(dtype).removeprefix("torch.")


def strict(value: Any) -> Any:
    """Converts to strict JSON: a float that is not finite becomes text, a complex number a pair."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, complex):
        return [strict(value.real), strict(value.imag)]
    if isinstance(value, dict):
        return {str(key): strict(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict(inner) for inner in value]
    return value


def matches(outputs: Sequence[torch.Tensor] | None, recorded: Sequence[dict[str, Any]] | None) -> bool | None:
    """Returns whether outputs equal the recorded ones: counts of NaN and infinities, and sampled elements."""
    if not recorded or outputs is None:
        return None
    if len(outputs) != len(recorded):
        return False
    for tensor, expected in zip(outputs, recorded, strict=True):
        if name_of(tensor.dtype) != expected["dtype"] or list(tensor.shape) != expected["shape"]:
            return False
        flat = f64(numbers(tensor)).ravel()
        width = 2 if tensor.is_complex() else 1
        count, most = flat.size // width, expected["sampled"]
        places = range(count) if count <= most else [i * (count - 1) // (most - 1) for i in range(most)]
        own = [flat[place * width + part] for place in places for part in range(width)]
        if not np.array_equal(own, np.array(expected["sample"], np.float64), equal_nan=True):
            return False
        if not tensor.is_complex() and int(np.isnan(flat).sum()) != expected["nan"]:
            return False
    return True


def wide_outputs(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Converts outputs to float64 or complex128."""
    return [tensor.to(wide_dtype(tensor.dtype)) for tensor in tensors]


# Runs a model on both sides and in float64, compares, prints, and ends with one line of JSON.

#: Calls a program with arguments: (program, arguments) -> outputs.
Invoke = Callable[[Any, Sequence[torch.Tensor]], list[torch.Tensor]]
#: Runs a model: (model, arguments, options, on_stage, invoke) -> outputs.
Path = Callable[
    [torch.nn.Module, Sequence[torch.Tensor], dict[str, str], Callable[[str], None], Invoke], list[torch.Tensor]
]


@dataclass
class Side:
    """A platform: name, options, environment variables, and the function that runs a model (None: unknown)."""

    name: str
    options: dict[str, str]
    environment: dict[str, str]
    path: Path | None


@dataclass
class ScriptProgram:
    """A model, with each output's declared dtype and shape. `gradients`: arguments to differentiate by."""

    name: str
    model: Callable[[], torch.nn.Module]
    outputs: Sequence[tuple[str, list[int]]]
    gradients: Sequence[int] = ()


@dataclass
class ScriptCase:
    """The case that a script runs. `culprit`: the operator alone, with its node and which operands it takes."""

    name: str
    graph: str
    program: ScriptProgram
    arguments: Callable[[], Sequence[torch.Tensor]]
    inputs_sha256: str
    reference: Side
    platform: Side
    tolerances: dict[str, tuple[float, float]]
    timeout_s: float
    culprit: ScriptProgram | None = None
    culprit_node: int = -1
    culprit_operands: Sequence[int] = ()
    recorded: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ran:
    """The result of one run. `stage`: the last stage that it entered."""

    status: str
    outputs: list[torch.Tensor] | None = None
    stage: str = ""
    error: str = ""
    message: str = ""
    seconds: float = 0.0

    def record(self) -> dict[str, Any]:
        fields = {"status": self.status, "stage": self.stage, "error": self.error, "message": self.message[:2000]}
        return {key: value for key, value in fields.items() if value} | {"seconds": round(self.seconds, 3)}


def main(case: ScriptCase, argv: Sequence[str] | None = None) -> int:
    """Runs the script. Returns 0 if the sides agree within tolerances, 1 if not, 2 if the reference did not run."""
    parser = argparse.ArgumentParser(description=f"{case.platform.name} against {case.reference.name}: {case.name}")
    parser.add_argument("--json", action="store_true", help="print the line of JSON only")
    parser.add_argument("--save", metavar="FILE.pt", help="write all outputs there, for torch.load")
    parser.add_argument("--no-culprit", action="store_true", help="leave the operator alone out")
    parser.add_argument(
        "--in-process", action="store_true", help="run the platform here: quicker, but no crash is survived"
    )
    parser.add_argument("--side", help=argparse.SUPPRESS)
    parser.add_argument("--exchange", help=argparse.SUPPRESS)
    asked = parser.parse_args(argv)
    if asked.side:
        return in_child(case, asked.side, asked.exchange)
    found, saved = both_sides(case, with_culprit=not asked.no_culprit, in_process=asked.in_process)
    if asked.save:
        torch.save(saved, asked.save)
    if not asked.json:
        show_all(case, found)
    print(json.dumps(strict(found), allow_nan=False))
    return found["exit"]


def both_sides(
    case: ScriptCase, *, with_culprit: bool = True, in_process: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Runs both sides. Returns the record of the case, and all outputs. `in_process`: the platform runs here."""
    given = list(case.arguments())
    found: dict[str, Any] = {
        "format": "mindgap-script", "version": 1, "case": case.name, "graph": case.graph,
        "platform": case.platform.name, "reference": case.reference.name, "recorded": case.recorded.get("row", {}),
        "inputs_ok": checksum(all_inputs(case, given)) == case.inputs_sha256,
    }  # fmt: skip
    if not found["inputs_ok"]:
        print("THE INPUTS ARE NOT THOSE OF THE RECORDED RUN: their SHA-256 differs", file=sys.stderr)
    kept, exact, notes = in_float64(case.program, given, case.culprit_node)
    work = [(case.program, given)]
    if case.culprit is not None and kept and with_culprit:
        operands = [kept[place] for place in case.culprit_operands]
        work.append((case.culprit, operands))
    plain_reference = case.reference.path is not None and not case.reference.options
    eager = run_side(case, case.reference, work, here=plain_reference)
    other = run_side(case, case.platform, work, here=in_process)
    whole, saved = recorded(case, case.program, eager[0], other[0], exact, notes)
    found |= whole
    found["matches_recorded"] = {
        side: matches(saved[side], case.recorded.get(side)) for side in ("eager", "platform")
    }  # fmt: skip
    if len(work) > 1:
        _, exact, notes = in_float64(work[1][0], work[1][1], None)
        alone, saved["culprit"] = recorded(case, work[1][0], eager[1], other[1], exact, notes)
        found["culprit"] = {"node": case.culprit_node, "name": work[1][0].name, **alone}
    return found | {"versions": versions()}, saved


def recorded(
    case: ScriptCase, program: ScriptProgram, eager: Ran, other: Ran, exact: Ran, notes: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the record of a program on both sides, and all outputs."""
    outputs = compared(program.outputs, eager.outputs, other.outputs, exact.outputs, case.tolerances)
    differs = [output["differs"] for output in outputs if output.get("differs")]
    if other.status not in ("ok", "not_run") and eager.status == "ok":
        differs.insert(0, f"{case.platform.name} {other.status}: {other.error}")
    found = {
        "status": {"eager": eager.record(), "float64": exact.record(), "platform": other.record()},
        "not_in_float64": list(notes), "outputs": outputs, "differs": bool(differs),
        "exit": 2 if eager.status != "ok" else 1 if differs else 0,
    }  # fmt: skip
    return found, {"eager": eager.outputs, "platform": other.outputs, "float64": exact.outputs}


def run_side(
    case: ScriptCase, side: Side, work: Sequence[tuple[ScriptProgram, Sequence[torch.Tensor]]], *, here: bool
) -> list[Ran]:
    """Runs programs on one side: in this process if `here` allows it and no environment is needed, else in another
    one, where the environment takes effect and a crash or hang is reported.
    """
    if side.path is None:
        return [Ran("not_run", message=f"this script knows no way to run {side.name}") for _ in work]
    if here and not side.environment:
        return [one_run(side, program, given, lambda _: None) for program, given in work]
    found: list[Ran] = []
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, f"{number}.pt") for number in range(len(work))]
        for file, (_, given) in zip(files, work, strict=True):
            torch.save({"given": given}, file)
        while len(found) < len(work):
            found += from_child(case, side, files[len(found) :], first=len(found))
    return found


def from_child(case: ScriptCase, side: Side, files: Sequence[str], first: int) -> list[Ran]:
    """Runs programs, whose arguments are in files, in a child process. It may die at any of them."""
    role = "reference" if side is case.reference else "platform"
    command = [
        sys.executable,
        os.path.abspath(__file__),
        "--side",
        f"{role}:{first}",
        "--exchange",
        os.pathsep.join(files),
    ]
    started = time.monotonic()
    environment, end = {**os.environ, **side.environment}, ""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        try:
            done = subprocess.run(command, env=environment, timeout=case.timeout_s, stdout=output, stderr=output)
            if done.returncode:
                end = signal.Signals(-done.returncode).name if done.returncode < 0 else f"exit {done.returncode}"
        except subprocess.TimeoutExpired:
            end = "timeout"
        output.seek(0)
        printed = output.read()[-2000:]
    found: list[Ran] = []
    for file in files:
        answer = torch.load(file, weights_only=True)
        if "status" in answer:
            found.append(Ran(**answer))
            continue
        kind = "timeout" if end == "timeout" else "crashed"
        error = f"no answer in {case.timeout_s} s" if end == "timeout" else end or "ended without an answer"
        seconds = time.monotonic() - started
        return [*found, Ran(kind, stage=answer.get("stage", ""), error=error, message=printed, seconds=seconds)]
    return found


def in_child(case: ScriptCase, which: str, exchange: str) -> int:
    """Runs programs on one side and leaves the outputs, or the error, in their files."""
    role, _, first = which.partition(":")
    side = case.reference if role == "reference" else case.platform
    programs = [case.program, case.culprit][int(first) :]
    for program, file in zip(programs, exchange.split(os.pathsep), strict=False):
        assert program is not None
        given = torch.load(file, weights_only=True)["given"]
        ran = one_run(side, program, given, lambda at, file=file: torch.save({"stage": at}, file))
        torch.save(vars(ran), file)
    return 0


def one_run(
    side: Side, program: ScriptProgram, tensors: Sequence[torch.Tensor], on_stage: Callable[[str], None]
) -> Ran:
    """Runs one program on one side, in this process. `on_stage` is called as each stage begins."""
    ran = Ran("failed")
    started = time.monotonic()

    def stage(name: str) -> None:
        ran.stage = name
        on_stage(name)

    try:
        assert side.path is not None
        arguments = [copied(tensor) for tensor in tensors]
        outputs = side.path(program.model(), arguments, side.options, stage, invoker(program.gradients))
        ran.outputs = [plain(tensor) for tensor in declared_complex(program, outputs)]
        ran.status = "ok"
    except Exception as error:
        ran.error, ran.message = type(error).__name__, str(error)[:4000]
    ran.seconds = time.monotonic() - started
    return ran


def invoker(wanted: Sequence[int]) -> Invoke:
    """Returns how to call a program: without autograd, or with gradients by the arguments numbered in `wanted`."""

    def forward(program: Any, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        with torch.no_grad():
            return outputs_of(program(*arguments))

    def backward(program: Any, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        leaves = [a.detach().requires_grad_() if i in wanted else a for i, a in enumerate(arguments)]
        with torch.enable_grad():
            outputs = outputs_of(program(*leaves))
            roots, by = [output for output in outputs if output.requires_grad], [leaves[i] for i in wanted]
            if not roots:
                return outputs + [torch.zeros_like(leaf) for leaf in by]
            fed = [cotangent(root) for root in roots]
            return outputs + list(torch.autograd.grad(roots, by, fed, materialize_grads=True))

    return backward if wanted else forward


def outputs_of(result: Any) -> list[torch.Tensor]:
    """Returns a program's result as a list."""
    return [result] if isinstance(result, torch.Tensor) else list(result)


def cotangent(output: torch.Tensor) -> torch.Tensor:
    """Returns the gradient fed into an output: element k is (2 * (37 k mod 17) - 17) / 16."""
    index = torch.arange(output.numel())
    return ((2 * (index * 37 % 17) - 17).double() / 16).to(output.dtype).reshape(output.shape)


def in_float64(
    program: ScriptProgram, tensors: Sequence[torch.Tensor], keep: int | None
) -> tuple[list[torch.Tensor], Ran, list[str]]:
    """Returns the operands of call `keep`, the outputs in float64, and the operators without a float64 form."""
    watch, ran, notes = Watch(keep), Ran("failed"), list[str]()
    started = time.monotonic()
    try:
        with torch.no_grad(), watch:
            program.model()(*[copied(tensor) for tensor in tensors])
        outputs, notes = wide_run(program, tensors, watch.seen.calls)
        ran.status, ran.outputs = "ok", [plain(output) for output in outputs]
    except Exception as error:
        ran.error, ran.message = type(error).__name__, first_line(error)
    ran.seconds = time.monotonic() - started
    return watch.seen.kept, ran, notes


def wide_run(
    program: ScriptProgram, tensors: Sequence[torch.Tensor], calls: Sequence[Call]
) -> tuple[list[torch.Tensor], list[str]]:
    """Runs the program in float64."""
    model = program.model()
    for module in model.modules():
        for name, weight in [*module._buffers.items(), *module._parameters.items()]:
            if weight is not None:
                module._parameters.pop(name, None)
                module._buffers[name] = widened(weight.detach())
    mode = Float64(calls)

    def run(*arguments: torch.Tensor) -> Any:
        with default_dtype(torch.float64), mode:
            return model(*arguments)

    outputs = invoker(program.gradients)(run, [widened(tensor) for tensor in tensors])
    return [o.to(wide_dtype(o.dtype)) for o in outputs], [f"node {n}: {why}" for n, why in sorted(mode.narrow.items())]


def all_inputs(case: ScriptCase, arguments: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the arguments, then the weights."""
    model = case.program.model()
    weights = {**dict(model.named_buffers()), **dict(model.named_parameters())}
    return [*arguments, *(weights[name] for name in sorted(weights))]


def declared_complex(program: ScriptProgram, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Restores complex outputs. ONNX has real ones with a last dimension of 2 in their place."""
    found: list[torch.Tensor] = []
    declared = [*program.outputs, *([("", [])] * len(outputs))]
    for tensor, (dtype, _) in zip(outputs, declared, strict=False):
        pairs = dtype.startswith("complex") and tensor.is_floating_point() and tensor.shape[-1:] == (2,)
        found.append(torch.view_as_complex(tensor.contiguous()) if pairs else tensor)
    return found


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Returns contiguous values, detached from autograd."""
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()


def versions() -> dict[str, str]:
    """Returns the versions of the packages in use."""
    found = {"python": platform.python_version()}
    for name in ("torch", "numpy", "onnx", "onnxscript", "onnxruntime", "openvino"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found | {"cpu": torch.backends.cpu.get_cpu_capability()}


def show_all(case: ScriptCase, record: dict[str, Any]) -> None:
    """Prints the results for people."""
    print(f"{case.name}: {case.platform.name} against {case.reference.name}")
    show_program(record)
    for side, same in record["matches_recorded"].items():
        if same is not None:
            print(f"{side}: {'the values that were recorded' if same else 'OTHER VALUES THAN WERE RECORDED'}")
    if "culprit" in record:
        print(f"\nthe culprit alone, on the operands that eager gave it: {record['culprit']['name']}")
        show_program(record["culprit"])
    print()


def show_program(record: dict[str, Any]) -> None:
    """Prints the status of each run, then its outputs."""
    for name, status in record["status"].items():
        failed = f" at {status.get('stage', '')}: {status.get('error', '')}: {status.get('message', '')[:1000]}"
        print(f"{name:<9} {status['status']}{failed if status['status'] != 'ok' else ''}")
    for note in record["not_in_float64"]:
        print(f"not in float64: {note}")
    show(record["outputs"])


# Runs a model with PyTorch on the CPU: eager, TorchScript, Inductor, AOTInductor.

def run_eager(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs eager mode under the options; options that act at import are in the environment already."""
    stage("run")
    with switched(options):
        return invoke(model, arguments)


def run_inductor(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs torch.compile of the whole graph."""
    import torch._dynamo.config
    import torch._inductor.config

    stage("compile")
    patches: dict[str, bool | int] = {"freezing": options.get("freezing") == "1"}
    if "simdlen" in options:
        patches["cpp.simdlen"] = int(options["simdlen"])
    dynamic = {"capture_dynamic_output_shape_ops": True, "capture_scalar_outputs": True, "suppress_errors": False}
    compiled = torch.compile(model, fullgraph=True, dynamic=False, backend="inductor")
    with switched(options), torch._dynamo.config.patch(dynamic), torch._inductor.config.patch(patches):
        invoke(compiled, [copied(argument) for argument in arguments])
        stage("run")
        return invoke(compiled, arguments)


def run_aotinductor(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs torch.export, then a package compiled ahead of time."""
    stage("export")
    with switched(options), torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(model, tuple(copied(argument) for argument in arguments))
        stage("compile")
        package = os.path.join(folder, "model.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=package)
        loaded = torch._inductor.aoti_load_package(package)
        stage("run")
        return invoke(loaded, arguments)


def run_jit(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs torch.jit.trace until the executor has optimised the program."""
    stage("compile")
    scripted = Scripted()
    with switched(options), torch.no_grad(), scripted:
        program = torch.jit.trace(model.eval(), tuple(copied(argument) for argument in arguments), check_trace=False)
        if options.get("freezing") == "1":
            program = torch.jit.freeze(program)
    stage("run")
    with switched(options):
        for _ in range(4):
            found = invoke(program, [copied(argument) for argument in arguments])
        del program, scripted
        return found


class Scripted(TorchFunctionMode):
    """Compiles calls that take a list of booleans as TorchScript functions: the tracer cannot record such lists.

    `units` owns those functions: a traced program that calls one must not outlive them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.units: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        masks = [given for given in args if isinstance(given, (list, tuple)) and {type(b) for b in given} == {bool}]
        known = isinstance(func, torch._ops.OpOverload) and not kwargs and len(masks) == 1
        if not known or len(masks[0]) != len(func._schema.returns):
            return func(*args, **kwargs)
        operands: list[torch.Tensor] = []
        spelled = ", ".join(self.spelled(given, operands) for given in args)
        name, parameters = func._opname, ", ".join(f"x{number}: Tensor" for number in range(len(operands)))
        kept = "".join(f"made[{place}], " for place, wanted in enumerate(masks[0]) if wanted)
        call = f"torch.ops.{func.namespace}.{name}({spelled})"
        unit = torch.jit.CompilationUnit(f"def {name}({parameters}):\n    made = {call}\n    return ({kept})\n")
        self.units.append(unit)
        made = iter(getattr(unit, name)(*operands))
        return tuple(next(made) if wanted else None for wanted in masks[0])

    def spelled(self, given: Any, operands: list[torch.Tensor]) -> str:
        """Writes an argument in TorchScript; tensors are added to `operands`."""
        if isinstance(given, torch.Tensor):
            operands.append(given)
            return f"x{len(operands) - 1}"
        if isinstance(given, (list, tuple)):
            return f"[{', '.join(self.spelled(item, operands) for item in given)}]"
        return f"float('{given}')" if isinstance(given, float) and not math.isfinite(given) else repr(given)


@contextlib.contextmanager
def switched(options: dict[str, str]) -> Iterator[None]:
    """Sets PyTorch's switches within a block. `isa` and `threads` are set by the environment."""
    known = "isa threads matmul deterministic onednn tf32 sdpa autocast freezing simdlen"
    require_known(options, known, "PyTorch's platforms")
    with contextlib.ExitStack() as stack:
        if "threads" in options:
            torch.set_num_threads(int(options["threads"]))
        if "matmul" in options:
            torch.set_float32_matmul_precision(options["matmul"])
        if "deterministic" in options:
            torch.use_deterministic_algorithms(options["deterministic"] == "on")
        if "onednn" in options:
            torch._C._set_mkldnn_enabled(options["onednn"] == "on")
        if "tf32" in options:
            torch.backends.mkldnn.fp32_precision = "tf32" if options["tf32"] == "on" else "ieee"
        if "sdpa" in options:
            kernels = {"math": "MATH", "flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION"}
            backend = getattr(torch.nn.attention.SDPBackend, kernels[options["sdpa"]])
            stack.enter_context(torch.nn.attention.sdpa_kernel(backend))
        if "autocast" in options:
            stack.enter_context(torch.autocast("cpu", getattr(torch, options["autocast"])))
        yield


# Runs openvino/cpu as its users do: convert_model of an exported program or ONNX file, compile_model.

#: OpenVINO's element types that numpy has no dtype for.
OPENVINO_TYPES = {"bf16": torch.bfloat16, "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}


def run_openvino(
    model: torch.nn.Module,
    arguments: Sequence[torch.Tensor],
    options: dict[str, str],
    stage: Callable[[str], None],
    _invoke: Callable[..., list[torch.Tensor]],
) -> list[torch.Tensor]:
    """Runs the model with OpenVINO's CPU plugin. `frontend=onnx`: through an ONNX file."""
    import openvino

    require_known(options, "frontend precision threads", "openvino/cpu")
    names: list[str] = []
    stage("export")
    with torch.no_grad():
        program = torch.export.export(model, tuple(arguments))
        if options.get("frontend", "pytorch") == "onnx":
            with tempfile.TemporaryDirectory() as folder:
                file = os.path.join(folder, "model.onnx")
                onnx_program = torch.onnx.export(program, dynamo=True, verbose=False)
                assert onnx_program is not None
                onnx_program.save(file)
                names = [str(given.name) for given in onnx_program.model.graph.inputs]
                stage("convert")
                converted = openvino.Core().read_model(file)
        else:
            stage("convert")
            converted = openvino.convert_model(program)
    stage("compile")
    settings: dict[str, Any] = {"INFERENCE_NUM_THREADS": int(options.get("threads", "1")), "NUM_STREAMS": 1}
    if options.get("precision", "f32") == "f32":
        settings["INFERENCE_PRECISION_HINT"] = "f32"
    compiled = openvino.Core().compile_model(converted, "CPU", settings)
    stage("run")
    request = compiled.create_infer_request()
    # The request reads their memory, and keeps no reference to it.
    held = [tensor.contiguous() for tensor in arguments]
    for place, port in enumerate(compiled.inputs):
        # OpenVINO leaves out an input of an ONNX model that nothing reads.
        numbers = [names.index(name) for name in port.get_names() if name in names] or [place]
        request.set_tensor(port, openvino_tensor(held[numbers[0]]))
    request.infer()
    return [from_openvino(request.get_output_tensor(number)) for number in range(len(compiled.outputs))]


def openvino_tensor(tensor: torch.Tensor) -> Any:
    """Converts a tensor to an OpenVINO tensor."""
    import openvino

    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    tensor = tensor.contiguous()
    name = next((name for name, dtype in OPENVINO_TYPES.items() if dtype == tensor.dtype), None)
    if name is None:
        return openvino.Tensor(tensor.numpy())
    carrier = torch.uint16 if tensor.element_size() == 2 else torch.uint8
    return openvino.Tensor(
        tensor.view(carrier).numpy(), openvino.Shape(list(tensor.shape)), getattr(openvino.Type, name)
    )


def from_openvino(tensor: Any) -> torch.Tensor:
    """Copies an OpenVINO tensor to a torch tensor."""
    dtype = OPENVINO_TYPES.get(tensor.get_element_type().to_string())
    found = torch.from_numpy(np.array(tensor.data, order="C"))
    return found if dtype is None else found.view(dtype)


CASE = ScriptCase(
    name='reduced',
    graph='0a69acc78eac4eec9a900b910f46ee19e191d9175f65a8883901ed5e1689aca4',
    program=ScriptProgram('reduced', Model, [('bfloat16', [])], []),
    arguments=make_arguments,
    inputs_sha256=INPUTS_SHA256,
    reference=Side('cpu/eager', {}, {}, run_eager),
    platform=Side('openvino/cpu@frontend=onnx,precision=f32', {'frontend': 'onnx', 'precision': 'f32'}, {}, run_openvino),
    tolerances=TOLERANCES,
    timeout_s=TIMEOUT_S,
    culprit=ScriptProgram('aten.sum.default', Culprit, [('bfloat16', [])]),
    culprit_node=0,
    culprit_operands=[0],
    recorded=RECORDED,
)

if __name__ == "__main__":
    sys.exit(main(CASE))
