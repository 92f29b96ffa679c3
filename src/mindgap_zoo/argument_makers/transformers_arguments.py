"""Makes arguments for a transformers model from its signature and configuration."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from mindgap.graph import Constant, Integers, Normal, Recipe, Uniform
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.argument_makers.argument_specs import Tensor
from mindgap_zoo.argument_makers.overrides import ARGUMENTS, CONSTANT
from mindgap_zoo.argument_makers.shrinking import FIRST_SPECIAL


@dataclass(frozen=True, slots=True)
class Sizes:
    batch: int
    length: int
    size: int | None
    seed: int
    dtype: str


class _ConfigValues:
    """Looks up values of a configuration by name: first at the top, then in its towers."""

    def __init__(self, config: Any) -> None:
        self._config = config

    def get(self, *names: str, tower: str = "", otherwise: Any = None) -> Any:
        """Returns the first of `names` that the tower (`vision`, `text`, `audio`) or the configuration has."""
        values = (getattr(config, name, None) for config in self._configs(tower) for name in names)
        return next((value for value in values if value is not None), otherwise)

    def _configs(self, tower: str) -> Iterator[Any]:
        towers = _towers(self._config)
        yield from (one for name, one in towers.items() if tower and tower in name)
        yield self._config
        yield from towers.values()
        for one in towers.values():
            yield from _towers(one).values()


def _towers(config: Any) -> dict[str, Any]:
    held: list[tuple[str, Any]] = list(config.__dict__.items())
    return {name: value for name, value in held if name.endswith("_config") and hasattr(value, "to_dict")}


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a model. `given`: inputs of its graph.

    `fixed`: values that its Python code decides by (image sizes in patches, lengths), constants of the graph.
    """

    given: dict[str, Any]
    fixed: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return ", ".join([*self.given, *self.fixed])


#: Makes the same arguments again with so many tokens in the text for each kind of thing ("image", "audio") with it.
Again = Callable[[Mapping[str, int]], Arguments]


def candidates(model: nn.Module, sizes: Sizes, registry: TensorRegistry, whole: bool) -> Iterator[Again]:
    """Yields sets of arguments to try, those that exercise most first.

    With `whole`: every modality, in several shapes. Without it: the main input, or the text alone.
    """
    signature = inspect.signature(model.forward).parameters
    special = special_arguments(model)
    required = [
        n for n, p in signature.items() if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
    ]
    main = str(getattr(model, "main_input_name", "input_ids"))
    always = [*required, *(n for n, made in special.items() if made is not None)]
    wanted = [n for n in _MODALITIES if n in signature]
    if {"input_ids", "image_grid_thw", "position_ids"} <= signature.keys():
        wanted.append("position_ids")
    texts = [n for n in ("input_ids", "attention_mask", "decoder_input_ids") if n in signature]
    sets: list[list[str]] = [[*always, *wanted]]
    if not whole:
        sets = [[*always, *([main] if main in signature else [])]]
        sets.append([*always, main, *(n for n in ("decoder_input_ids", "bbox", "attention_mask") if n in signature)])
        sets.append([*always, *texts])
    seen: set[str] = set()
    for names in sets:
        chosen = [n for n in dict.fromkeys(names) if n in special or n in signature]
        chosen = [n for n in chosen if not (n in special and special[n] is None)]
        for variant in range(len(_PICTURES)):
            again: Again = functools.partial(_arguments, model, sizes, registry, tuple(chosen), variant)
            made = again({})
            shape = str({n: getattr(v, "shape", v) for n, v in [*made.given.items(), *made.fixed.items()]})
            if (made.given or made.fixed) and shape not in seen:
                seen.add(shape)
                yield again


