"""Shrinks constructor arguments of diffusers' models from their defaults.

Depths become 2. Attention keeps the width of a head (the axes of rotary embeddings add up to it) and 2 heads. A value
that equals the width of all heads together still does. Lists of channels are divided until the narrowest is 32, so
that group norms of 32 groups fit. Other widths (texts, feed-forward layers) become 32 to 64; equal ones stay equal.
Exceptions are in `cases`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mindgap.sources.type_guards import is_sequence

_DEPTHS: Final = re.compile(
    r"^((num|n)_?\w*(layers|blocks)|nlayers|(\w+_)?depth|mmdit_layers|num_hidden_layers|LFE_depth|(\w+_)?num_layers)$"
)
_FIXED_DEPTHS: Final = re.compile(r"^(double_self_attention|inject_face_latents_blocks|num_layers_per_block)$")
_PER_BLOCK: Final = re.compile(r"^(\w+_)?layers_per_\w*block$|^num_res_blocks$|^num_(enc|dec)_blocks$")
_HEADS: Final = re.compile(r"^((num|n)_(\w+_)?heads|nheads|dit_heads|\w*_num_heads|(\w+_)?num_attention_heads)$")
_KV_HEADS: Final = re.compile(r"^(num_key_value_heads|n_kv_heads|num_kv_heads|num_key_value_attention_heads)$")
_HIDDEN: Final = ("hidden_size", "dim", "model_dim", "embed_dim", "dit_dim", "token_dim", "decoder_hidden_size")
_WIDTHS: Final = re.compile(
    r"^(\w+_)?(dim|dims|channels|intermediate_size|hidden_size|ffn_hidden_size|embed|hidden|dim2|dim_t5|in|states_dim"
    r"|ffn_dim|embeddings_input_dim|encoder_size|output|d_model|d_ff)$"
)
_FIXED_WIDTHS: Final = re.compile(
    r"^((in|out|latent|io|input|output|num|audio_in|audio_out|audio|z|conditioning|vace_in|ctrl_conditioning)_channels"
    r"|in_visual_dim|out_visual_dim|in_audio_dim|out_audio_dim|(\w+_)?head_dim|attention_head_dim|\w*channel_order"
    r"|rotary_dim|\w+_head_width|z_dim|latent_dim|xt_pair_dist_dim|cross_attn_dim_head|LFE_dim_head|motion_dim"
    r"|in_dim|out_dim|extra_in_channels|global_states_input_dim_|cond_in_channels|time_dim_|dec_dim_)$"
)
_CHANNELS: Final = re.compile(r"^(\w+_)?(block_out_channels|channel_sizes|stage_channels|channels)$")


def shrink_arguments(model_class: Callable[..., Any], own: Mapping[str, Any], layers: int) -> dict[str, Any]:
    """Returns constructor arguments for a small model. `own`: known values for this class, taken as they are.

    Arguments with neither a default nor a value in `own` are left out; the constructor reports them.
    """
    parameters = inspect.signature(model_class.__init__).parameters
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty and name != "self"}
    whole = {**defaults, **own}
    heads = _main_heads(defaults)
    kept = _kept_heads(defaults)
    factor = _channel_factor(defaults)
    result: dict[str, Any] = {}
    for name, value in whole.items():
        result[name] = value if name in own else _smaller(name, value, layers, heads, kept, factor, defaults)
    return result


def _smaller(
    name: str, value: Any, layers: int, heads: int, kept: int, factor: int, defaults: Mapping[str, Any]
) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, (list, tuple)):
        return _smaller_list(name, value, layers, factor)  # pyright: ignore[reportUnknownArgumentType] # any list
    if not isinstance(value, int):
        return value
    if _KV_HEADS.match(name):
        return max(1, round(kept * value / heads)) if heads else value
    if _HEADS.match(name) and not name.startswith("motion"):
        return min(value, kept)
    if _PER_BLOCK.match(name):
        return min(value, max(1, layers - 1))
    if _DEPTHS.match(name) and not _FIXED_DEPTHS.match(name):
        return min(value, layers)
    return _narrower(name, value, heads, kept, defaults)


def _narrower(name: str, value: int, heads: int, kept: int, defaults: Mapping[str, Any]) -> int:
    """Returns a smaller width: in proportion to the heads, or independent of them."""
    head = defaults.get("attention_head_dim") or defaults.get("head_dim") or 0
    all_heads = heads * head if isinstance(head, int) else 0
    if name in _HIDDEN and heads and value % heads == 0:
        return value // heads * kept
    if all_heads and value == all_heads and (_WIDTHS.match(name) or name == "cross_attention_dim"):
        return head * kept
    if _FIXED_WIDTHS.match(name) or not _WIDTHS.match(name):
        return value
    return value if value <= 64 else 64 if value >= 4096 else 48 if value >= 1024 else 32


def _smaller_list(name: str, value: Sequence[Any], layers: int, factor: int) -> Any:
    kind = type(value)
    if not value or not all(type(item) is int for item in value):
        return value
    if _PER_BLOCK.match(name):
        return kind(min(item, max(1, layers - 1)) for item in value)  # pyright: ignore[reportCallIssue] # a list or a tuple
    if _CHANNELS.match(name) and "conditioning" not in name:
        return kind(item // factor for item in value)  # pyright: ignore[reportCallIssue] # a list or a tuple
    return value


def _channel_factor(defaults: Mapping[str, Any]) -> int:
    """Returns the divisor of all lists of channels."""
    numbers: list[int] = []
    for name, value in defaults.items():
        if _CHANNELS.match(name) and "conditioning" not in name and is_sequence(value):
            numbers += [item for item in value if type(item) is int]
    return max(1, min(numbers) // 32) if numbers else 1


def _main_heads(defaults: Mapping[str, Any]) -> int:
    for name in ("num_attention_heads", "n_heads", "num_heads", "dit_heads", "nheads", "decoder_num_attention_heads"):
        if isinstance(defaults.get(name), int):
            return int(defaults[name])
    return 0


def _kept_heads(defaults: Mapping[str, Any]) -> int:
    """Returns 2, or 4 if groups of heads share keys and values."""
    grouped = any(_KV_HEADS.match(name) and isinstance(value, int) for name, value in defaults.items())
    return 4 if grouped else 2
