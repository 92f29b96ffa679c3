"""Opens `open_clip:NAME`: pairs of an image tower and a text tower, from the configurations in OpenCLIP.

Widths, heads, image sizes and token counts are those of the configuration. Parts that make a graph slow and add
nothing to its structure are cut. Vocabularies have `_VOCABULARY` rows. The repeated blocks of a tower are cut to at
most `_MOST_PARAMETERS` parameters and `_MOST_PRODUCTS` multiplications: a ResNet-50 is complete, a ViT-B/32 keeps 5 of
12 blocks, a ViT-L/14 2 of 24. Nearly all models then stay below 60 million parameters. Text towers from transformers
are built from configurations in this file, because nothing may be downloaded.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
from collections.abc import Generator, Mapping
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch import nn

from mindgap.graph import Integers, Normal
from mindgap.sources.libraries import import_library
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, SourceOptions
from mindgap.sources.weights.construction import construct
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of
from mindgap_zoo.weights.seeding import finished, seed_weights
from mindgap_zoo.zoos.named_model import open_named

_VOCABULARY: Final = 1024
#: In the repeated blocks of one tower.
_MOST_PARAMETERS: Final = 36_000_000
_MOST_TEXT_PARAMETERS: Final = 14_000_000
#: Multiplications of weights in one pass of an image tower.
_MOST_PRODUCTS: Final = 12_000_000_000
#: Blocks that an image tower keeps in any case.
_LEAST_LAYERS: Final = 2

#: Published configurations of the text towers that OpenCLIP takes from a hub, but for their vocabularies.
_TEXT_TOWERS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "roberta-base": ("roberta", {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta-base": ("xlm-roberta", {"max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta-large": (
        "xlm-roberta",
        {
            "max_position_embeddings": 514, "type_vocab_size": 1, "layer_norm_eps": 1e-5, "hidden_size": 1024,
            "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 24,
        },
    ),
    "google/mt5-base": ("mt5", {"d_model": 768, "d_ff": 2048, "num_heads": 12, "num_layers": 12}),
    "google/mt5-xl": ("mt5", {"d_model": 2048, "d_ff": 5120, "num_heads": 32, "num_layers": 24}),
    "facebook/nllb-200-distilled-600M": (
        "m2m_100",
        {"d_model": 1024, "encoder_layers": 12, "encoder_ffn_dim": 4096, "encoder_attention_heads": 16},
    ),
    "facebook/nllb-200-distilled-1.3B": (
        "m2m_100",
        {"d_model": 1024, "encoder_layers": 24, "encoder_ffn_dim": 8192, "encoder_attention_heads": 16},
    ),
}  # fmt: skip


def _open_clip() -> Any:
    return import_library("open_clip", "open_clip:", "open-clip")


def names() -> list[str]:
    return list(_open_clip().list_models())


def open_open_clip(source: Source) -> list[Program]:
    return open_named(source, names(), "OpenCLIP has no configuration", _build)


def _build(source: Source, chosen: SourceOptions) -> Built:
    model: Any = construct(source, chosen, lambda: _create(source.target, chosen.size))
    registry = TensorRegistry()
    seed_weights(model, chosen.seed, registry)
    edge: Any = model.visual.image_size
    height, width = (edge, edge) if isinstance(edge, int) else edge
    picture = Normal(seed_of("image", chosen.seed))
    text = Integers(seed_of("text", chosen.seed), 3, _VOCABULARY)
    arguments = {
        "image": registry.draw(picture, chosen.dtype or "float32", (chosen.examples, 3, height, width)),
        "text": registry.draw(text, "int64", (chosen.examples, _text_length(model))),
    }
    return finished(model, chosen, registry, kwargs=arguments)


def _text_length(model: Any) -> int:
    """Returns the tokens in a text: the tower's context length, or 77 if it takes any length or more than 128."""
    length = int(model.context_length or 77)
    return length if length <= 128 else 77


def _create(name: str, size: int | None) -> nn.Module:
    """Creates the model with towers cut to the allowed depth. Raises OpenCLIP's error."""
    library = _open_clip()
    config: dict[str, Any] = library.get_model_config(name)
    vision, text = config["vision_cfg"], config["text_cfg"]
    if size is not None:
        vision["image_size"] = size
    _fit_image_tower(vision)
    for tower in [text, *([config["multimodal_cfg"]] if "multimodal_cfg" in config else [])]:
        if "layers" in tower:
            tower["layers"] = _kept(tower["layers"], _block(tower), _MOST_TEXT_PARAMETERS, least=1)
        tower["vocab_size"] = _VOCABULARY
    vision["timm_model_pretrained"] = text["hf_model_pretrained"] = False
    with _loading_nothing(size), _silent():
        model: Any = library.create_model(
            name, pretrained_image=False, pretrained_text=False, vision_cfg=vision, text_cfg=text,
            **{key: config[key] for key in ("multimodal_cfg",) if key in config},
        )  # fmt: skip
    captions = getattr(model, "text_decoder", None)
    if captions is not None:
        nn.init.zeros_(captions.text_projection)  # It is left as the memory was found.
    return model