def _arguments(
    model: nn.Module,
    sizes: Sizes,
    registry: TensorRegistry,
    names: tuple[str, ...],
    variant: int,
    positions: Mapping[str, int],
) -> Arguments:
    """Returns the arguments of these names, without those that no value is known for."""
    maker = _ArgumentMaker(model, sizes, registry, positions)
    special = special_arguments(model)
    constant = _DECIDING | CONSTANT.get(_model_type(model), frozenset())
    given: dict[str, Any] = {}
    fixed: dict[str, Any] = {}
    for name in names:
        entry = special.get(name)
        value = maker.make(name, variant) if entry is None else maker.of_entry(name, entry)
        if value is not None:
            (fixed if isinstance(entry, list) or name in constant else given)[name] = value
    return Arguments(given, fixed)


def _model_type(model: nn.Module) -> str:
    return str(getattr(model.config, "model_type", ""))


def special_arguments(model: nn.Module) -> Mapping[str, Any]:
    """Returns the table's entries for this model, by its class or else by its model type."""
    by_class = ARGUMENTS.get(type(model).__name__)
    return by_class if by_class is not None else ARGUMENTS.get(_model_type(model), {})


def modalities_in_text(model: nn.Module, arguments: Arguments) -> list[str]:
    """Returns the modalities (`image`, `video`, `audio`) that placeholder tokens in the text stand for."""
    facts = _ConfigValues(model.config)
    names = [*arguments.given, *arguments.fixed]
    if "input_ids" not in names:
        return []
    return [kind for kind, inputs in _INPUTS.items() if inputs & set(names) and facts.get(*_TOKENS[kind]) is not None]


class TokenRowCounter(TorchFunctionMode):
    """Counts, while a model runs, the feature rows it has for the placeholder tokens of each modality."""

    def __init__(self, model: nn.Module, ids: torch.Tensor) -> None:
        super().__init__()
        self._kinds = {_ConfigValues(model.config).get(*names): kind for kind, names in _TOKENS.items()}
        self._ids = ids
        self.rows: dict[str, int] = {}

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _SCATTERING and self._ids.numel():
            mask, source = (*args, *kwargs.values())[1:3]
            if mask.dim() >= 2 and mask.shape[:2] == self._ids.shape:
                hit = mask.flatten(2).any(-1) if mask.dim() > 2 else mask
                width = args[0].shape[-1]
                tokens = cast("list[int]", self._ids[hit].tolist())  # pyright: ignore[reportUnknownMemberType] # untyped
                for token in set(tokens):
                    if token in self._kinds:
                        self.rows[self._kinds[token]] = source.numel() // width // self._ids.shape[0]
        return func(*args, **kwargs)


_SCATTERING = (torch.Tensor.masked_scatter, torch.Tensor.masked_scatter_, torch.masked_scatter)
_TOKENS: Mapping[str, tuple[str, ...]] = {
    "image": ("image_token_id", "image_token_index", "img_token_id", "media_token_id", "image_patch_id"),
    "video": ("video_token_id", "video_token_index"),
    "audio": ("audio_token_id", "audio_token_index", "sound_token_id"),
}
_INPUTS: Mapping[str, frozenset[str]] = {
    "image": frozenset({"pixel_values"}),
    "video": frozenset({"pixel_values_videos"}),
    "audio": frozenset({"input_features", "input_values", "audio_values"}),
}


_MODALITIES = (
    "input_ids", "attention_mask", "pixel_values", "image_grid_thw", "input_features", "input_values",
    "decoder_input_ids", "bbox",
)  # fmt: skip
#: Arguments that Python code reads: constants of the graph.
_DECIDING = frozenset({"grid_thw", "image_grid_thw", "video_grid_thw", "image_sizes", "spatial_shapes"})


