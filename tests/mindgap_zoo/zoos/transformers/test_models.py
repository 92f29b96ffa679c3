"""transformers' classes, made small and given all that they take: tensors that are the same each time, outputs that
say something, one reason for what cannot be."""

import functools

import pytest
import torch

from mindgap.graph_capture.program import leaves
from mindgap.sources import SourceError, open_source
from mindgap.sources.opening import capture_program
from mindgap_zoo.argument_makers.overrides import ARGUMENTS, CONFIGURATION, CONSTANT, IMPOSSIBLE
from mindgap_zoo.argument_makers.shrinking import FIRST_SPECIAL, VOCABULARY, Shrinking, shrink_configuration
from mindgap_zoo.argument_makers.transformers_models import names

pytest.importorskip("transformers")


@functools.cache
def built(name, options=""):
    (program,) = open_source(f"transformers:{name}{options}")
    return program.make()


def outputs(made, **other):
    with torch.no_grad():
        result = made.program(*made.args, **{**made.kwargs, **other})
    return [leaf for _, leaf in leaves(result) if isinstance(leaf, torch.Tensor)]


def test_bases_and_heads_are_listed_once_and_apart():
    bases, heads = names(), names(heads=True)
    assert {"BertModel", "LlavaModel", "SamModel", "VoxtralRealtimeTextModel"} <= set(bases)
    assert {"BertForSequenceClassification", "WhisperForConditionalGeneration"} <= set(heads)
    assert len(bases) == len(set(bases)) and len(heads) == len(set(heads))
    assert not set(bases) & set(heads)


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("LlavaModel", {"input_ids", "attention_mask", "pixel_values"}),
        ("Siglip2Model", {"input_ids", "pixel_values", "pixel_attention_mask"}),
        ("InformerModel", {"past_values", "past_time_features", "future_values"}),
        ("LayoutLMModel", {"input_ids", "bbox"}),
        ("MusicgenModel", {"input_ids"}),
        ("VoxtralRealtimeTextModel", {"input_ids", "t_cond"}),
    ],
)
def test_a_model_gets_all_that_it_takes(name, takes):
    made = built(name)
    assert takes <= made.kwargs.keys()
    floats = [value for value in outputs(made) if value.is_floating_point() and value.numel() > 1]
    assert floats and all(torch.isfinite(value).all() for value in floats)
    assert any(value.std() > 0 for value in floats)


def test_a_picture_stands_in_the_text_and_matters():
    made = built("LlavaModel")
    image = made.program.config.image_token_id
    ids, pixels = made.kwargs["input_ids"], made.kwargs["pixel_values"]
    patches = (pixels.shape[-1] // made.program.config.vision_config.patch_size) ** 2
    rows = patches + (made.program.config.vision_feature_select_strategy != "default")
    assert (ids == image).sum() == rows * pixels.shape[0]
    first, second = outputs(made)[0], outputs(made, pixel_values=pixels.flip(-1))[0]
    assert not torch.allclose(first, second, rtol=1e-3, atol=1e-5)


def test_sizes_of_pictures_are_constants_of_the_graph_and_pixels_its_inputs():
    made = built("Qwen2VLModel")
    assert "image_grid_thw" in made.program.keywords and "image_grid_thw" not in made.kwargs
    (program,) = open_source("transformers:Qwen2VLModel")
    graph = capture_program(program)
    roles = dict(zip(graph.labels.inputs, (given.role for given in graph.inputs), strict=True))
    assert roles["pixel_values"] == roles["input_ids"] == "input"


def test_two_buildings_hold_the_same_bits():
    (program,) = open_source("transformers:PatchTSTModel?seed=3")
    one, other = program.make(), program.make()
    assert one.kwargs.keys() == other.kwargs.keys()
    assert all(torch.equal(one.kwargs[key], other.kwargs[key]) for key in one.kwargs)
    states = zip(one.program.state_dict().items(), other.program.state_dict().items(), strict=True)
    assert all(name == again and torch.equal(a, b) for (name, a), (again, b) in states)


@pytest.mark.parametrize("name", ["MixtralModel", "MambaModel", "PatchTSTModel"])
def test_gradients_can_be_had(name):
    (program,) = open_source(f"transformers:{name}")
    graph = capture_program(program, backward=True)
    assert sum(label.startswith("grad:") for label in graph.labels.outputs) > 4


@pytest.mark.parametrize(
    ("name", "says"), [("BarkModel", "no forward pass of its own"), ("Sam2VideoModel", "takes a session")]
)
def test_what_cannot_be_says_why(name, says):
    with pytest.raises(SourceError, match=says) as refused:
        open_source(f"transformers:{name}")
    assert "\n" not in str(refused.value)


def test_a_class_without_its_packages_names_them():
    pytest.importorskip("transformers")
    try:
        import torchaudio  # noqa: F401 # type: ignore[import-not-found]
    except ImportError:
        with pytest.raises(SourceError, match="needs torchaudio"):
            open_source("transformers:HiggsAudioV2TokenizerModel")


def test_the_tables_name_what_there_is():
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    known = {*CONFIG_MAPPING_NAMES, *names(), *names(heads=True)}
    # Parts that are built by their owners only have a type and no mapping.
    parts = {"VibeVoiceAcousticTokenizerEncoderModel", "VibeVoiceAcousticTokenizerDecoderModel"}
    for table in (ARGUMENTS, CONSTANT, CONFIGURATION, IMPOSSIBLE):
        assert {name for name in table if name not in known} <= parts


def test_layers_that_differ_shrink_as_the_rest_does():
    config = {
        "model_type": "two_kinds", "hidden_size": 4096, "num_hidden_layers": 6, "num_attention_heads": 64,
        "layer_types": ["full", "full", "sliding", "full", "sliding", "full"],
        "per_layer_config": {"02": {"head_dim": 256, "num_attention_heads": 64}, "04": {"head_dim": 256}},
    }  # fmt: skip
    small = shrink_configuration(config, Shrinking("divided"))
    assert small["layer_types"] == ["full", "sliding"]
    assert small["per_layer_config"] == {1: {"head_dim": 16, "num_attention_heads": 4}}


def test_special_tokens_stay_apart_and_inside_the_vocabulary():
    config = {"vocab_size": 50_000, "bos_token_id": 49_000, "eos_token_id": [49_001, 2], "image_token_id": 49_002}
    small = shrink_configuration(config, Shrinking("uniform"))
    assert small["vocab_size"] == VOCABULARY
    moved = [small["bos_token_id"], small["eos_token_id"][0], small["image_token_id"]]
    assert len(set(moved)) == 3 and all(FIRST_SPECIAL <= token < VOCABULARY for token in moved)
    assert small["eos_token_id"][1] == 2
