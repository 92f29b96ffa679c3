"""Lists sizes and inputs of diffusers' autoencoders, U-nets, control nets and adapters that rules cannot derive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mindgap_zoo.argument_makers.argument_specs import integers, normal, ones, uniform
from mindgap_zoo.argument_makers.diffusers_inputs import ModelCase
from mindgap_zoo.argument_makers.diffusers_transformer_cases import HUNYUAN, TRANSFORMERS

#: Networks made of several others: the argument that takes them, their class, how many.
PARTS: Final[Mapping[str, tuple[str, str, int]]] = {
    "MultiAdapter": ("adapters", "T2IAdapter", 2),
    "FluxMultiControlNetModel": ("controlnets", "FluxControlNetModel", 2),
    "HunyuanDiT2DMultiControlNetModel": ("controlnets", "HunyuanDiT2DControlNetModel", 2),
    "MultiControlNetModel": ("controlnets", "ControlNetModel", 2),
    "MultiControlNetUnionModel": ("controlnets", "ControlNetUnionModel", 1),
    "QwenImageMultiControlNetModel": ("controlnets", "QwenImageControlNetModel", 1),
    "SD3MultiControlNetModel": ("controlnets", "SD3ControlNetModel", 2),
}

#: Networks that work with parts of another: its class.
BORROWERS: Final[Mapping[str, str]] = {"ZImageControlNetModel": "ZImageTransformer2DModel"}

_VIDEO: Final = {"sample": normal("b 3 9 64 64")}


def _audio(channels: int, length: int) -> dict[str, Any]:
    return {"sample": normal(f"b {channels} {length}")}


_AUTOENCODERS: Final[Mapping[str, ModelCase]] = {
    "AsymmetricAutoencoderKL": ModelCase(batch=2),
    "AutoencoderKL": ModelCase(batch=2),
    "AutoencoderKLFlux2": ModelCase(batch=2),
    "AutoencoderKLTemporalDecoder": ModelCase(batch=2),
    "AutoencoderKLCogVideoX": ModelCase({"block_out_channels": (32, 32, 64, 64)}),
    "AutoencoderKLHunyuanImage": ModelCase(
        {
            "in_channels": 3, "out_channels": 3, "latent_channels": 16, "block_out_channels": (32, 64, 64),
            "layers_per_block": 1, "spatial_compression_ratio": 4, "sample_size": 64,
        }
    ),
    "AutoencoderKLHunyuanImageRefiner": ModelCase({"block_out_channels": (16, 32, 64, 64, 64)}),
    "AutoencoderKLHunyuanVideo15": ModelCase({"block_out_channels": (16, 32, 64, 64, 64)}),
    "AutoencoderKLKVAEAudio": ModelCase(
        {"encoder_dim": 8, "latent_dim": 64, "codebook_dim": 16, "decoder_dim": 64}, _audio(1, 7680)
    ),
    "AutoencoderKLKVAEVideo": ModelCase({"ch": 32}),
    **dict.fromkeys(("AutoencoderKLLTX2Video", "AutoencoderKLLTXVideo"), ModelCase(inputs=_VIDEO)),
    "AutoencoderKLMagvit": ModelCase({"block_out_channels": (32, 32, 64, 64)}, _VIDEO),
    "AutoencoderKLMiniMaxH3": ModelCase(
        {"block_out_channels": (32, 32, 32, 64, 64, 64), "token_drop": 0}, {"sample": normal("b 3 17 32 32")}
    ),
    "AutoencoderKLMiniMaxH3Audio": ModelCase({"encoder_dim": 8, "latent_dim": 64, "decoder_dim": 128}, _audio(1, 6400)),
    "AutoencoderKLMochi": ModelCase(
        {"encoder_block_out_channels": (32, 32, 64, 64), "decoder_block_out_channels": (32, 32, 64, 64)},
        {"sample": normal("b 3 7 32 32")},
    ),
    "AutoencoderKLQwenImage21": ModelCase(
        {"base_dim": 16, "decoder_base_dim": 16}, {"sample": normal("b 4 1 64 64")}
    ),
    "AutoencoderOobleck": ModelCase(
        {"encoder_hidden_size": 16, "decoder_channels": 16, "decoder_input_channels": 8}, _audio(2, 16384)
    ),
    "AutoencoderRAE": ModelCase(
        {"encoder_hidden_size": 128, "decoder_hidden_size": 128}, {"sample": normal("b 3 224 224")}
    ),
    "AutoencoderSAME": ModelCase({"dim_heads": 32}, _audio(2, 32768)),
    "AutoencoderVidTok": ModelCase({"ch": 32}, _VIDEO),
    "ConsistencyDecoderVAE": ModelCase(
        {"encoder_block_out_channels": (32, 64, 64, 64), "decoder_block_out_channels": (32, 64, 64, 64)},
        batch=2,
    ),
    "Cosmos3AVAEAudioTokenizer": ModelCase(
        {"dec_dim": 16, "enc_intermediate_dim": 64, "enc_latent_dim": 64, "vocoder_input_dim": 32}, _audio(2, 7680)
    ),
    "Kandinsky6SRVAE": ModelCase(
        {
            "latent_channels": 16, "encoder_block_out_channels": (16, 32, 32, 32, 32),
            "decoder_block_out_channels": (16, 32, 32, 32, 32),
        }
    ),
    "LTX2VideoDiffusionDecoderModel": ModelCase(
        {
            "decoder_head_dim": 16, "decoder_stage_channels": (128, 64, 32, 32, 16),
            "decoder_stage_depths": (1, 1, 1, 1, 1), "latent_channels": 16,
        },
        {"z": normal("b 16 2 4 4")},
    ),
    "LongCatAudioDiTVae": ModelCase({"channels": 16, "encoder_latent_dim": 128}, _audio(1, 16384)),
    "MMAudioVAE": ModelCase({"hidden_channels": 64}, {"sample": normal("b 16384")}),
    "MMAudioVocoder": ModelCase({"upsample_initial_channel": 128}, {"mel": normal("b 128 16")}),
    "MiniMaxMusic3Vocoder": ModelCase(
        {"decoder_input_dim": 64, "decoder_hidden_dim": 64}, {"latents": normal("b latent_channels 16")}
    ),
}  # fmt: skip

_UNETS: Final[Mapping[str, ModelCase]] = {
    "DreamLiteUNetModel": ModelCase({"attention_head_dim": 16}, edge=32),
    "I2VGenXLUNet": ModelCase(
        {"attention_head_dim": 16, "num_attention_heads": 2},
        {
            "sample": normal("b 4 2 s s"), "fps": integers("b", 30, 5), "image_latents": normal("b 4 2 s s"),
            "image_embeddings": normal("b cross_attention_dim"),
        },
        edge=32,
    ),
    "Kandinsky3UNet": ModelCase(
        {"block_out_channels": (64, 128, 128, 256), "layers_per_block": 2, "time_embedding_dim": 128,
         "attention_head_dim": 32},
        edge=32,
    ),
    "MotionAdapter": ModelCase(inputs={"sample": normal("b 4 s s")}),
    "StableCascadeUNet": ModelCase(
        {
            "block_out_channels": (64, 64), "num_attention_heads": (2, 2), "down_num_layers_per_block": (1, 2),
            "up_num_layers_per_block": (2, 1), "conditioning_dim": 64, "clip_text_pooled_in_channels": 64,
            "clip_text_in_channels": 64, "clip_image_in_channels": 48,
        },
        {
            "timestep_ratio": uniform("b"), "clip_text_pooled": normal("b 1 64"), "clip_text": normal("b l 64"),
            "clip_img": normal("b 1 48"),
        },
    ),
    "UNet1DModel": ModelCase({"extra_in_channels": 64},{"sample": normal("b in_channels 512")}),
    "UNet2DConditionModel": ModelCase(edge=32),
    "UNet2DModel": ModelCase(edge=32),
    "UNet3DConditionModel": ModelCase({"attention_head_dim": 16}, edge=32),
    "UNetMotionModel": ModelCase(inputs={"encoder_hidden_states": normal("2 l cross_attention_dim")}, edge=32),
    "UNetSpatioTemporalConditionModel": ModelCase(
        {"num_attention_heads": (2, 2, 4, 4), "addition_time_embed_dim": 16,
         "projection_class_embeddings_input_dim": 48},
        {
            "sample": normal("b 2 in_channels s s"), "encoder_hidden_states": normal("b 1 cross_attention_dim"),
            "added_time_ids": uniform("b 3", 1.0, 10.0),
        },
        edge=32,
    ),
    "UVit2DModel": ModelCase(
        {"in_channels": 64, "block_out_channels": 64, "vocab_size": 256, "codebook_size": 250,
         "intermediate_size": 256, "micro_cond_encode_dim": 16, "micro_cond_embed_dim": 80},
        {
            "input_ids": integers("b 16 16", 250), "pooled_text_emb": normal("b cond_embed_dim"),
            "micro_conds": uniform("b 5", 1.0, 10.0),
        },
    ),
}  # fmt: skip

_UNION_IDS: Final = [0, 1]
_CONTROLNETS: Final[Mapping[str, ModelCase]] = {
    "ControlNetUnionModel": ModelCase(
        {"addition_time_embed_dim": 16, "num_trans_channel": 32, "num_proj_channel": 32, "num_trans_head": 2},
        {
            "controlnet_cond": [normal("b 3 128 128"), normal("b 3 128 128")], "control_type": ones("b 6"),
            "control_type_idx": _UNION_IDS,
        },
    ),
    "CosmosControlNetModel": ModelCase(
        {"model_channels": 256, "crossattn_proj_in_channels": 64, "encoder_hidden_states_channels": 64,
         "text_embed_dim": 64},
        {
            "controls_latents": normal("b 16 2 s s"), "latents": normal("b 16 2 s s"),
            "condition_mask": ones("b 1 2 s s", "float32"), "padding_mask": ones("1 1 s s", "float32"),
        },
    ),
    "FluxMultiControlNetModel": ModelCase(
        inputs={"controlnet_mode": [integers("b", 1), integers("b", 1)], "return_dict": False}
    ),
    "HunyuanDiT2DControlNetModel": ModelCase(
        {**HUNYUAN.config, "transformer_num_layers": 4}, {**HUNYUAN.inputs, "controlnet_cond": normal("b 4 s s")}
    ),
    "HunyuanDiT2DMultiControlNetModel": ModelCase(
        inputs={
            **HUNYUAN.inputs, "controlnet_cond": [normal("b 4 s s"), normal("b 4 s s")],
            "conditioning_scale": [1.0, 0.5],
        }
    ),
    "MultiAdapter": ModelCase(inputs={"xs": [normal("b 3 128 128"), normal("b 3 128 128")]}),
    "MultiControlNetUnionModel": ModelCase(
        inputs={
            "controlnet_cond": [[normal("b 3 128 128"), normal("b 3 128 128")]], "control_type": [ones("b 6")],
            "control_type_idx": [_UNION_IDS], "conditioning_scale": [[1.0, 0.5]],
            "return_dict": False,
        }
    ),
    **dict.fromkeys(
        ("MultiControlNetModel", "QwenImageMultiControlNetModel"), ModelCase(inputs={"return_dict": False})
    ),
    "SD3ControlNetModel": ModelCase({"pos_embed_max_size": 32}),
    "SparseControlNetModel": ModelCase(
        inputs={
            "sample": normal("b 4 2 s s"), "controlnet_cond": normal("b 4 2 s s"),
            "conditioning_mask": ones("b 1 2 s s", "float32"),
            "encoder_hidden_states": normal("2 l cross_attention_dim"),
        }
    ),
    "T2IAdapter": ModelCase(inputs={"x": normal("b 3 128 128")}),
    "UNetControlNetXSModel": ModelCase(
        {"block_out_channels": (32, 64, 128, 128)},
        {"sample": normal("b 4 s s"), "controlnet_cond": normal("b 3 128 128")},
    ),
    "ZImageControlNetModel": ModelCase(
        {"control_layers_places": [0, 1], "control_in_dim": 16, "dim": 256, "n_heads": 2, "n_kv_heads": 2},
        {
            "x": [normal("16 1 s s")], "t": uniform("b"), "cap_feats": [normal("l 48")],
            "control_context": [normal("16 1 s s")],
        },
    ),
}  # fmt: skip

_CONDITIONERS: Final[Mapping[str, ModelCase]] = {
    "AnimaTextConditioner": ModelCase(
        {"source_dim": 64, "target_dim": 64, "model_dim": 64, "target_vocab_size": 256, "min_sequence_length": 32},
        {"source_hidden_states": normal("b l 64"), "target_input_ids": integers("b l", 256)},
    ),
    "Kandinsky6SRLatentUpscalerBank": ModelCase(
        {"in_channels": 16, "stage_channels": (64, 32, 32)}, {"latents": normal("b 16 2 8 8"), "scale": 2}
    ),
    "MiniMaxMusic3ConditionEncoder": ModelCase(
        {"condition_hidden_dim": 32, "num_condition_layers": 4, "out_dim": 48}, {"hidden_states": normal("b l 128")}
    ),
}

CASES: Final[Mapping[str, ModelCase]] = {**_AUTOENCODERS, **_UNETS, **_CONTROLNETS, **_CONDITIONERS, **TRANSFORMERS}