class _ArgumentMaker:
    """Makes one argument by name. `variant` counts through shapes if the name allows several."""

    def __init__(self, model: nn.Module, sizes: Sizes, registry: TensorRegistry, positions: Mapping[str, int]) -> None:
        self._model, self._facts = model, _ConfigValues(model.config)
        self._sizes, self._registry, self._positions = sizes, registry, positions

    @property
    def length(self) -> int:
        """The tokens in a text: words, and placeholders of other modalities."""
        return self._sizes.length + sum(self._positions.values())

    def of_entry(self, name: str, entry: Any) -> torch.Tensor:
        """Returns the value of an entry of the table `ARGUMENTS`."""
        if isinstance(entry, list):
            return torch.tensor(entry)
        tensor: Tensor = entry if isinstance(entry, Tensor) else entry(self)
        shape = tuple(map(self._dimension, tensor.shape.split()))
        return self.draw(name, tensor.make(self.seed(name)), shape, tensor.dtype)

    def _dimension(self, word: str) -> int:
        if word.isdigit():
            return int(word)
        times, star, word = word.rpartition("*")
        if star:
            return int(times) * self._dimension(word)
        if word in ("batch", "length"):
            return self._sizes.batch if word == "batch" else self.length
        value: Any = self._model.config
        if word == "patch_area":
            return int(value.patch_size) ** 2
        for part in word.split("."):
            value = getattr(value, part)
        return int(value)

    def make(self, name: str, variant: int) -> Any:
        """Returns a value for the argument `name`, or None if no rule knows it."""
        maker = _MAKERS.get(name)
        if maker is not None:
            return maker(self, variant)
        if name.endswith("_input_ids"):
            return self.tokens(name)
        if name.endswith("attention_mask"):
            return self.ones(name)
        if name.endswith(("embeds", "hidden_states", "hidden_state", "embeddings")):
            return self.states(name)
        return None

    def states(self, name: str) -> torch.Tensor:
        """Returns the output of an earlier part of a model; flat patches if the model asks for a grid."""
        if "grid_thw" in inspect.signature(self._model.forward).parameters:
            return self.patches(name)
        width = int(self._facts.get("hidden_size", "d_model", otherwise=32))
        return self.draw(name, Normal(self.seed(name)), (self._sizes.batch, self.length, width))

    def patches(self, name: str) -> torch.Tensor:
        """Returns 16 patches of an image, one row each, for models that take images of any size."""
        channels = int(self._facts.get("in_channels", "in_chans", "num_channels", tower="vision", otherwise=3))
        frames = int(self._facts.get("temporal_patch_size", tower="vision", otherwise=1))
        edge = int(self._facts.get("patch_size", tower="vision", otherwise=14))
        return self.draw(name, Normal(self.seed(name)), (16, channels * frames * edge * edge))

    def draw(self, name: str, recipe: Recipe, shape: tuple[int, ...], dtype: str | None = None) -> torch.Tensor:
        return self._registry.draw(recipe, dtype or self._sizes.dtype, shape)

    def seed(self, name: str) -> int:
        return seed_of(name, self._sizes.seed)

    def tokens(self, name: str = "input_ids") -> torch.Tensor:
        vocabulary = self._facts.get("vocab_size", "decoder_vocab_size", tower="text", otherwise=32)
        vocabulary = min(int(vocabulary), FIRST_SPECIAL)
        low = 3 if vocabulary > 8 else 0
        shape = (self._sizes.batch, self._sizes.length)
        drawn = self.draw(name, Integers(self.seed(name), low, vocabulary), shape, "int64")
        if name != "input_ids" or not self._positions:
            return drawn
        ids = [self._facts.get(*_TOKENS[kind]) for kind, count in self._positions.items() for _ in range(count)]
        return torch.cat([drawn, torch.tensor(ids).expand(self._sizes.batch, -1)], 1)

    def ones(self, name: str) -> torch.Tensor | None:
        main = str(getattr(self._model, "main_input_name", "input_ids"))
        has_tokens = "input_ids" in inspect.signature(self._model.forward).parameters
        if main not in ("input_ids", "bbox") and not name.startswith("decoder") and not has_tokens:
            return None
        return self.draw(name, Constant(1), (self._sizes.batch, self.length), "int64")

    def pictures(self, variant: int) -> torch.Tensor:
        taken = inspect.signature(self._model.forward).parameters
        if "grid_thw" in taken or "image_grid_thw" in taken:
            return self.patches("pixel_values")
        channels = int(self._facts.get("num_channels", "in_channels", "in_chans", tower="vision", otherwise=3))
        size = self._facts.get("image_size", "img_size", "input_size", "crop_size", tower="vision", otherwise=64)
        height, width = (size, size) if isinstance(size, int) else (size[-2], size[-1])
        if self._sizes.size is not None:
            height = width = self._sizes.size
        frames = int(self._facts.get("num_frames", tower="vision", otherwise=0))
        shape = _PICTURES[variant](self._sizes.batch, channels, int(height), int(width), frames)
        return self.draw("pixel_values", Normal(self.seed("pixel_values")), shape)

    def features(self, variant: int) -> torch.Tensor:
        bins = int(self._facts.get(*_MEL_BINS, tower="audio", otherwise=80))
        frames = 2 * int(self._facts.get("max_source_positions", tower="audio", otherwise=32))
        batch = self._sizes.batch
        shapes = ((batch, bins, frames), (batch, 64, bins), (batch, 1, 64, bins), (batch, 4, 64, bins))
        return self.draw("input_features", Normal(self.seed("input_features")), shapes[min(variant, 3)])

    def sound(self, variant: int) -> torch.Tensor:
        batch = self._sizes.batch
        bins = int(self._facts.get("num_mel_bins", tower="audio", otherwise=80))
        frames = int(self._facts.get("max_length", otherwise=64))
        shapes = ((batch, 1600), (batch, 1, 1600), (batch, frames, bins), (batch, 16000))
        return self.draw("input_values", Normal(self.seed("input_values"), 0.0, 0.3), shapes[min(variant, 3)])

    def positions(self) -> torch.Tensor:
        """Returns positions of tokens on three axes, as in a text without images."""
        return torch.arange(self.length).expand(3, self._sizes.batch, -1).contiguous()

    def boxes(self, _variant: int) -> torch.Tensor:
        corners = self.draw("bbox", Constant(5), (self._sizes.batch, self._sizes.length, 4), "int64")
        corners[..., 2:] += 20
        return corners

    def series(self, _variant: int) -> torch.Tensor:
        length = int(self._facts.get("context_length", otherwise=32))
        lags = self._facts.get("lags_sequence", otherwise=None)
        history = length + max(lags) if lags else length
        channels = int(self._facts.get("num_input_channels", "input_size", otherwise=1))
        shape = (self._sizes.batch, history, channels) if channels > 1 or not lags else (self._sizes.batch, history)
        return self.draw("past_values", Uniform(self.seed("past_values"), 0.5, 2.0), shape)


