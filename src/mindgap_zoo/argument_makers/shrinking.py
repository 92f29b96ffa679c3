"""Shrinks configurations of transformers models.

The widths of a configuration depend on each other in ways that only the model's code knows: heads divide the hidden
size, one tower's output is another's input, each stage doubles the one before. Two ways of shrinking keep most of
these relations. Dividing every width by the same power of two keeps every equality and ratio. Setting every width to
the same small number keeps every equality. The caller tries them in turn.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast

from mindgap.sources.type_guards import is_list, is_sequence, is_table

How = Literal["divided", "uniform", "shallow"]

VOCABULARY: Final = 256
#: Ids of special tokens are moved here, to the end of the vocabulary; texts are drawn from what lies before.
FIRST_SPECIAL: Final = 192
_WIDTH: Final = 32
_MAIN_WIDTHS: Final = ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim", "emb_dim")

_DEPTHS: Final = re.compile(r"^(\w+_)?(layers|n_layers?|n_layer|depth|num_\w*layers|num_\w*blocks)$")
#: Named like depths, but tied to lists of another name or to the shapes of pictures.
_FIXED_DEPTHS: Final = re.compile(
    r"^(num_feat_extract_layers|iou_head_depth|num_encoder_blocks|num_residual_layers|first_k_dense_replace"
    r"|num_key_value_\w+|mlp_only_layers|no_rope_layers|encode_proj_layers|kv_shared_layers)$"
)
#: Models whose code has sections where the configuration names none.
_MULTI_AXIS: Final = re.compile(r"vl|omni|video_llama|glm4v|glm_image|glm_ocr|ernie4_5")
_STAGES: Final = ("depths", "num_block_repeats", "stage_num_blocks", "layer_depths", "num_blocks_per_stage")
_WIDTHS: Final = re.compile(
    r"^(\w+_)?(hidden_size|hidden_dim|intermediate_size|embed_dim|embed_dims|ffn_dim|ffn_hidden_size|embedding_size"
    r"|embedding_dim|proj_dim|projection_dim|projection_size|feature_size|feedforward_dim|channels|hid_dim|hidden_sizes"
    r"|d_model|d_ff|mlp_dim|emb_dim|inner_dim|latent_dim|output_size|width|output_dim|dim_feedforward|lru_width"
    r"|classifier_proj_size|tdnn_dim|codevector_dim|dim_out|num_pos_feats|num_filters|in_dim|out_dim|upsample_groups)$"
    r"|^(n_embd|dim|n_inner|d_inner|conv_dim|d_embed|xvector_output_dim|coordinate_size|shape_size|d_latents"
    r"|qk_channels|v_channels|n_embed|encoder_dim|decoder_dim|text_dim|input_dim|adapter_out_dim|adapter_input_size)$"
)
_FIXED_WIDTHS: Final = frozenset(
    {"num_channels", "audio_channels", "num_input_channels", "mask_input_channels", "base_channels", "image_channels"}
)
_HEADS: Final = re.compile(
    r"^(\w+_)?(num_attention_heads|attention_heads|num_heads|n_heads?|num_key_value_heads|n_kv_heads|nhead|num_kv_heads"
    r"|num_key_heads|num_value_heads)$"
)
_HEAD_WIDTHS: Final = re.compile(
    r"^(\w+_)?(head_dim|d_kv|d_head|attention_head_size|head_size|key_value_dim|key_head_dim|value_head_dim)$"
)
_EXPERTS: Final = re.compile(r"^(num_experts|num_local_experts|n_routed_experts|moe_num_experts|num_routed_experts)$")
_CHOSEN: Final = re.compile(r"^(num_experts_per_tok(en)?|moe_k|moe_top_?k|top_k_experts)$")
_SMALL: Final[Mapping[str, int]] = {
    "n_group": 1, "topk_group": 1, "num_expert_group": 1, "first_k_dense_replace": 1, "num_queries": 8,
    "num_query_tokens": 8, "n_positions": 128, "max_2d_position_embeddings": 128, "max_position_embeddings": 128,
    "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16,
    "qk_head_dim": 16, "index_head_dim": 16, "index_n_heads": 2, "index_topk": 16, "num_denoising": 4,
    "num_codevectors_per_group": 16, "num_latents": 8, "latent_query_num": 8, "resampler_num_latents": 8,
    "mamba_chunk_size": 8, "chunk_size": 8, "codebook_size": 64, "num_embeddings": 64, "rotary_dim": 4,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "num_codebooks": 2, "num_frames": 4,
    "max_source_positions": 64, "max_target_positions": 64, "mamba_d_state": 8, "state_size": 8, "mamba_dt_rank": 8,
    "time_step_rank": 8, "sliding_window": 8, "attention_window": 8, "num_parallel_samples": 4, "n_groups": 1,
    "mamba_n_groups": 1, "train_num_points": 32, "mm_tokens_per_image": 4,
}  # fmt: skip


#: What some configurations leave to whoever trains the model.
_MISSING: Final[Mapping[str, int]] = {
    "prediction_length": 4,
    "vocab_size": 33,
    "n_shared_experts": 1,
    "topk_group": 1,
    "n_group": 1,
}


@dataclass(frozen=True, slots=True)
class Shrinking:
    """One way to shrink a configuration. `layers`: repeated blocks kept; `size`: edge of images in pixels."""

    how: How
    layers: int = 2
    size: int | None = None
    divisor: int = 1


def shrink_configuration(config: Mapping[str, Any], way: Shrinking) -> dict[str, Any]:
    """Returns the dictionary of a small configuration. Sub-configurations shrink by the same divisor."""
    return _shrink(config, replace(way, divisor=_divisor(config)))


def first_layers(config: Mapping[str, Any], layers: int) -> dict[str, Any] | None:
    """Returns a configuration that differs in its depth alone, so that the first blocks' trained weights fit it.

    None for one with stages of several blocks, whose first blocks are not the first of one list.
    """
    if any(is_sequence(config.get(key)) for key in _STAGES):
        return None
    depths = {value for key, value in config.items() if _is_depth(key) and type(value) is int}
    sizes: dict[str, Any] = {}
    for key, value in config.items():
        if is_table(value) and ("model_type" in value or key.endswith("_config")):
            sizes[key] = first_layers(value, layers)
            if sizes[key] is None:
                return None
        elif _is_depth(key) and type(value) is int:
            sizes[key] = min(value, layers)
        elif is_sequence(value) and len(value) in depths:
            sizes[key] = value[:layers]
        else:
            sizes[key] = value
    return sizes


def stays_wide(config: Mapping[str, Any], way: Shrinking) -> bool:
    """Whether this way leaves widths as they are: always, or because a narrow part of the model cannot be divided."""
    return way.how == "shallow" or (way.how == "divided" and _divisor(config) == 1)


def _shrink(config: Mapping[str, Any], way: Shrinking) -> dict[str, Any]:
    stages = next((len(value) for key in _STAGES if is_sequence(value := config.get(key))), 0)
    depths = {v for k, v in config.items() if _is_depth(k) and type(v) is int and v != stages}
    depth = max(depths, default=0)
    features = config.get("out_features")
    per_layer = stages == 0 and is_sequence(features) and depth > 0
    kept = _layers_kept(config, max(way.layers, len(features)) if per_layer and is_sequence(features) else way.layers)
    small: dict[str, Any] = {}
    for key, value in config.items():
        if is_table(value) and ("model_type" in value or key.endswith("_config")) and key != "per_layer_config":
            small[key] = _shrink(value, way)
        elif not (_is_depth(key) and value == stages):
            small[key] = _value(key, value, depths, kept, way)
        else:
            small[key] = value
    if per_layer and is_sequence(features):
        _keep_last_stages(small, len(features), len(kept))
    layers: Any = config.get("per_layer_config")
    if isinstance(layers, dict):
        # By number, or by number as a text.
        of: dict[int, dict[str, Any]] = {int(old): layer for old, layer in cast("dict[str, Any]", layers).items()}
        small["per_layer_config"] = {
            new: {key: _value(key, value, depths, kept, way) for key, value in of[old].items()}
            for new, old in enumerate(kept)
            if old in of
        } or None
    _reconcile(small, way)
    return small


def _value(key: str, value: Any, depths: set[int], kept: tuple[int, ...], way: Shrinking) -> Any:
    if is_sequence(value) and len(value) in depths and len(value) > len(kept) and key not in _STAGES:
        chosen = [value[i] for i in kept]
        return chosen if way.how == "shallow" else _narrowed(key, chosen, way)
    if _is_depth(key):
        return _each(value, lambda v: min(v, len(kept)) if v > 0 else v)
    if key in _STAGES:
        return _each(value, lambda v: min(v, 2))
    if key.startswith("vocab_size") or key.endswith("_vocab_size"):
        return _each(value, lambda v: min(v, VOCABULARY) if v > 8 else v)
    if key in ("image_size", "img_size", "input_size", "crop_size") and way.size is not None:
        return _each(value, lambda v: way.size or v)
    if _EXPERTS.match(key):
        return 4 if value is None else _each(value, lambda v: min(v, 4))
    if _CHOSEN.match(key):
        return 2 if value is None else _each(value, lambda v: min(v, 2))
    return value if way.how == "shallow" else _narrowed(key, value, way)


def _narrowed(key: str, value: Any, way: Shrinking) -> Any:
    if key in _SMALL:
        return _each(value, lambda v: min(v, _SMALL[key]) if v > 0 else v)
    if key in _FIXED_WIDTHS or (key.endswith(("channels", "in_chans")) and value in (1, 2, 3, 4)):
        return value
    if _HEADS.match(key):
        return _each(value, lambda v: min(v, 2) if way.how == "uniform" else _fewer(v))
    if _HEAD_WIDTHS.match(key):
        return _each(value, lambda v: min(v, _WIDTH // 2))
    if _WIDTHS.match(key):
        return _each(value, lambda v: _narrow(v, way))
    return value


def _narrow(width: int, way: Shrinking) -> int:
    if width <= 16:
        return width
    return _WIDTH if way.how == "uniform" else max(width // way.divisor // 8 * 8, 8)


def _fewer(heads: int) -> int:
    """Returns a divisor of the number of heads, 2 to 4 if there is one."""
    return next((few for few in (4, 2, 3) if heads % few == 0 and heads >= few), heads)


def _is_depth(key: str) -> bool:
    return _DEPTHS.match(key) is not None and _FIXED_DEPTHS.match(key) is None


def _layers_kept(config: Mapping[str, Any], most: int) -> tuple[int, ...]:
    """Returns the blocks that stay: the first ones, and one of each further kind in a list of kinds."""
    lists = (config.get(key) for key in ("layer_types", "layers_block_type", "block_types"))
    kinds = next((kinds for kinds in lists if is_sequence(kinds)), None)
    if not kinds:
        return tuple(range(most))
    firsts = sorted({kinds.index(kind) for kind in kinds})
    others = [i for i in range(len(kinds)) if i not in firsts]
    return tuple(sorted(firsts + others[: max(0, most - len(firsts))]))


def _divisor(config: Mapping[str, Any]) -> int:
    """Returns the power of two that brings the narrowest main width to 32 … 63."""
    narrowest = min(_main_widths(config), default=_WIDTH)
    return 1 << max(0, (narrowest // _WIDTH).bit_length() - 1)


def _main_widths(config: Mapping[str, Any]) -> list[int]:
    widths: list[int] = []
    for key, value in config.items():
        if is_table(value):
            widths += _main_widths(value)
        elif key in _MAIN_WIDTHS and type(value) is int and value >= 16:
            widths.append(value)
    return widths


def _keep_last_stages(config: dict[str, Any], features: int, layers: int) -> None:
    """Makes a backbone whose stages are its blocks return the last of the stages that are left."""
    config["stage_names"] = ["stem", *(f"stage{i + 1}" for i in range(layers))]
    config["out_features"] = config["stage_names"][-features:]
    config["out_indices"] = list(range(layers + 1))[-features:]


def _reconcile(config: dict[str, Any], way: Shrinking) -> None:
    """Repairs relations that shrinking each value by itself broke, and fills in values without a default."""
    _move_special_tokens(config)
    for key, value in _MISSING.items():
        if key in config and config[key] is None:
            config[key] = value
    if config.get("use_cache"):
        config["use_cache"] = False
    if config.get("model_type") == "timm_backbone" and config.get("backbone") is None:
        config["backbone"] = "resnet18"
    if config.get("languages") and "default_language" in config:
        config["default_language"] = config["languages"][0]
    if way.how == "shallow":
        return
    _fit_heads(config)
    _fit_state_space(config)
    _fit_rope_sections(config)


def _fit_heads(config: dict[str, Any]) -> None:
    for heads_name, width_name in _HEADED:
        heads, width = config.get(heads_name), config.get(width_name)
        # Rotary embeddings of two axes take a head apart into four.
        if type(heads) is int and type(width) is int and heads > 2 and width // heads % 4 and width % 8 == 0:
            if config.get("num_key_value_heads") == heads:
                config["num_key_value_heads"] = 2
            config[heads_name] = 2
    heads, width = config.get("num_attention_heads"), config.get("hidden_size")
    if type(heads) is int and type(width) is int and heads > 0 and width % heads and not config.get("head_dim"):
        config["num_attention_heads"] = heads = math.gcd(heads, width)
    if type(heads) is int and type(width) is int and "head_dim" in config and config["head_dim"] is None:
        config["head_dim"] = width // heads
    if "qk_rope_head_dim" in config and "head_dim" in config:
        rope: Any = config.get("rope_parameters")
        part = float(rope.get("partial_rotary_factor") or 1.0) if is_table(rope) else 1.0
        config["head_dim"] = int(config["qk_rope_head_dim"] / part)
    if "num_key_value_heads" in config and config["num_key_value_heads"] is None:
        config["num_key_value_heads"] = heads
    key_values = config.get("num_key_value_heads")
    if type(heads) is int and type(key_values) is int and key_values > 0 and heads % key_values:
        config["num_key_value_heads"] = 1


_HEADED: Final = (
    ("num_attention_heads", "hidden_size"), ("num_heads", "embed_dim"), ("num_heads", "hidden_size"),
    ("attention_heads", "hidden_size"),
)  # fmt: skip


def _fit_state_space(config: dict[str, Any]) -> None:
    """Fits heads and head width of a state-space layer to its inner width, `expand` times the hidden size."""
    width = config.get("hidden_size")
    for expand, heads, head_width in (
        ("expand", "num_heads", "head_dim"),
        ("mamba_expand", "mamba_n_heads", "mamba_d_head"),
        ("mamba_expand", "n_mamba_heads", "mamba_headdim"),
        ("expand", "mamba_num_heads", "mamba_head_dim"),
    ):
        factor, count = config.get(expand), config.get(heads)
        if type(width) is int and isinstance(factor, (int, float)) and type(count) is int and head_width in config:
            config[head_width] = int(width * factor) // count
    if type(config.get("mamba_d_ssm")) is int:
        config["mamba_d_ssm"] = config["mamba_n_heads"] * config["mamba_d_head"]


def _move_special_tokens(config: dict[str, Any]) -> None:
    """Moves each special token that no longer fits the vocabulary to a separate id at the end."""
    following = FIRST_SPECIAL
    given: dict[int, int] = {}
    for key, value in config.items():
        if not key.endswith(("token_id", "token_index", "_token_ids")) and key not in ("unk_index", "mask_index"):
            continue
        moved: list[Any] = []
        for one in value if is_list(value) else [value]:
            if type(one) is int and one >= FIRST_SPECIAL and one not in given:
                given[one] = following
                following = min(following + 1, VOCABULARY - 1)
            moved.append(given.get(one, one) if type(one) is int else one)
        config[key] = moved if is_list(value) else moved[0]


def _fit_rope_sections(config: dict[str, Any]) -> None:
    """Scales the sections of a multi-axis rotary embedding to add up to half of a head's rotated part."""
    heads, hidden = config.get("num_attention_heads"), config.get("hidden_size")
    width: int = config.get("head_dim") or 16
    if not config.get("head_dim") and type(heads) is int and type(hidden) is int and heads > 0:
        width = hidden // heads
    for key in ("rope_parameters", "rope_scaling"):
        table: Any = config.get(key)
        if is_table(table) and ("mrope_section" in table or _MULTI_AXIS.search(str(config.get("model_type")))):
            half = int(width * float(table.get("partial_rotary_factor", 1.0))) // 2
            third = half // 3
            sections = [half - 2 * third, third, third]
            # Ernie's height and width come first, and alternate.
            ernie = "ernie" in str(config.get("model_type"))
            config[key] = {**table, "mrope_section": sections[::-1] if ernie else sections}


def _each(value: Any, change: Callable[[int], int]) -> Any:
    """Applies `change` to an int or to the ints in nested lists. Returns anything else as it is."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return change(value)
    if is_sequence(value):
        return [_each(item, change) for item in value]
    return value
