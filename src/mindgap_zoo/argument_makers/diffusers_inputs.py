"""Makes inputs of diffusers' models from the names in their forward passes and the sizes in their configurations.

A shape is text with one word per dimension: a number, `b` (batch), `l` (text tokens), `s` (edge of the latents), `t`
(image tokens, s·s/4), or the name of a value in the configuration.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from mindgap.sources.source import Source, SourceError, SourceOptions
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.argument_makers.argument_specs import Tensor, normal, ones, uniform


@dataclass(frozen=True, slots=True)
class ModelCase:
    """Constructor arguments and inputs of one class that rules cannot derive.

    `config`: constructor arguments. `inputs`: by name, a `Tensor`, a plain value, or these in lists, tuples and
    dictionaries; None leaves an input out. `fixed`: inputs that decide shapes (masks, positions), constants of the
    program. `edge`: of the latents. `batch`: 2 for models whose strides at a batch of 1 leave the memory format
    ambiguous for fake tensors.
    """

    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fixed: tuple[str, ...] = ()
    edge: int = 16
    batch: int = 1


@dataclass(frozen=True, slots=True)
class InputMaker:
    model: nn.Module
    case: ModelCase
    chosen: SourceOptions
    registry: TensorRegistry

    def call_arguments(self, source: Source) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns inputs, and those that are fixed, by name. Raises `SourceError` for one that no rule knows."""
        try:
            made = self.arguments()
        except LookupError as error:
            raise SourceError(f"{source.text}: there is no telling what its input {error.args[0]} takes") from error
        return made, {name: made.pop(name) for name in self.case.fixed if name in made}

    def arguments(self) -> dict[str, Any]:
        """Returns inputs by name. Raises `LookupError` with the name of a required input that no rule knows."""
        made: dict[str, Any] = {}
        for name, parameter in inspect.signature(self.model.forward).parameters.items():
            try:
                if name in self.case.inputs:
                    made[name] = self._valued(name, self.case.inputs[name])
                elif (required := parameter.default is parameter.empty) or name in _WORTH_GIVING:
                    wanted = _RULES[name](self) if name in _RULES else None
                    if wanted is None and required:
                        raise LookupError(name)
                    made[name] = self._valued(name, wanted)
            except LookupError as error:
                raise LookupError(name) from error
        return {name: value for name, value in made.items() if value is not None}

    def _valued(self, name: str, wanted: Any) -> Any:
        if isinstance(wanted, Tensor):
            seed = seed_of(name, self.chosen.seed)
            dtype = wanted.dtype or self.chosen.dtype or "float32"
            return self.registry.draw(wanted.make(seed), dtype, self.shape(wanted.shape))
        if isinstance(wanted, (list, tuple)):
            items: list[Any] = [self._valued(f"{name}.{i}", item) for i, item in enumerate(wanted)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # any list
            return items if isinstance(wanted, list) else tuple(items)
        if isinstance(wanted, dict):
            return {key: self._valued(f"{name}.{key}", item) for key, item in wanted.items()}  # pyright: ignore[reportUnknownVariableType] # any dictionary
        if callable(wanted):
            return self._valued(name, wanted(self))
        return wanted

    def shape(self, words: str) -> tuple[int, ...]:
        """Returns sizes for the words of a shape. Raises `LookupError` for a word that the configuration does not
        have."""
        return tuple(self._size(word) for word in words.split())

    def _size(self, word: str) -> int:
        if word.isdigit():
            return int(word)
        own = {"b": self.batch, "l": self.chosen.length or 16, "s": self.edge, "t": self.edge * self.edge // 4}
        value = own[word] if word in own else self.has(word)
        if not isinstance(value, int):
            raise LookupError(word)
        return value

    @property
    def batch(self) -> int:
        return self.chosen.batch or self.case.batch

    @property
    def edge(self) -> int:
        return self.chosen.size or self.case.edge

    def has(self, *names: str) -> Any:
        """Returns the first of these names that the configuration has a value for; of a network made of several, that
        of the first."""
        config: Any = next(
            filter(None, (getattr(part, "config", None) for part in self.model.modules())), dict[str, Any]()
        )
        return next((config[name] for name in names if config.get(name) is not None), None)

    @property
    def kind(self) -> str:
        return type(self.model).__name__

    def takes(self, name: str) -> bool:
        return name in inspect.signature(self.model.forward).parameters


def _latents(maker: InputMaker) -> Tensor:
    """Returns packed tokens, a video or an image, depending on the other inputs and on the name."""
    channels = "in_channels" if maker.has("in_channels") else "in_visual_dim"
    if maker.takes("img_ids") or maker.takes("img_shapes"):
        return normal(f"b t {channels}")
    if any(word in maker.kind for word in ("3D", "Video", "Motion", "SpatioTemporal")):
        return normal(f"b {channels} 2 s s")
    return normal(f"b {channels} s s")


def _sample(maker: InputMaker) -> Tensor:
    kind = maker.kind
    if "Autoencoder" in kind or "VAE" in kind or kind == "VQModel":
        channels = "in_channels" if maker.has("in_channels") else "3"
        still = not any(maker.has(name) for name in _TEMPORAL)
        return normal(f"b {channels} {'' if still else '5 '}{4 * maker.edge} {4 * maker.edge}")
    return _latents(maker)


_TEMPORAL: Final = (
    "temporal_compression_ratio", "temperal_downsample", "temporal_compress_times", "temporal_expansions", "tempo_ds",
)  # fmt: skip
_TEXT_WIDTHS: Final = (
    "encoder_hid_dim", "joint_attention_dim", "text_embed_dim", "text_dim", "caption_channels",
    "cross_attention_input_dim", "cap_feat_dim", "encoder_hidden_size", "in_text_dim", "context_in_dim",
    "cond_token_dim", "dit_text_dim", "text_in_dim", "condition_dim", "cross_attention_dim",
)  # fmt: skip


def _texts(maker: InputMaker) -> Tensor | None:
    width = maker.has(*_TEXT_WIDTHS)
    if isinstance(width, (list, tuple)):
        width = width[0]  # pyright: ignore[reportUnknownVariableType] # any list
    return normal(f"b l {width}") if isinstance(width, int) else None


def _condition(maker: InputMaker) -> Tensor | list[Tensor]:
    """Returns what a control net follows, an image or latents; one for each of several nets."""
    images = maker.has("conditioning_channels")
    one = normal("b conditioning_channels 128 128") if images else _latents(maker)
    return [one, one] if "Multi" in maker.kind else one


def _positions(maker: InputMaker) -> torch.Tensor:
    """Returns row and column of each image token (t, axes); axis 0 is time and holds 0."""
    axes = len(maker.has("axes_dims_rope") or (0, 0, 0))
    edge = maker.edge // 2
    positions = torch.zeros(edge, edge, axes)
    positions[..., 1] += torch.arange(edge)[:, None]
    positions[..., 2] += torch.arange(edge)[None, :]
    return positions.reshape(edge * edge, axes)


#: Arguments that may be left out and are given.
_WORTH_GIVING: Final = frozenset(
    {
        "encoder_hidden_states", "timestep", "timesteps", "pooled_projections", "img_ids", "txt_ids", "guidance",
        "img_shapes", "encoder_hidden_states_mask", "encoder_attention_mask", "controlnet_cond",
    }
)  # fmt: skip
_RULES: Final[Mapping[str, Callable[[InputMaker], Any]]] = {
    "sample": _sample,
    **dict.fromkeys(("hidden_states", "x"), _latents),
    "z": lambda m: normal("b latent_channels s s"),
    "latents": _latents,
    **dict.fromkeys(("timestep", "timesteps"), lambda m: uniform("b", 1.0, 999.0)),
    **dict.fromkeys(("timestep_r", "r_timestep"), lambda m: uniform("b", 0.0, 1.0)),
    "encoder_hidden_states": _texts,
    **dict.fromkeys(("encoder_attention_mask", "encoder_mask"), lambda m: ones("b l")),
    "encoder_hidden_states_mask": lambda m: ones("b l", "bool"),
    "pooled_projections": lambda m: normal("b pooled_projection_dim") if m.has("pooled_projection_dim") else None,
    "img_ids": _positions,
    "txt_ids": lambda m: torch.zeros(m.shape("l")[0], len(m.has("axes_dims_rope") or (0, 0, 0))),
    "img_shapes": lambda m: [(1, m.edge // 2, m.edge // 2)] * m.batch,
    "guidance": lambda m: uniform("b", 1.0, 8.0) if m.has("guidance_embeds") else None,
    "controlnet_cond": _condition,
    "conditioning_scale": lambda m: [1.0, 0.5],
    **dict.fromkeys(("original_size", "target_size"), lambda m: uniform("b 2", 16.0, 32.0)),
    "crop_coords": lambda m: uniform("b 2", 0.0, 4.0),
}
