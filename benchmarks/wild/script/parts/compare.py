"""Compares two sides with float64, element by element."""

# pyright: basic
# (numpy's shapes and torch are typed in parts only)

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from script.parts.tensors import epsilon, wide_dtype

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
