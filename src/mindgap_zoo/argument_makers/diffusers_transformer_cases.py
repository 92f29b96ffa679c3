"""Lists sizes and inputs of diffusers' transformers that rules cannot derive."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# (functions in a table take an `InputMaker`)

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch

from mindgap_zoo.argument_makers.argument_specs import integers, normal, ones, uniform
from mindgap_zoo.argument_makers.diffusers_inputs import InputMaker, ModelCase

#: Also of its control nets. Rotations: cosine and sine for each token of 8 × 8 and each part of a head of 32.
HUNYUAN: Final = ModelCase(
    {
        "in_channels": 4, "patch_size": 2, "sample_size": 16, "hidden_size": 64, "attention_head_dim": 32,
        "text_len": 8, "text_len_t5": 16,
    },
    {
        "encoder_hidden_states": normal("b 8 cross_attention_dim"), "text_embedding_mask": ones("b 8"),
        "encoder_hidden_states_t5": normal("b 16 cross_attention_dim_t5"), "text_embedding_mask_t5": ones("b 16"),
        "image_meta_size": uniform("b 6", 1.0, 64.0), "style": integers("b", 1),
        "image_rotary_emb": (uniform("t 32", -1.0, 1.0), uniform("t 32", -1.0, 1.0)),
    },
)  # fmt: skip


def _rotations(maker: InputMaker) -> torch.Tensor:
    """Returns complex rotations of unit length for 64 rows and 64 columns, 32 of each."""
    angles = torch.arange(64.0)[:, None, None] + torch.arange(64.0)[None, :, None]
    return torch.polar(torch.ones(64, 64, 32), angles / torch.arange(1.0, 33.0))


def _video_axes(maker: InputMaker) -> tuple[torch.Tensor, ...]:
    return tuple(_range(0, count) for count in (2, maker.edge // 2, maker.edge // 2))


def _grid_ids(maker: InputMaker) -> torch.Tensor:
    """Returns time, row and column of text tokens, then of image tokens: (l + t, 3)."""
    edge = maker.edge // 2
    words = torch.zeros(maker.shape("l")[0], 3, dtype=torch.int64)
    words[:, 0] = torch.arange(len(words))
    rows, columns = torch.arange(edge).repeat_interleave(edge), torch.arange(edge).repeat(edge)
    return torch.cat([words, torch.stack([torch.full_like(rows, len(words)), rows, columns], 1)])


def _indicator(maker: InputMaker) -> torch.Tensor:
    """Returns 3 for each text token and 2 for each image token."""
    words, tokens = maker.shape("l t")
    return torch.tensor([3] * words + [2] * tokens).expand(maker.batch, -1)


def _slots(maker: InputMaker) -> torch.Tensor:
    """Returns words, then one placeholder for every four image tokens."""
    words, tokens = maker.shape("l t")
    return torch.tensor([False] * words + [True] * (tokens // 4)).expand(maker.batch, -1)


def _range(first: int, count: int) -> torch.Tensor:
    return torch.arange(first, first + count)


_WAN: Final[Mapping[str, Any]] = {"ffn_dim": 256}
_FRAMES_FIRST: Final = normal("b 2 in_channels s s")

_ANY_FLOW: Final = {
    "hidden_states": _FRAMES_FIRST, "timestep": uniform("b 2", 1.0, 999.0), "r_timestep": uniform("b 2", 1.0, 999.0),
}  # fmt: skip

TRANSFORMERS: Final[Mapping[str, ModelCase]] = {
    **dict.fromkeys((
        "ChronoEditTransformer3DModel", "HeliosTransformer3DModel", "SkyReelsV2Transformer3DModel",
        "WanAnimate2Transformer3DModel", "WanTransformer3DModel",
    ), ModelCase(_WAN)),
    "AceStepTransformer1DModel": ModelCase(
        inputs={
            "hidden_states": normal("b 32 64"), "context_latents": normal("b 32 128"), "timestep": uniform("b"),
            "encoder_hidden_states": normal("b l hidden_size"),
        }
    ),
    "AnyFlowFARTransformer3DModel": ModelCase(_WAN, {**_ANY_FLOW, "chunk_partition": [1, 1]}),
    "AnyFlowTransformer3DModel": ModelCase(_WAN, _ANY_FLOW),
    "BriaFibo2Transformer2DModel": ModelCase(
        {"injection_layer_ids": (0, 1), "min_num_gist_tokens": 16, "max_num_gist_tokens": 32},
        {"encoder_hidden_states": normal("b 3 l cap_feat_dim"), "encoder_attention_mask": None},
    ),
    "BriaFiboTransformer2DModel": ModelCase(
        inputs={"text_encoder_layers": [normal("b l text_encoder_dim") for _ in range(4)]}
    ),
    **dict.fromkeys(("CogVideoXTransformer3DModel", "ConsisIDTransformer3DModel"), ModelCase(
        {"sample_width": 16, "sample_height": 16, "sample_frames": 5, "max_text_seq_length": 16},
        {"hidden_states": _FRAMES_FIRST},
    )),
    "Cosmos3OmniTransformer": ModelCase(
        {"hidden_size": 256, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 256, "intermediate_size": 256,
         "patch_latent_dim": 192, "rope_axes_dim": (12, 10, 10)},
        {
            "input_ids": integers("l", 256), "text_indexes": _range(0, 16), "position_ids": _range(0, 48),
            "und_len": 16, "sequence_length": 48, "vision_tokens": [normal("1 48 2 8 8")],
            "vision_token_shapes": [(2, 4, 4)], "vision_sequence_indexes": _range(16, 32),
            "vision_mse_loss_indexes": _range(16, 32), "vision_timesteps": uniform("32", 1.0, 999.0),
            "vision_noisy_frame_indexes": [_range(0, 2)],
        },
        fixed=("text_indexes", "vision_sequence_indexes", "vision_mse_loss_indexes", "vision_noisy_frame_indexes"),
    ),
    "CosmosTransformer3DModel": ModelCase(inputs={"padding_mask": ones("1 1 s s", "float32")}),
    "DiTTransformer2DModel": ModelCase(inputs={"class_labels": integers("b", 1000)}),
    "DreamLiteTransformer2DModel": ModelCase({"in_channels": 32, "attention_head_dim": 16, "cross_attention_dim": 32}),
    "EasyAnimateTransformer3DModel": ModelCase(
        {"in_channels": 16, "out_channels": 16, "patch_size": 2, "sample_width": 16, "sample_height": 16}
    ),
    "ErnieImageTransformer2DModel": ModelCase(
        inputs={"text_bth": normal("b l text_in_dim"), "text_lens": integers("b", 16, 15)}
    ),
    "GlmImageTransformer2DModel": ModelCase(
        {"prior_vq_quantizer_codebook_size": 256},
        {"prior_token_id": integers("b t", 256), "prior_token_drop": torch.zeros(1, 64, dtype=torch.bool)},
        fixed=("prior_token_drop",),
    ),
    "HiDreamImageTransformer2DModel": ModelCase(
        {"patch_size": 2, "in_channels": 16, "caption_channels": [64, 64], "llama_layers": [0, 1, 2, 3],
         "text_emb_dim": 64, "axes_dims_rope": (64, 32, 32), "max_resolution": (16, 16)},
        {
            "hidden_states": normal("b in_channels s s"), "encoder_hidden_states_t5": normal("b l 64"),
            "encoder_hidden_states_llama3": [normal("b l 64") for _ in range(4)], "pooled_embeds": normal("b 64"),
        },
    ),
    "HunyuanDiT2DModel": HUNYUAN,
    "HunyuanVideo15Transformer3DModel": ModelCase(
        inputs={
            "encoder_hidden_states_2": normal("b 8 text_embed_2_dim"), "encoder_attention_mask_2": ones("b 8"),
            "image_embeds": normal("b 8 image_embed_dim"),
        },
        fixed=("encoder_attention_mask", "encoder_attention_mask_2", "image_embeds"),
    ),
    "HunyuanVideoFramepackTransformer3DModel": ModelCase(
        {"has_image_proj": True, "has_clean_x_embedder": True},
        {
            "image_embeds": normal("b 8 image_proj_dim"), "indices_latents": _range(7, 2),
            "latents_clean": normal("b in_channels 1 s s"), "indices_latents_clean": _range(6, 1),
            "latents_history_2x": normal("b in_channels 2 s s"), "indices_latents_history_2x": _range(4, 2),
            "latents_history_4x": normal("b in_channels 4 s s"), "indices_latents_history_4x": _range(0, 4),
        },
        fixed=("encoder_attention_mask",),
    ),
    "Ideogram4Transformer2DModel": ModelCase(
        {"intermediate_size": 512},
        {
            "hidden_states": normal("b 80 in_channels"), "encoder_hidden_states": normal("b 80 64"),
            "timestep": uniform("b"), "position_ids": lambda m: _grid_ids(m).expand(m.batch, -1, -1),
            "segment_ids": lambda m: torch.zeros(m.batch, sum(m.shape("l t")), dtype=torch.int64),
            "indicator": _indicator,
        },
    ),
    "JoyImageEditPlusTransformer3DModel": ModelCase(
        inputs={"hidden_states": normal("b 32 in_channels 1 2 2"), "shape_list": lambda m: [[(2, 4, 4)]] * m.batch}
    ),
    "Kandinsky5Transformer3DModel": ModelCase(
        {"model_dim": 128, "ff_dim": 256, "time_dim": 64},
        {
            "hidden_states": normal("b 2 s s in_visual_dim"), "pooled_projections": normal("b in_text_dim2"),
            "visual_rope_pos": _video_axes, "text_rope_pos": lambda m: _range(0, m.shape("l")[0]),
        },
    ),
    "Kandinsky6SRTransformer3DModel": ModelCase(
        {"model_dim": 128, "ff_dim": 256, "time_dim": 64, "in_visual_dim": 16, "out_visual_dim": 16},
        {"hidden_states": normal("b 1 s s 33")},
    ),
    "Kandinsky6Transformer3DModel": ModelCase(
        {"model_dim": 256, "ff_dim": 512, "time_dim": 64},
        {
            "hidden_states": normal("b 2 s s 33"), "pooled_projections": normal("b in_text_dim2"),
            "audio_hidden_states": normal("b 16 in_audio_dim"), "encoder_attention_mask": None,
        },
    ),
    "Krea2Transformer2DModel": ModelCase(
        {"text_hidden_dim": 64, "num_text_layers": 4, "text_num_attention_heads": 2, "text_num_key_value_heads": 2,
         "text_intermediate_size": 128, "intermediate_size": 512},
        {
            "hidden_states": normal("b t in_channels"), "encoder_hidden_states": normal("b l num_text_layers 64"),
            "position_ids": _grid_ids, "encoder_attention_mask": ones("b l", "bool"), "timestep": uniform("b"),
        },
    ),
    "LTX2VideoTransformer3DModel": ModelCase(
        {"audio_cross_attention_dim": 128, "caption_channels": 64},
        {
            "hidden_states": normal("b 128 in_channels"), "audio_hidden_states": normal("b 16 audio_in_channels"),
            "audio_encoder_hidden_states": normal("b l 64"), "audio_encoder_attention_mask": ones("b l"),
            "num_frames": 2, "height": 8, "width": 8, "audio_num_frames": 16,
        },
    ),
    "LTXVideoTransformer3DModel": ModelCase(
        inputs={"hidden_states": normal("b 128 in_channels"), "num_frames": 2, "height": 8, "width": 8}
    ),
    "LatteTransformer3DModel": ModelCase(
        {
            "in_channels": 4, "patch_size": 2, "sample_size": 16, "caption_channels": 64, "num_embeds_ada_norm": 1000,
            "norm_type": "ada_norm_single", "video_length": 2, "cross_attention_dim": 176, "out_channels": 8,
            "norm_elementwise_affine": False,
        },
        {"encoder_attention_mask": None},
    ),
    "LongCatAudioDiTTransformer": ModelCase(
        inputs={"hidden_states": normal("b 32 latent_dim"), "latent_cond": normal("b 32 latent_dim")}
    ),
    **dict.fromkeys(
        ("Lumina2Transformer2DModel", "MochiTransformer3DModel"), ModelCase(fixed=("encoder_attention_mask",))
    ),
    "LuminaNextDiT2DModel": ModelCase(
        {"num_kv_heads": 2, "hidden_size": 128, "cross_attention_dim": 64},
        {"image_rotary_emb": _rotations, "cross_attention_kwargs": {}},
    ),
    "MiniMaxH3Transformer3DModel": ModelCase(
        {"attention_head_dim": 96, "time_embed_dim": 64, "ffn_dim": 256},
        {
            "hidden_states": normal("b 32 96"), "audio_hidden_states": normal("b 16 audio_in_channels"),
            "encoder_hidden_states": normal("b 16 text_dim"), "timestep": uniform("2", 1.0, 999.0),
            "timestep_indices": torch.arange(64) % 2, "token_tags": torch.tensor([0] * 16 + [1] * 32 + [2] * 16),
            "position_ids": torch.arange(64)[:, None].expand(-1, 3).contiguous(), "text_indices": _range(0, 16),
            "video_indices": _range(16, 32), "audio_indices": _range(48, 16),
        },
    ),
    "MiniMaxMusic3RVQDepthDecoder": ModelCase(
        {"audio_vocab_size": 64}, {"inputs_embeds": normal("b 8 hidden_size")}
    ),
    "MiniMaxMusic3Transformer1DModel": ModelCase(
        {"condition_dim": 48, "ff_inner_dim": 256},
        {"hidden_states": normal("b in_channels 32"), "encoder_hidden_states": normal("b 32 48")},
    ),
    "NucleusMoEImageTransformer2DModel": ModelCase(
        {"num_experts": 4, "moe_intermediate_dim": 64, "capacity_factors": 2.0}
    ),
    "OmniGenTransformer2DModel": ModelCase(
        {"hidden_size": 128, "vocab_size": 256, "pad_token_id": 0, "intermediate_size": 256, "pos_embed_max_size": 32,
         "rope_scaling": {"short_factor": [1.0] * 16, "long_factor": [1.0] * 16}},
        {
            "input_ids": integers("b l", 256), "input_img_latents": [], "input_image_sizes": {},
            # 16 words, a time step and 64 image tokens.
            "attention_mask": ones("b 81 81"), "position_ids": lambda m: _range(0, 81).expand(m.batch, -1),
        },
        fixed=("position_ids",),
    ),
    "PixArtTransformer2DModel": ModelCase(
        {"use_additional_conditions": False, "sample_size": 16, "caption_channels": 64},
        {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}},
    ),
    **dict.fromkeys(
        ("SD3Transformer2DModel", "CogView3PlusTransformer2DModel"), ModelCase({"pos_embed_max_size": 32})
    ),
    "PriorTransformer": ModelCase(
        {"num_embeddings": 16},
        {
            "hidden_states": normal("b embedding_dim"), "proj_embedding": normal("b embedding_dim"),
            "encoder_hidden_states": normal("b 16 embedding_dim"), "attention_mask": ones("b 16", "bool"),
        },
    ),
    "QwenImage21Transformer2DModel": ModelCase(
        inputs={
            "img_mask": _slots, "img_shapes": lambda m: [[(1, m.edge // 2, m.edge // 2)]] * m.batch,
            "timestep": uniform("b"),
        },
        fixed=("img_mask", "encoder_hidden_states_mask"),
    ),
    "SanaWMLTX2RefinerTransformer3DModel": ModelCase(
        {"caption_channels": 64},
        {
            "hidden_states": normal("b 128 in_channels"),
            "video_rotary_emb": (uniform("b 128 256", -1.0, 1.0), uniform("b 128 256", -1.0, 1.0)),
        },
    ),
    "SanaWMTransformer3DModel": ModelCase(
        {"chunk_plucker_post_attn_blocks": 2, "num_layers": 4},
        {
            "timestep": uniform("b 1 2", 1.0, 999.0), "encoder_hidden_states": normal("b 1 l caption_channels"),
            "mask": ones("b 1 1 l"), "encoder_attention_mask": None,
        },
        fixed=("mask",),
    ),
    "StableAudio3DiTModel": ModelCase(
        inputs={
            "hidden_states": normal("b io_channels 32"), "global_hidden_states": normal("b global_cond_dim"),
            "local_add_cond": normal("b local_add_cond_dim 32"),
        }
    ),
    "StableAudioDiTModel": ModelCase(
        {"cross_attention_dim": 128},
        {
            "hidden_states": normal("b in_channels 32"), "encoder_attention_mask": None,
            "global_hidden_states": normal("b 1 global_states_input_dim"),
            "rotary_embedding": (uniform("33 32", -1.0, 1.0), uniform("33 32", -1.0, 1.0)),
        },
    ),
    "T5FilmDecoder": ModelCase(
        {"d_model": 64, "d_kv": 32, "d_ff": 128, "targets_length": 32},
        {
            "encodings_and_masks": [(normal("b l 64"), ones("b l"))], "decoder_input_tokens": normal("b 32 32"),
            "decoder_noise_time": uniform("b"),
        },
    ),
    "Transformer2DModel": ModelCase({"in_channels": 32, "attention_head_dim": 32, "cross_attention_dim": 48}),
    "TransformerTemporalModel": ModelCase(
        {"in_channels": 32, "attention_head_dim": 32}, {"hidden_states": normal("2 32 s s"), "num_frames": 2}
    ),
    "WanAnimateTransformer3DModel": ModelCase(
        {**_WAN, "motion_encoder_channel_sizes": dict.fromkeys(("4", "8", "16", "32", "64", "128", "256", "512"), 16),
         "motion_encoder_size": 64, "face_encoder_hidden_dim": 32, "inject_face_latents_blocks": 1},
        {
            "hidden_states": normal("b in_channels 3 s s"), "pose_hidden_states": normal("b latent_channels 2 s s"),
            "face_pixel_values": normal("b 3 8 64 64"), "encoder_hidden_states_image": normal("b l 48"),
        },
    ),
    "WanVACETransformer3DModel": ModelCase(
        {**_WAN, "vace_layers": [0, 1]}, {"control_hidden_states": normal("b vace_in_channels 2 s s")}
    ),
    "ZImageTransformer2DModel": ModelCase(
        {"dim": 256, "n_heads": 2, "n_kv_heads": 2},
        {"x": [normal("in_channels 1 s s")], "t": uniform("b"), "cap_feats": [normal("l cap_feat_dim")]},
    ),
}  # fmt: skip