def _block(tower: Mapping[str, Any]) -> int:
    """Returns the parameters of one transformer block: four square matrices of attention, two of the feed-forward
    part."""
    width = int(tower.get("width", 768))
    return int((4 + 2 * float(tower.get("mlp_ratio", 4.0))) * width * width)


def _kept(layers: int, each: int, most: int, least: int = _LEAST_LAYERS) -> int:
    return max(min(layers, least), min(layers, most // each))


def _fit_image_tower(vision: dict[str, Any]) -> None:
    """Cuts the depth of OpenCLIP's own image towers. Towers from timm are cut when they are created."""
    layers: int | list[int] = vision.get("layers", 12)
    if "timm_model_name" in vision:
        return
    if isinstance(layers, list):
        # Blocks of each stage of a residual net: parameters and products both grow with the width's square.
        share = min(1.0, (64 / vision["width"]) ** 2 * (288 / vision["image_size"]) ** 2 * 33 / sum(layers))
        vision["layers"] = [max(1, round(count * share)) for count in layers]
        return
    tokens = (int(vision["image_size"]) // int(vision["patch_size"])) ** 2 + 1
    each = _block(vision)
    vision["layers"] = min(_kept(layers, each, _MOST_PARAMETERS), _kept(layers, each * tokens, _MOST_PRODUCTS))


@contextlib.contextmanager
def _loading_nothing(size: int | None) -> Generator[None]:
    """Makes OpenCLIP create shallow timm towers, and transformers towers from the configurations in this file."""
    images: Any = importlib.import_module("open_clip.timm_model")
    texts: Any = importlib.import_module("open_clip.hf_model")
    before = (images.timm, getattr(texts, "AutoConfig", None))
    images.timm = SimpleNamespace(create_model=functools.partial(_trunk, images.timm, size))
    texts.AutoConfig = SimpleNamespace(from_pretrained=_text_config)
    try:
        yield
    finally:
        images.timm, texts.AutoConfig = before


def _text_config(name: str) -> Any:
    """Returns a shallow configuration of a text model on the hub. Raises `SourceError` if this file does not have
    it."""
    configurations: Any = importlib.import_module("transformers").AutoConfig
    if name not in _TEXT_TOWERS:
        raise SourceError(f"open_clip: its text tower {name} is on a hub, and nothing is downloaded")
    kind, published = _TEXT_TOWERS[name]
    config: Any = configurations.for_model(kind, vocab_size=_VOCABULARY, **published)
    depth = "encoder_layers" if kind == "m2m_100" else "num_layers" if kind == "mt5" else "num_hidden_layers"
    width = int(getattr(config, "hidden_size", 768))
    layers = _kept(int(getattr(config, depth)), 12 * width * width, _MOST_TEXT_PARAMETERS, least=1)
    setattr(config, depth, layers)
    if kind != "mt5" and kind != "m2m_100":
        return config
    config.is_encoder_decoder = True  # OpenCLIP keeps the encoder alone.
    for decoder in ("decoder_layers", "num_decoder_layers"):
        setattr(config, decoder, 1)
    return config


def _trunk(timm: Any, size: int | None, name: str, **kwargs: Any) -> nn.Module:
    """Creates a timm model with its repeated blocks cut."""
    if size is not None:
        with contextlib.suppress(TypeError):
            return timm.create_model(name, img_size=size, **kwargs, **_trunk_depth(timm, name))
    return timm.create_model(name, **kwargs, **_trunk_depth(timm, name))


def _trunk_depth(timm: Any, name: str) -> dict[str, Any]:
    """Returns the argument that cuts a timm model to the allowed depth; none if it is shallow enough."""
    with torch.device("meta"):
        whole: Any = timm.create_model(name)
    parameters = sum(p.numel() for p in whole.parameters())
    blocks = getattr(whole, "blocks", None)
    if isinstance(blocks, (nn.ModuleList, nn.Sequential)):
        tokens = int(getattr(whole.patch_embed, "num_patches", 196))
        each = sum(p.numel() for p in blocks.parameters()) // len(blocks)
        kept = min(_kept(len(blocks), each, _MOST_PARAMETERS), _kept(len(blocks), each * tokens, _MOST_PRODUCTS))
        return {"depth": kept} if kept < len(blocks) else {}
    stages = getattr(whole, "stages", None)
    if parameters <= _MOST_PARAMETERS or stages is None or not name.startswith("convnext"):
        return {}
    depths = [len(stage.blocks) for stage in stages]
    return {"depths": tuple(max(1, round(depth * _MOST_PARAMETERS / parameters)) for depth in depths)}


@contextlib.contextmanager
def _silent() -> Generator[None]:
    """Discards OpenCLIP's warning that no weights are loaded."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
