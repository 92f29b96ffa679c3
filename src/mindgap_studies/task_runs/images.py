"""Turns images into arrays that a model takes: decoded, resized, scaled, normalised; and arrays into pictures."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from mindgap.graph import Array, MindgapError
from mindgap.source_worker.preprocessing import Preprocessing

IMAGE_SUFFIXES: Final = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})


_STRETCHED: Final = Preprocessing("")


class UnreadableExample(MindgapError):
    """One example that is damaged or has another form than the model takes. The others go on."""


@dataclass(frozen=True, slots=True)
class InputForm:
    """An input of the model: its name, shape without the dimension of the batch, and NumPy dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Pixels:
    """How pixels in 0..1 are normalised: (pixel - mean) / std, by channel. Empty: as `own` has it, or not at all.

    own: how the model's library prepares images; None where that is not known: they are stretched to the input.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    own: Preprocessing | None = None

    @property
    def words(self) -> str:
        """What is done to images, for a note."""
        if self.own is None:
            return "images are stretched to the model's input: how its library prepares images is not known"
        cut = f"the centre, {self.own.crop_share:.3g} of the shorter side, is cut out" if self.own.crop_share else ""
        mean, std = (" ".join(f"{each:g}" for each in sides) for sides in self.normalised)
        return (
            f"images are prepared by {self.own.origin}: {self.own.filter}, {cut or 'stretched to the input'}"
            f"{f', mean {mean}, std {std}' if mean else ''}"
        )

    @property
    def normalised(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        own = self.own
        if self.mean or self.std or own is None:
            return self.mean, self.std
        return own.mean, own.std


def fitted(array: Array, form: InputForm) -> Array:
    """Returns an example's array in the input's dtype. Raises `UnreadableExample` for another shape or kind."""
    if tuple(array.shape) != form.shape:
        raise UnreadableExample(
            f"it is {list(array.shape)}, and the model's input {form.name} takes {list(form.shape)}"
        )
    target = np.dtype(form.dtype)
    if array.dtype.kind == "f" and target.kind in "iu":
        raise UnreadableExample(f"it is {array.dtype}, and the model's input {form.name} takes {form.dtype}")
    return np.ascontiguousarray(array, target)


def image_array(image: Path | Image.Image, form: InputForm, pixels: Pixels) -> Array:
    """Returns an image [channels, height, width]: resized (bilinear), 0..1, normalised; bytes stay for integer inputs.

    `image`: a file, or an image of Pillow. Raises `UnreadableExample` for one that cannot be decoded.
    """
    channels, height, width = form.shape
    if channels not in (1, 3):
        raise MindgapError(f"images have 1 or 3 channels, and the model's input {form.name} takes {channels}")
    try:
        opened = Image.open(image) if isinstance(image, Path) else image
        opened = opened.convert("L" if channels == 1 else "RGB")
        opened = _resized(opened, width, height, pixels.own or _STRETCHED)
        held = np.asarray(opened).reshape(height, width, channels).transpose(2, 0, 1)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        # Pillow raises SyntaxError for a broken PNG.
        raise UnreadableExample(
            f"{image if isinstance(image, Path) else 'the image'} cannot be read: {error}"
        ) from None
    if np.dtype(form.dtype).kind in "iu":
        return np.ascontiguousarray(held, form.dtype)
    scaled = held.astype(np.float64) / 255
    means, deviations = pixels.normalised
    if means or deviations:
        mean = np.asarray(means or [0.0] * channels).reshape(-1, 1, 1)
        std = np.asarray(deviations or [1.0] * channels).reshape(-1, 1, 1)
        if len(mean) not in (1, channels) or len(std) not in (1, channels):
            raise MindgapError(f"--mean and --std: give 1 or {channels} numbers, one for each channel")
        scaled = (scaled - mean) / std
    return np.ascontiguousarray(scaled, form.dtype)


def _resized(image: Image.Image, width: int, height: int, how: Preprocessing) -> Image.Image:
    """Returns an image of the input's size: stretched, or the centre of one whose proportions are kept."""
    kind = Image.Resampling[how.filter.upper()]
    if not how.crop_share:
        return image if image.size == (width, height) else image.resize((width, height), kind)
    # As torchvision resizes to a shorter side, and cuts out the centre.
    scale = max(int(width / how.crop_share) / image.width, int(height / how.crop_share) / image.height)
    wide, high = (max(int(side * scale + 1e-6), least) for side, least in zip(image.size, (width, height), strict=True))
    image = image if image.size == (wide, high) else image.resize((wide, high), kind)
    left, top = round((wide - width) / 2), round((high - height) / 2)
    return image.crop((left, top, left + width, top + height))


def picture_of(array: Array) -> str:
    """Returns an image [channels, height, width] as a `data:` address of a PNG, its values stretched to 0..255.

    Empty for an array of another form.
    """
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or array.shape[0] not in (1, 3) or 0 in array.shape:
        return ""
    held = np.nan_to_num(array.astype(np.float64))
    low, high = held.min(), held.max()
    grey: Array = np.asarray(np.round((held - low) / ((high - low) or 1.0) * 255), np.uint8).transpose(1, 2, 0)
    written = io.BytesIO()
    Image.fromarray(grey if len(array) == 3 else grey[:, :, 0]).save(written, "PNG")
    return "data:image/png;base64," + base64.b64encode(written.getvalue()).decode()
