"""Reads how a model's library prepares images for it: timm's configuration, or transformers' file beside the weights.

Nothing is downloaded: timm's is an attribute of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

_FILE: Final = "preprocessor_config.json"
#: Names of the filters that Pillow numbers.
_FILTERS: Final = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "box", 5: "hamming"}


@dataclass(frozen=True, slots=True)
class Preprocessing:
    """How images become inputs. origin: whose configuration says so.

    crop_share: the input's sides as a share of the resized image, whose centre is cut out; 0 where the image is
    stretched to the input. filter: of resizing, as Pillow names it. mean, std: of pixels in 0..1, by channel.
    """

    origin: str
    crop_share: float = 0.0
    filter: str = "bilinear"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()


def preprocessing_from(held: Mapping[str, Any]) -> Preprocessing:
    """Returns what `dataclasses.asdict` and JSON made of one."""
    return replace(Preprocessing(**held), mean=tuple(held["mean"]), std=tuple(held["std"]))


def preprocessing_of(model: Any) -> Preprocessing | None:
    """Returns what a model's library does with images; None where that is not known."""
    timms: Any = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None)
    if isinstance(timms, Mapping) and "mean" in timms:
        return _of_timm(cast("Mapping[str, Any]", timms))
    folder = getattr(getattr(model, "config", None), "_name_or_path", "")
    file = Path(str(folder)) / _FILE
    if not folder or not file.is_file():
        return None
    try:
        held: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return _of_transformers(cast("Mapping[str, Any]", held)) if isinstance(held, dict) else None


def _of_timm(held: Mapping[str, Any]) -> Preprocessing:
    centre = held.get("crop_mode") in (None, "", "center")
    return Preprocessing(
        "timm's configuration of the model", float(held.get("crop_pct") or 1.0) if centre else 0.0,
        _filter(held.get("interpolation")), tuple(map(float, held["mean"])), tuple(map(float, held["std"])),
    )  # fmt: skip


def _of_transformers(held: Mapping[str, Any]) -> Preprocessing:
    size = _side(held.get("size"))
    crop = _side(held.get("crop_size")) if held.get("do_center_crop") else None
    share = 0.0
    if crop and size:
        share = min(crop / size, 1.0)
    elif isinstance(held.get("crop_pct"), float):
        share = float(held["crop_pct"])
    normalised = held.get("do_normalize", True)
    mean, std = ((held.get(name) or ()) if normalised else () for name in ("image_mean", "image_std"))
    return Preprocessing(_FILE, share, _filter(held.get("resample")), tuple(map(float, mean)), tuple(map(float, std)))


def _side(size: Any) -> float | None:
    """Returns the shorter side of a size in any of the forms that transformers writes."""
    if isinstance(size, dict):
        held = cast("Mapping[str, int]", size)
        sides = [each for name in ("shortest_edge", "height", "width") if (each := held.get(name))]
        return float(min(sides)) if sides else None
    return float(size) if isinstance(size, int) else None


def _filter(name: Any) -> str:
    named = _FILTERS.get(name, "bilinear") if isinstance(name, int) else str(name or "bilinear")
    return named if named in _FILTERS.values() else "bilinear"
