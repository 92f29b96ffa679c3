"""Configurations of transformers, made small.

A configuration's widths depend on each other in ways that only the model's code knows: heads divide
the hidden size, one tower's output is another's input, each stage doubles the one before. Two ways
of shrinking keep most of them: dividing every width by the same power of two keeps every equality
and ratio; setting every width to the same small number keeps every equality. Whoever builds the
model tries them in turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

How = Literal["divided", "uniform", "shallow"]

VOCABULARY: Final = 256
#: Ids of special tokens are moved here, to the end of the vocabulary; texts are drawn from what lies before.
FIRST_SPECIAL: Final = 192
_WIDTH: Final = 32

_DEPTHS: Final = re.compile(
    r"^(num_hidden_layers|num_layers|n_layers?|layers|depth|num_blocks|num_encoder_blocks_?"
    r"|(\w+_)?(encoder|decoder|hidden|attention|text|vision|transformer|speech|fusion|resampler|lqe|adapter|refine|"
    r"conv_bottleneck|loc|mask)_layers|(\w+_)?num_(\w+_)?(hidden_)?layers|(\w+_)?depth|num_\w*_blocks|n_layer"
    r"|n_(enc|dec|encoder|decoder)_layers?|encoder_depth|decoder_depth|num_upsampling_stages_?)$"
)
_KEEP_DEPTH: Final = frozenset({"num_feat_extract_layers", "iou_head_depth", "num_encoder_blocks", "num_residual_layers"})
_WIDTHS: Final = re.compile(
    r"^(hidden_size|d_model|n_embd|dim|embed_dim|hidden_dim|intermediate_size|d_ff|ffn_dim|d_inner|n_inner|inner_dim|"
    r"mlp_dim|projection_dim|emb_dim|embedding_size|embedding_dim|out_hidden_size|output_hidden_size|"
    r"\w+_(hidden_size|hidden_dim|embed_dim|ffn_dim|intermediate_size|embedding_size|proj_dim|projection_size|"
    r"projection_dim|feature_size|feedforward_dim|channels|hid_dim)|hidden_sizes|conv_dim|d_embed|width|"
    r"(\w+_)?in_channels|(\w+_)?out_channels|embed_dims|encoder_hidden_size|classifier_proj_size|out_features_dim|"
    r"tdnn_dim|xvector_output_dim|pooler_output_size|codevector_dim|proj_codevector_dim|num_filters|dim_feedforward|"
    r"bottleneck_channels|query_hidden_size|\w+_embedding_dim|ffn_hidden_size|attention_hidden_size|text_dim|"
    r"latent_dim|adapter_out_dim|d_latents|qk_channels|v_channels|cross_attention_hidden_size|\w+_dims|out_dim|"
    r"coordinate_size|shape_size|hidden_channels|lru_width|projection_size|kv_channels_?|output_dim|input_dim|"
    r"conv_channels|\w+_width|mamba_intermediate_size|dim_out|num_pos_feats|n_embed|encoder_dim|decoder_dim)$"
)
_PICTURE_CHANNELS: Final = frozenset({"num_channels", "audio_channels", "num_input_channels", "mask_input_channels"})
_HEADS: Final = re.compile(
    r"^(\w+_)?(num_attention_heads|attention_heads|num_heads|n_heads?|num_key_value_heads|n_kv_heads|nhead|num_kv_heads|"
    r"resampler_heads|mamba_n_heads|linear_num_key_heads|linear_num_value_heads|self_attention_heads|cross_attention_heads)$"
)
_HEAD_WIDTHS: Final = re.compile(r"^(\w+_)?(head_dim|d_kv|d_head|attention_head_dim|attention_head_size|head_size)$")
_SMALL: Final[Mapping[str, int]] = {
    "num_experts": 4, "num_local_experts": 4, "n_routed_experts": 4, "moe_num_experts": 4, "num_experts_per_tok": 2,
    "num_experts_per_token": 2, "moe_k": 2, "moe_topk": 2, "moe_top_k": 2, "n_group": 1, "topk_group": 1, "num_expert_group": 1,
    "first_k_dense_replace": 1, "num_queries": 8, "num_query_tokens": 8, "n_positions": 128, "max_2d_position_embeddings": 128,
    "max_position_embeddings": 128, "kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
    "v_head_dim": 16, "qk_head_dim": 16, "index_head_dim": 16, "index_n_heads": 2, "index_topk": 8, "num_denoising": 4,
    "num_codevectors_per_group": 16, "num_latents": 8, "latent_query_num": 8, "resampler_num_latents": 8, "mamba_chunk_size": 8,
    "chunk_size": 8, "codebook_size": 64, "num_embeddings": 64, "rotary_dim": 4, "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 2, "num_codebooks": 2, "num_frames": 4, "max_source_positions": 64,
    "max_target_positions": 64, "mamba_d_state": 8, "state_size": 8, "mamba_dt_rank": 8, "time_step_rank": 8,
    "sliding_window": 8, "attention_window": 8, "num_parallel_samples": 4, "train_num_points": 32,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Shrinking:
    """One way to make a configuration small. `layers`: repeated blocks kept; `size`: edge of pictures in pixels."""

    how: How
    layers: int = 2
    size: int | None = None
    divisor: int = 1


def shrunk(config: Mapping[str, Any], way: Shrinking) -> dict[str, Any]:
    """The dictionary of a configuration, small. Sub-configurations shrink with it, by the same divisor."""
    if way.how == "divided":
        way = Shrinking(way.how, way.layers, way.size, _divisor(config))
    return _shrink(config, way)


def _shrink(config: Mapping[str, Any], way: Shrinking) -> dict[str, Any]:
    depth = max((v for k, v in config.items() if _is_depth(k) and type(v) is int), default=0)
    kept = _layers_kept(config, way.layers)
    small: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict) and ("model_type" in value or key.endswith("_config")):
            small[key] = _shrink(value, way)  # pyright: ignore[reportUnknownArgumentType] # parsed configurations are untyped
        else:
            small[key] = _value(key, value, depth, kept, way)
    heads, key_values = small.get("num_attention_heads"), small.get("num_key_value_heads")
    if type(heads) is int and type(key_values) is int and heads % key_values:
        small["num_key_value_heads"] = 1
    _move_special_tokens(small)
    if way.how != "shallow" and "mrope_section" in str(small):
        _fit_rope_sections(small)
    if "use_cache" in small:
        small["use_cache"] = False
    return small


def _value(key: str, value: Any, depth: int, kept: tuple[int, ...], way: Shrinking) -> Any:
    if isinstance(value, (list, tuple)) and depth > len(kept) and len(value) == depth and key != "depths":  # pyright: ignore[reportUnknownArgumentType] # parsed configurations are untyped
        return [value[i] for i in kept]
    if _is_depth(key):
        return _each(value, lambda v: min(v, len(kept)) if v > 0 else v)
    if key in ("depths", "num_block_repeats", "stage_num_blocks", "layer_depths"):
        return _each(value, lambda v: min(v, 2))
    if key == "vocab_size" or key.endswith("_vocab_size"):
        return _each(value, lambda v: min(v, VOCABULARY) if v > 8 else v)
    if key in ("image_size", "img_size", "input_size", "crop_size") and way.size is not None:
        return _each(value, lambda v: way.size or v)
    if way.how == "shallow":
        return value
    if key in _SMALL:
        return _each(value, lambda v: min(v, _SMALL[key]) if v > 0 else v)
    if key in _PICTURE_CHANNELS or _of_pictures(key, value):
        return value
    if _WIDTHS.match(key):
        return _each(value, lambda v: _narrow(v, way))
    if _HEADS.match(key):
        return _each(value, lambda v: min(v, 2) if way.how == "uniform" else _fewer(v))
    if _HEAD_WIDTHS.match(key):
        return _each(value, lambda v: min(v, _WIDTH // 2))
    return value


def _of_pictures(key: str, value: Any) -> bool:
    return key.endswith(("in_channels", "in_chans", "out_channels")) and value in (1, 2, 3, 4)


def _narrow(width: int, way: Shrinking) -> int:
    if width <= 16:
        return width
    return _WIDTH if way.how == "uniform" else max(width // way.divisor, 8)


def _fewer(heads: int) -> int:
    """A divisor of the number of heads, 2 to 4 where there is one."""
    return next((few for few in (4, 2, 3) if heads % few == 0 and heads >= few), heads)


def _is_depth(key: str) -> bool:
    return key not in _KEEP_DEPTH and _DEPTHS.match(key) is not None


def _layers_kept(config: Mapping[str, Any], most: int) -> tuple[int, ...]:
    """Which blocks stay: the first ones, and one of each further kind that a list of kinds names."""
    kinds = next((v for k, v in config.items() if k in ("layer_types", "layers_block_type", "block_types") and isinstance(v, (list, tuple))), None)
    if not kinds:
        return tuple(range(most))
    firsts = sorted({kinds.index(kind) for kind in kinds})  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportUnknownArgumentType] # parsed configurations are untyped
    others = [i for i in range(len(kinds)) if i not in firsts]  # pyright: ignore[reportUnknownArgumentType] # parsed configurations are untyped
    return tuple(sorted(firsts + others[: max(0, most - len(firsts))]))


def _divisor(config: Mapping[str, Any]) -> int:
    """The power of two that brings the narrowest main width to 32 … 63."""
    widths = list(_main_widths(config))
    narrowest = min(widths, default=_WIDTH)
    return 1 << max(0, (narrowest // _WIDTH).bit_length() - 1)


def _main_widths(config: Mapping[str, Any]) -> list[int]:
    found: list[int] = []
    for key, value in config.items():
        if isinstance(value, dict):
            found += _main_widths(value)  # pyright: ignore[reportUnknownArgumentType] # parsed configurations are untyped
        elif key in ("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "hidden_dim") and type(value) is int and value >= 16:
            found.append(value)
    return found


def _move_special_tokens(config: dict[str, Any]) -> None:
    """Give every id of a special token that no longer fits the vocabulary its own id at the end."""
    following = FIRST_SPECIAL
    given: dict[int, int] = {}
    for key, value in config.items():
        if not key.endswith(("token_id", "token_index", "_token_ids")) and key not in ("unk_index", "mask_index"):
            continue
        ids = value if isinstance(value, list) else [value]
        moved: list[Any] = []
        for one in ids:  # pyright: ignore[reportUnknownVariableType] # parsed configurations are untyped
            if type(one) is int and one >= FIRST_SPECIAL:
                if one not in given:
                    given[one] = following
                    following = min(following + 1, VOCABULARY - 1)
                one = given[one]
            moved.append(one)
        config[key] = moved if isinstance(value, list) else moved[0]


def _fit_rope_sections(config: dict[str, Any]) -> None:
    """Sections of a multi-axis rotary embedding add up to half of a head."""
    heads, hidden = config.get("num_attention_heads"), config.get("hidden_size")
    width = config.get("head_dim") or (hidden // heads if heads and hidden else 16)
    for key in ("rope_parameters", "rope_scaling"):
        table = config.get(key)
        if isinstance(table, dict) and "mrope_section" in table:
            half = width // 2
            config[key] = {**table, "mrope_section": [half - 2 * (half // 3), half // 3, half // 3]}


def _each(value: Any, change: Callable[[int], int]) -> Any:
    """`change` applied to an int, or to the ints in nested lists; anything else as it is."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_each(item, change) for item in value]  # pyright: ignore[reportUnknownVariableType] # parsed configurations are untyped
    return value