_MEL_BINS = (
    "num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "input_dim", "num_mels",
    "feature_projection_input_dim",
)  # fmt: skip
_Shape = Callable[[int, int, int, int, int], tuple[int, ...]]
#: Shapes of pictures: one, a video with frames first, several tiles, patches laid out flat.
_PICTURES: tuple[_Shape, ...] = (
    lambda b, c, h, w, t: (b, t, c, h, w) if t else (b, c, h, w),
    lambda b, c, h, w, t: (b, c, t, h, w) if t else (b, 1, c, h, w),
    lambda b, c, h, w, t: (b, c, 64, 64),
    lambda b, c, h, w, t: (b, c, 224, 224),
)
_MAKERS: Mapping[str, Callable[[_ArgumentMaker, int], Any]] = {
    "input_ids": lambda m, v: m.tokens(),
    "decoder_input_ids": lambda m, v: m.tokens("decoder_input_ids"),
    "attention_mask": lambda m, v: m.ones("attention_mask"),
    **dict.fromkeys(("pixel_values", "pixel_values_videos"), lambda m, v: m.pictures(v)),
    "input_features": lambda m, v: m.features(v),
    **dict.fromkeys(("audio_values", "input_values"), lambda m, v: m.sound(v)),
    **dict.fromkeys(
        ("grid_thw", "image_grid_thw"), lambda m, v: torch.tensor([[1, 4, 4]])
    ),  # one image of 4 × 4 patches
    "bbox": lambda m, v: m.boxes(v),
    "position_ids": lambda m, v: m.positions(),
    "past_values": lambda m, v: m.series(v),
}
