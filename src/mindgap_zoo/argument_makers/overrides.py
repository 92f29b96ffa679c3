"""Lists exceptions to the rules for transformers models, by model type or class.

The rules for all models are in `shrinking` and `arguments`. The tables here hold configuration values without a usable
default, and arguments whose shapes only the model's code knows. Data, no behaviour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mindgap_zoo.argument_makers.argument_specs import Tensor, filled, integers, normal, ones, uniform

#: In place of a configuration's value: the constructor computes it.
ABSENT: Final = object()
_SERIES: Final[Mapping[str, Any]] = {
    "past_values": normal("batch 23"),
    "past_time_features": normal("batch 23 2"),
    "past_observed_mask": filled("batch 23", 1, ""),
    "future_values": normal("batch 4"),
    "future_time_features": normal("batch 4 2"),
}
_SERIES_SIZES: Final[Mapping[str, Any]] = {
    "context_length": 16,
    "num_time_features": 2,
    "feature_size": ABSENT,
}
_PATCHES: Final[Mapping[str, Any]] = {"pixel_values": normal("1 3 patch_size 16*patch_size"), "target_sizes": [[4, 4]]}
_FLAT_PATCHES: Final[Mapping[str, Any]] = {
    "pixel_values": normal("batch 16 768"), "pixel_attention_mask": ones("batch 16"), "spatial_shapes": [[4, 4]],
}  # fmt: skip
_VIDEO: Final = normal("batch 2 3 64 64")
_SOUND: Final = normal("batch 1 7680", 0.3)
_SEMANTIC: Final[Mapping[str, Any]] = {
    "input_values": normal("batch 1 1600", 0.3),
    "input_features": normal("batch 5 160"),
}
_SMALL_PERCEPTION: Final[Mapping[str, Any]] = {
    "vision_config.architecture": "vit_pe_core_tiny_patch16_384",
    "vision_config.model_args": {"embed_dim": 64, "depth": 2, "num_heads": 2, "img_size": [64, 64]},
}
_FINE_TO_COARSE: Final = [[16, 16], [8, 8], [4, 4]]
_GRID: Final = [[1, 4, 4]]


def _lengths(maker: Any) -> Tensor:
    return filled("batch", maker.length)


#: By class or model type: arguments that are made as given here, and those left out (None). A list is a tensor that the
#: model's Python code decides by: a constant of the graph. Words of a shape: a number, `batch`, `length` (tokens in a
#: text), or the dotted path of a number in the configuration.
ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "decision_transformer": {
        "states": normal("batch length state_dim"), "actions": normal("batch length act_dim"),
        "rewards": normal("batch length 1"), "returns_to_go": normal("batch length 1"),
        "timesteps": integers("batch length", 64), "attention_mask": ones("batch length"),
    },
    "lxmert": {"visual_feats": normal("batch 8 visual_feat_dim"), "visual_pos": normal("batch 8 visual_pos_dim")},
    "autoformer": _SERIES,
    "informer": _SERIES,
    "time_series_transformer": _SERIES,
    "timesfm": {
        "past_values": normal("batch 64"), "past_values_padding": filled("batch 64", 0), "freq": integers("batch 1", 3),
    },
    "timesfm2_5": {"past_values": normal("batch 64"), "past_values_padding": filled("batch 64", 0)},
    "audioflamingo3_encoder": {
        "input_features": normal("batch num_mel_bins 128"), "input_features_mask": ones("batch 128"),
    },
    "gemma4_audio": {"input_features": normal("batch 64 32"), "attention_mask": None},
    "granite_speech5_encoder": {"input_features": normal("batch 64 320")},
    "granite_speech5_ctc": {"input_features": normal("batch 64 320")},
    "kyutai_speech_to_text": {"input_ids": integers("batch length 3", 64)},
    "minicpm_ocr_vision": _PATCHES,
    "minicpmv4_6_vision": _PATCHES,
    "minicpmv4_7_vision": _PATCHES,
    "pe_audio": {"input_values": _SOUND, "input_ids": integers("batch length", 192, 3)},
    "pe_audio_encoder": {"input_values": _SOUND},
    "xcodec": {"input_values": normal("batch 1 16000", 0.3)},
    "blip_2_qformer": {"encoder_hidden_states": normal("batch 9 encoder_hidden_size")},
    "instructblipvideo": {"pixel_values": normal("batch 4 3 vision_config.image_size vision_config.image_size")},
    "efficientloftr": {"pixel_values": normal("batch 2 3 64 64")},
    "kimi_k25_vision": {"pixel_values": normal("16 3 patch_size patch_size"), "grid_thw": _GRID},
    "kosmos-2": {"image_embeds_position_mask": [[1] * 8 + [0] * 4]},
    "muse_glimmer_assistant": {
        "context_hidden_states": normal("batch length 2*hidden_size"), "attention_mask": ones("batch 2*length"),
    },
    "muse_spark_vision": {"pixel_values": normal("16 1176")},
    "muse_glimmer_vision": {"pixel_values": normal("16 1176")},
    "inkling2_vision": {"pixel_values": normal("16 40 40 3"), "image_grid_thw": _GRID},
    "fun_asr_nano_encoder": {"input_features": normal("batch 64 560"), "input_features_mask": ones("batch 64")},
    "depth_pro": {"pixel_values": normal("batch 3 256 256")},
    "gemma4_vision": {
        "pixel_values": normal("batch 36 3*patch_area"),
        "pixel_position_ids": [[[column, row] for row in range(6) for column in range(6)]],
    },
    "idefics": {
        "pixel_values": normal("batch 1 3 vision_config.image_size vision_config.image_size"),
        "image_attention_mask": ones("batch length 1"),
    },
    "musicgen": {"input_ids": integers("num_codebooks length", 64), "attention_mask": None},
    "musicgen_decoder": {"input_ids": integers("num_codebooks length", 64), "attention_mask": None},
    "musicgen_melody_decoder": {"input_ids": integers("num_codebooks length", 64), "attention_mask": None},
    "pi0": {
        "pixel_values": normal("batch 1 3 vlm_config.vision_config.image_size vlm_config.vision_config.image_size"),
        "pixel_attention_mask": filled("batch 1", 1, "bool"),
    },
    "video_llama_3_vision": {"merge_sizes": [2]},
    "voxtral_realtime": {"input_features": normal("batch audio_config.num_mel_bins 8*length")},
    "reformer": {"input_ids": integers("batch 64", 192, 3), "attention_mask": ones("batch 64")},
    "pe_video": {"pixel_values_videos": _VIDEO},
    "pe_video_encoder": {"pixel_values_videos": _VIDEO},
    "pe_audio_video": {"pixel_values_videos": _VIDEO, "input_values": _SOUND},
    "pe_audio_video_encoder": {"pixel_values_videos": _VIDEO, "input_values": _SOUND},
    "neucodec": _SEMANTIC,
    "xcodec2": _SEMANTIC,
    "muse_spark_audio": {"input_values": normal("batch 3840", 0.3)},
    "udop": {"pixel_values": None, "bbox": normal("batch length 4", 0.3)},
    "lw_detr": {"pixel_values": normal("batch 3 192 192")},
    "mimi_decoder": {"latents": normal("batch hidden_size 8")},
    "pocket_tts_audio_tokenizer_decoder": {"latents": normal("batch hidden_size 8")},
    "speecht5": {
        "input_values": normal("batch length hidden_size"), "decoder_input_values": normal("batch length hidden_size"),
    },
    "siglip2_vision_model": _FLAT_PATCHES,
    "siglip2": _FLAT_PATCHES,
    "seggpt": {
        "pixel_values": normal("batch 3 64 64"), "prompt_pixel_values": normal("batch 3 64 64"),
        "prompt_masks": normal("batch 3 64 64"),
    },
    "oneformer": {"task_inputs": integers("batch 77", 192, 3)},
    "voxtral_realtime_text": {"t_cond": normal("batch 1 hidden_size")},
    "VibeVoiceAcousticTokenizerEncoderModel": {"hidden_states": normal("batch 1 6400", 0.3)},
    "VibeVoiceAcousticTokenizerDecoderModel": {"hidden_states": normal("batch hidden_size 4")},
    "qwen3_asr_encoder": {"input_features": normal("batch num_mel_bins 200"), "input_features_mask": ones("batch 200")},
    "omdet-turbo": {
        "classes_input_ids": integers("2 length", 192, 3), "classes_attention_mask": ones("2 length"),
        "tasks_input_ids": integers("1 length", 192, 3), "tasks_attention_mask": ones("1 length"),
        "classes_structure": [2],
    },
    "tvp": {"pixel_values": normal("batch 1 3 64 64")},
    # The library leaves out a mask of ones where it is not traced, and with it what makes these causal.
    "aimv2": {"attention_mask": None},
    "aimv2_text_model": {"attention_mask": None},
    "t5gemma2": {"attention_mask": None},
    "t5gemma2_encoder": {"attention_mask": None},
    "vibevoice_acoustic_tokenizer": {"input_values": normal("batch 1 6400", 0.3)},
    "gemma3n_audio": {"audio_mel": normal("batch 64 input_feat_size"), "audio_mel_mask": filled("batch 64", 0, "bool")},
    "perceiver": {"inputs": normal("batch 16 d_model")},
    "pix2struct": {"flattened_patches": uniform("batch 16 770", 0.0, 4.0)},
    "flaubert": {"lengths": _lengths},
    "xlm": {"lengths": _lengths},
    "univnet": {
        "input_features": normal("batch 16 num_mel_bins"), "noise_sequence": normal("batch 16 model_in_channels"),
    },
}  # fmt: skip

#: By model type: arguments that Python code of the model decides by, so that a graph holds them as constants.
CONSTANT: Final[Mapping[str, frozenset[str]]] = {
    "flaubert": frozenset({"lengths"}),
    "xlm": frozenset({"lengths"}),
    "higgs_audio_v2": frozenset({"input_ids"}),
    "qwen4_exp": frozenset({"attention_mask"}),
    "qwen4_exp_text": frozenset({"attention_mask"}),
    "qwen3_asr_encoder": frozenset({"input_features_mask"}),
    "longformer": frozenset({"attention_mask"}),
    "led": frozenset({"attention_mask"}),
    "ultravbert": frozenset({"pixel_values"}),
    "ovis2": frozenset({"input_ids"}),
    "modernvbert": frozenset({"pixel_values"}),
    "idefics2": frozenset({"pixel_values"}),
    "idefics3": frozenset({"pixel_values"}),
    "smolvlm": frozenset({"pixel_values"}),
}

#: By model type, also of parts: values of the configuration, after it was made small, by dotted path.
CONFIGURATION: Final[Mapping[str, Mapping[str, Any]]] = {
    "dots3_note_text": {
        "head_dim": 32,
        "per_layer_config": {
            1: {
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "q_lora_rank": 16,
                "kv_lora_rank": 16,
                "qk_nope_head_dim": 24,
            }
        },
    },
    "mimo_v2_flash": {"num_key_value_heads": 2},
    "dbrx": {"attn_config.rope_theta": 10000.0, "attn_config.clip_qkv": 8.0},
    "chameleon": {"vocabulary_map": {"<image>": 195}, "vq_config.base_channels": 32, "vq_config.resolution": 64},
    "emu3": {"vocabulary_map": {"<image>": 195}, "vq_config.base_channels": 32},
    "tvp": {"max_img_size": 64, "visual_prompt_size": 8},
    "esm": {"pad_token_id": 1, "mask_token_id": 32},
    "cohere_compass_text": {
        "rope_parameters": {
            kind: {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]}
            for kind in ("full_attention", "sliding_attention")
        }
    },
    "deepseek_ocr2_text": {"mlp_layer_types": ["dense", "sparse"]},
    "diffusion_gemma_text": {"moe_intermediate_size": 16},
    "autoformer": {**_SERIES_SIZES, "label_length": 4, "moving_average": 5},
    "informer": _SERIES_SIZES,
    "time_series_transformer": _SERIES_SIZES,
    "gemma4_audio": {"subsampling_conv_channels": [32, 16]},
    "blip-2": {"image_token_id": 195},
    "instructblip": {"image_token_id": 195},
    "instructblipvideo": {"video_token_id": 195},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "molmo2": {"adapter_config.vision_feature_layer": [1, 0]},
    "moonshine_streaming": {"num_key_value_heads": 2},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "blt": {"patching_mode": "static", "encoder_hash_byte_group_vocab": 1000},
    "blt_patcher": {"hidden_size": 64},
    "blt_global_transformer": {"head_dim": 32},
    "blt_local_encoder": {"hidden_size_global": 128},
    "blt_local_decoder": {"hidden_size_global": 128},
    "align_vision_model": {
        "in_channels": [32, 16, 24, 40, 80, 112, 192], "out_channels": [16, 24, 40, 80, 112, 192, 320],
        "width_coefficient": 0.25, "depth_coefficient": 1.0, "hidden_dim": 320,
    },
    "align": {"projection_dim": 80},
    "xcodec": {"codebook_dim": 128},
    "bridgetower": {"hidden_size": 64, "text_config.hidden_size": 64, "vision_config.hidden_size": 64},
    "depth_pro": {
        "patch_size": 64, "intermediate_hook_ids": [1, 0],
        **{f"{part}_model_config.{key}": value for part in ("image", "patch", "fov")
           for key, value in (("image_size", 64), ("patch_size", 16))},
    },
    "granite4_vision": {
        "deepstack_layer_map": [[0, 0], [1, 1]], "downsample_rate": "1/2", "vision_config.hidden_size": 64,
    },
    "lw_detr": {
        "backbone_config.image_size": 192, "projector_scale_factors": [1.0], "projector_in_channels": ABSENT,
        "projector_out_channels": ABSENT, "num_feature_levels": ABSENT,
    },
    "sam_prompt_encoder": {"image_embedding_size": ABSENT},
    "sam_hq_prompt_encoder": {"image_embedding_size": ABSENT},
    "sam2_hiera_det_model": {"embed_dim_per_stage": [48, 96, 192, 384]},
    "sam2_vision_model": {"backbone_channel_list": [384, 192, 96, 48], "backbone_feature_sizes": _FINE_TO_COARSE},
    "sam3_vision_model": {"backbone_feature_sizes": _FINE_TO_COARSE},
    "edgetam_vision_model": {"backbone_config.architecture": "repvit_m1", "backbone_feature_sizes": _FINE_TO_COARSE},
    "uvdoc": {
        "backbone_config.out_features": [f"stage{stage}" for stage in range(1, 7)],
        "backbone_config.out_indices": [1, 2, 3, 4, 5, 6],
    },
    "pe_video_encoder": _SMALL_PERCEPTION,
    "gemma3n": {
        "vision_config.architecture": "mobilenetv3_small_050", "vision_config.hidden_size": 288,
        "vision_soft_tokens_per_image": 4,
    },
    "pix2struct_vision_model": {"patch_embed_hidden_size": 768},
    "neucodec": {"quantization_dim": 64},
    "xcodec2": {"quantization_dim": 64},
    "muse_spark_audio": {"hidden_sizes": [16, 32, 64, 128], "out_hidden_size": 64},
    "t5gemma2_encoder": {"text_config.dropout_rate": 0.0},
    "pp_ocrv6_small_det": {
        "layer_list_out_channels": [96, 96, 192, 384], "backbone_config.depths": [1, 2, 7, 3],
        "backbone_config.out_features": ["stage1", "stage2", "stage3", "stage4"],
        "backbone_config.out_indices": [1, 2, 3, 4],
    },
    "uvdoc_backbone": {"depths": [1, 1, 1, 3, 3, 3]},
    "vibevoice_acoustic_tokenizer": {"num_filters": 4},
    "vibevoice_acoustic_tokenizer_encoder": {"num_filters": 4},
    "vibevoice_acoustic_tokenizer_decoder": {"num_filters": 4},
    "perception_lm": {
        "vision_config.architecture": "vit_pe_core_tiny_patch16_384",
        "vision_config.model_args": {
            "embed_dim": 64, "depth": 2, "num_heads": 2, "img_size": [64, 64], "global_pool": "",
            "use_post_transformer_norm": False, "init_values": 0.1, "ref_feat_shape": [4, 4],
        }
    },
    "step3p5": {"sliding_window": 8},
    "pp_ocrv6_medium_det": {
        "intraclass_block_config": {
            "reduce_channel": [1, 1, 0],
            "return_channel": [1, 1, 0],
            **{
                f"{name}_{ratio}ratio": [
                    [edge if tall else 1, edge if wide else 1], [1, 1], [edge // 2 * tall, edge // 2 * wide]
                ]
                for name, tall, wide in (
                    ("vertical_long_to_small_conv", 1, 0), ("horizontal_small_to_long_conv", 0, 1),
                    ("symmetric_conv_long", 1, 1),
                )
                for ratio, edge in (("long", 7), ("mid", 5), ("short", 3))
            },
        },
        "scale_factor_list": [1, 2, 4, 8],
        "kernel_list": [3, 2, 2],
    },
    "qwen4_exp_text": {
        "indexer_compress_ratio": 2, "indexer_budget": 8, "indexer_n_heads": 2, "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
    },
    "cvt": {"depth": [1, 2, 3]},
    "clvp_encoder": {"num_attention_heads": 1},
    "zamba": {"num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"]},
    "zamba2": {
        "num_hidden_layers": 4, "layers_block_type": ["mamba", "hybrid", "mamba", "hybrid"], "hybrid_layer_ids": [1, 3],
    },
    "seggpt": {"image_size": [128, 64], "pretrain_image_size": 32},
    "siglip2_vision_model": {"num_patches": 16},
}  # fmt: skip

_ROUTED: Final = "each of its experts takes the tokens that the router sends it, however many those are"

#: Classes and model types that cannot be run here, or of which no graph can be had, and why.
IMPOSSIBLE: Final[Mapping[str, str]] = {
    "switch_transformers": _ROUTED,
    "dbrx": _ROUTED,
    "GlmImageVQVAE": "it only encodes, and has no forward pass of its own",
    "BarkModel": "it only generates, part by part, and has no forward pass of its own",
    "VitsModel": "it decides by values that it computes how long its output is",
    "LightGlueForKeypointMatching": "it decides by values that it computes how many keypoints there are",
    "Sam2VideoModel": "it takes a session, not tensors",
    "Sam3VideoModel": "it takes a session, not tensors",
    "Sam3TrackerVideoModel": "it takes a session, not tensors",
    "EdgeTamVideoModel": "it takes a session, not tensors",
}
