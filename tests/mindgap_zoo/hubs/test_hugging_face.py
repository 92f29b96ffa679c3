"""`hub:`: models from folders as the Hugging Face hub lays them out, made here; nothing is downloaded."""

from __future__ import annotations

import json
import pickle
import re
import socket
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_torch
from mindgap.cli.sources import capture_options, with_options
from mindgap.graph import Stored, Uniform, materialise, materialise_all
from mindgap.graph.tensors import TensorStore
from mindgap.sources import CaptureFailure, SourceError, capture_source, open_source
from mindgap_zoo.hubs import size_limit
from mindgap_zoo.hubs.hugging_face import SeededInstead

BERT = {
    "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 32, "num_hidden_layers": 2,
    "num_attention_heads": 2, "intermediate_size": 48, "vocab_size": 90, "max_position_embeddings": 40,
}  # fmt: skip


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import huggingface_hub.constants as constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


def folder(at: Path, config: dict, **files: bytes) -> Path:
    at.mkdir(parents=True, exist_ok=True)
    (at / "config.json").write_text(json.dumps(config))
    for name, content in files.items():
        (at / name.replace("__", ".")).write_bytes(content)
    return at


def run(graph, store=None):
    inputs = [to_torch(array, one.spec) for array, one in zip(materialise_all(graph, store), graph.inputs, strict=True)]
    return Tape(graph).run(inputs)


def captured(text: str, store: TensorStore | None = None):
    ((name, graph),) = capture_source(text, tensors=store)
    assert not isinstance(graph, CaptureFailure), graph
    return name, graph


def built(text: str):
    """What a source's one program is made of. Raises what building it does."""
    (program,) = open_source(text)
    return program.make()


def trained_bert(at: Path, changes: dict | None = None) -> dict[str, torch.Tensor]:
    """A folder with a configuration and weights in safetensors; gives the tensors that were written."""
    from mindgap.sources.libraries import declare_operators

    declare_operators()
    from transformers import BertConfig, BertModel

    config = {**BERT, **(changes or {})}
    with torch.random.fork_rng():
        torch.manual_seed(1)
        state = {name: value.clone() for name, value in BertModel(BertConfig(**config)).state_dict().items()}
    folder(at, config)
    save_file(state, at / "model.safetensors", metadata={"format": "pt"})
    return state


def test_trained_weights_reach_the_graph_bit_for_bit(tmp_path):
    state = trained_bert(tmp_path / "tiny-bert")
    store = TensorStore(tmp_path / "store")
    name, graph = captured(f"hub:{tmp_path}/tiny-bert?length=6", store)
    assert name == "tiny-bert"
    held = {
        label.removeprefix("p_"): given
        for label, given in zip(graph.labels.inputs, graph.inputs, strict=True)
        if given.role == "parameter"
    }
    assert len(held) >= 30
    written = {value.numpy().tobytes() for value in state.values()}
    assert all(materialise(given, store).tobytes() in written for given in held.values())

    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(**BERT)).eval()
    model.load_state_dict(state)
    tokens = next(
        to_torch(a) for a, i in zip(materialise_all(graph, store), graph.inputs, strict=True) if i.role == "input"
    )
    with torch.no_grad():
        expected = model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state
    assert torch.allclose(run(graph, store)[0], expected, atol=1e-5)


def test_without_weights_they_are_seeded_and_travel_as_recipes(tmp_path):
    folder(tmp_path / "bare", BERT)
    _, one = captured(f"hub:{tmp_path}/bare")
    _, other = captured(f"hub:{tmp_path}/bare")
    assert one == other
    assert not any(isinstance(given.recipe, Stored) for given in one.inputs)
    assert run(one)[0].std() > 0


def test_parameters_that_the_file_lacks_are_seeded(tmp_path):
    state = trained_bert(tmp_path / "part")
    lacking = {name: value for name, value in state.items() if not name.startswith("pooler")}
    save_file(lacking, tmp_path / "part" / "model.safetensors", metadata={"format": "pt"})
    _, one = captured(f"hub:{tmp_path}/part", TensorStore(tmp_path / "store"))
    _, other = captured(f"hub:{tmp_path}/part", TensorStore(tmp_path / "store"))
    assert one == other
    drawn = [
        label for label, given in zip(one.labels.inputs, one.inputs, strict=True) if isinstance(given.recipe, Uniform)
    ]
    assert len(drawn) == 2 and all("pooler" in label for label in drawn)


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (open, (str(self.mark), "w"))


def test_pickled_weights_are_never_loaded(tmp_path):
    mark = tmp_path / "ran"
    folder(tmp_path / "pickled", BERT, pytorch_model__bin=pickle.dumps(Evil(mark)))
    with pytest.warns(SeededInstead, match=r"pytorch_model\.bin, which can run code and are not loaded"):
        captured(f"hub:{tmp_path}/pickled")
    assert not mark.exists()


def test_code_of_a_repository_is_never_run(tmp_path):
    own = {**BERT, "architectures": ["OwnModel"], "model_type": "own", "auto_map": {"AutoModel": "modeling.OwnModel"}}
    mark = tmp_path / "ran"
    at = folder(tmp_path / "own", own)
    (at / "modeling.py").write_text(f"open({str(mark)!r}, 'w')\n")
    with pytest.raises(SourceError, match=r"no class OwnModel \(it brings its own code, auto_map, which is not run\)"):
        open_source(f"hub:{at}")
    known = folder(tmp_path / "known", {**BERT, "auto_map": {"AutoModel": "modeling.OwnModel"}})
    (known / "modeling.py").write_text(f"open({str(mark)!r}, 'w')\n")
    captured(f"hub:{known}")
    assert not mark.exists()


def test_kernels_of_the_hub_are_not_asked_for(tmp_path):
    folder(tmp_path / "kernels", {**BERT, "_attn_implementation": "kernels-community/flash-attn"})
    captured(f"hub:{tmp_path}/kernels")


def test_a_task_head_and_a_base_class_by_type(tmp_path):
    folder(tmp_path / "head", {**BERT, "architectures": ["BertForSequenceClassification"], "num_labels": 3})
    _, graph = captured(f"hub:{tmp_path}/head?length=4&batch=2")
    assert graph.values[graph.outputs[0]].shape == (2, 3)
    folder(tmp_path / "typed", {key: value for key, value in BERT.items() if key != "architectures"})
    _, graph = captured(f"hub:{tmp_path}/typed?length=4")
    assert graph.values[graph.outputs[0]].shape == (1, 4, 32)


def test_layers_cut_a_deep_model(tmp_path):
    folder(tmp_path / "deep", {**BERT, "num_hidden_layers": 30})
    _, graph = captured(f"hub:{tmp_path}/deep?layers=2")
    assert sum(given.role == "parameter" for given in graph.inputs) < 60


@pytest.mark.nightly
def test_a_model_that_is_too_wide_is_refused_before_memory_is_taken(tmp_path):
    folder(tmp_path / "wide", {**BERT, "hidden_size": 16384, "intermediate_size": 65536, "num_hidden_layers": 400})
    narrower = r"with \?dtype=bfloat16 it takes [\d.]+, and with"
    with pytest.raises(SourceError, match=rf"[\d,]+ parameters, [\d.]+ GiB in float32, .* {narrower} \?layers=2"):
        built(f"hub:{tmp_path}/wide")
    with pytest.raises(SourceError, match=r"GiB in bfloat16, and this machine has [\d.]+: with \?layers=2"):
        built(f"hub:{tmp_path}/wide?dtype=bfloat16")


@pytest.mark.parametrize(
    ("config", "loaded", "options", "said"),
    [
        ({}, True, "", r"GiB in float32, [^:]+: with \?layers=2"),
        ({}, True, "?dtype=bfloat16", r"GiB in float32, [^:]+: with \?layers=2"),
        ({"dtype": "bfloat16"}, True, "", r"GiB in bfloat16, [^:]+: with \?layers=2"),
        (
            {"dtype": "bfloat16"},
            True,
            "?dtype=float64",
            r"GiB in float64, [^:]+: without dtype=float64 it takes [\d.]+",
        ),
        ({}, False, "?layers=2", r"GiB in float32, [^:]+: with \?dtype=bfloat16 it takes [\d.]+$"),
        ({}, False, "?layers=2&dtype=bfloat16", r"GiB in bfloat16, [^:]+: take a machine with more memory"),
        ({"dtype": {}}, True, "", r"GiB in float32, [^:]+: with \?layers=2"),
        ({"dtype": "int8"}, True, "", r"GiB in float32, [^:]+: with \?layers=2"),
    ],
)
def test_the_size_is_of_the_widest_dtype_and_the_advice_has_an_effect(
    tmp_path, monkeypatch, config, loaded, options, said
):
    monkeypatch.setattr(size_limit, "memory_bytes", lambda: 1000)
    weights = {"model__safetensors": b""} if loaded else {}
    folder(tmp_path / "some", {**BERT, **config}, **weights)
    with pytest.raises(SourceError, match=said):
        built(f"hub:{tmp_path}/some{options}")


def test_a_network_in_float32_gets_no_advice_that_it_cannot_take(tmp_path, monkeypatch):
    monkeypatch.setattr(size_limit, "memory_bytes", lambda: 1000)
    folder(tmp_path / "unet", UNET)
    with pytest.raises(SourceError, match=r"GiB in float32, [^:]+: take a machine with more memory"):
        built(f"hub:{tmp_path}/unet?dtype=bfloat16")


def test_timm_s_layout(tmp_path):
    import timm

    config = {"architecture": "test_convnext", "num_classes": 7, "pretrained_cfg": {"input_size": [3, 96, 96]}}
    at = folder(tmp_path / "convnext", config)
    _, seeded = captured(f"hub:{at}")
    assert seeded.inputs[0].spec.shape == (1, 3, 96, 96) and seeded.values[seeded.outputs[0]].shape == (1, 7)
    model = timm.create_model("test_convnext", num_classes=7).eval()
    save_file(model.state_dict(), at / "model.safetensors")
    store = TensorStore(tmp_path / "store")
    _, graph = captured(f"hub:{at}?batch=2", store)
    picture = to_torch(materialise_all(graph, store)[0])
    assert picture.shape[0] == 2
    with torch.no_grad():
        assert torch.allclose(run(graph, store)[0], model(picture), atol=1e-5)


UNET = {
    "_class_name": "UNet2DModel", "sample_size": 8, "in_channels": 3, "out_channels": 3, "layers_per_block": 1,
    "block_out_channels": [8, 16], "norm_num_groups": 4, "down_block_types": ["DownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "UpBlock2D"],
}  # fmt: skip


def test_the_components_of_a_pipeline(tmp_path):
    """A denoiser of diffusers and a text encoder of transformers; what has no configuration is no model."""
    index = {
        "_class_name": "SomePipeline",
        "unet": ["diffusers", "UNet2DModel"], "text_encoder": ["transformers", "BertModel"],
        "scheduler": ["diffusers", "DDPMScheduler"], "../outside": ["diffusers", "UNet2DModel"],
        "head": ["diffusers", "NoSuchModel"],
    }  # fmt: skip
    folder(tmp_path / "outside", UNET)
    at = tmp_path / "pipeline"
    folder(at / "unet", UNET)
    folder(at / "text_encoder", BERT)
    folder(at / "head", {"_class_name": "NoSuchModel"})
    (at / "scheduler").mkdir()
    (at / "model_index.json").write_text(json.dumps(index))
    opened = open_source(f"hub:{at}")
    assert [one.name for one in opened] == ["pipeline/unet", "pipeline/text_encoder"]
    name, graph = captured(opened[0].source)
    assert name == "unet" and "aten.conv2d.default" in {node.op for node in graph.nodes}
    assert run(graph)[0].shape[1] == 3


def test_trained_weights_of_diffusers(tmp_path):
    from diffusers import UNet2DModel

    at = folder(tmp_path / "unet", UNET)
    model = UNet2DModel.from_config(UNET)
    save_file(model.state_dict(), at / "diffusion_pytorch_model.safetensors", metadata={"format": "pt"})
    store = TensorStore(tmp_path / "store")
    _, graph = captured(f"hub:{at}", store)
    written = {value.numpy().tobytes() for value in model.state_dict().values()}
    held = [given for given in graph.inputs if given.role == "parameter"]
    assert held and all(materialise(given, store).tobytes() in written for given in held)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("not json", "is no JSON"),
        ("[1]", "holds no JSON object"),
        ("{}", "names no architecture"),
        ('{"architectures": ["AutoModel"]}', "transformers has no class AutoModel"),
        ('{"architecture": "resnet19"}', "timm has no model 'resnet19'"),
        ('{"_class_name": "UNet3DModel"}', "diffusers has no model 'UNet3DModel', and other code is not run"),
        (
            '{"architectures": ["BertModel"], "quantization_config": {"bits": 4}}',
            "weights are quantised by an unnamed method",
        ),
        (
            '{"architectures": ["BertModel"], "quantization_config": {"quant_method": "gptq"}}',
            r"weights are quantised by gptq .*model.dequantize\(\)",
        ),
        ('{"architectures": ["BertModel"], "hidden_size": 30, "num_attention_heads": 4}', "its constructor raised"),
    ],
)
def test_a_bad_configuration_is_said_in_one_line(tmp_path, config, said):
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(SourceError, match=said) as refused:
        built(f"hub:{tmp_path}")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("someone/no-such-model", r"not in the local cache .* mindgap downloads nothing: download it"),
        ("./nowhere", "no such folder"),
        ("/nowhere/at/all", "no such folder"),
        ("../up", "no such folder"),
    ],
)
def test_what_is_not_here_is_said_with_what_to_do(target, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=said):
        open_source(f"hub:{target}")


def test_the_hub_is_never_asked(monkeypatch):
    """With a network and no variable that forbids it."""
    import huggingface_hub.constants as constants

    asked: list[object] = []

    def connect(_: socket.socket, address: object) -> None:
        asked.append(address)
        raise OSError("no network in tests")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: connect(None, host))
    with pytest.raises(SourceError, match="mindgap downloads nothing"):
        open_source("hub:someone/no-such-model")
    assert not asked


def test_a_file_and_an_empty_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SourceError, match="is a file; name the folder"):
        open_source(f"hub:{tmp_path}/file")
    with pytest.raises(SourceError, match=r"neither config\.json nor model_index\.json"):
        open_source(f"hub:{tmp_path}")


def test_a_model_in_the_local_cache_is_found_by_its_name(tmp_path):
    cached = tmp_path / "cache" / "models--someone--tiny"
    folder(cached / "snapshots" / "abc123", BERT)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text("abc123")
    name, graph = captured("hub:someone/tiny?length=3")
    assert name == "someone/tiny" and graph.inputs[0].spec.shape == (1, 3)


def test_no_warning_where_weights_are_simply_absent(tmp_path):
    folder(tmp_path / "bare", BERT)
    with warnings.catch_warnings():
        warnings.simplefilter("error", SeededInstead)
        captured(f"hub:{tmp_path}/bare?length=3")


GPT = {
    "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2,
    "n_positions": 8, "vocab_size": 12, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
WORDS = {word: number for number, word in enumerate(["<unk>", "once", "upon", "a", "time", "there", "was", "?", "&"])}


def checkpoint(at: Path, dtype: torch.dtype = torch.bfloat16, words: dict[str, int] = WORDS) -> Path:
    """A folder of transformers: weights in several files of safetensors, and a tokenizer of a few words."""
    from mindgap.sources.libraries import declare_operators

    declare_operators()
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    with torch.random.fork_rng():
        torch.manual_seed(3)
        GPT2LMHeadModel(GPT2Config(**GPT)).to(dtype).save_pretrained(at, max_shard_size="2KB")
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>").save_pretrained(at)
    return at


def test_a_text_is_given_by_the_tokenizer_of_a_sharded_checkpoint_in_its_own_dtype(tmp_path):
    at = checkpoint(tmp_path / "gpt")
    assert len(list(at.glob("model-*.safetensors"))) > 2
    store = TensorStore(tmp_path / "store")
    _, graph = captured(with_options(f"hub:{at}", capture_options(None, False, None, "once upon a time ? &")), store)
    tokens = next(
        materialise(given, store)
        for given, label in zip(graph.inputs, graph.labels.inputs, strict=True)
        if label == "input_ids"
    )
    assert tokens.tolist() == [[WORDS[word] for word in ["once", "upon", "a", "time", "?", "&"]]]
    assert {given.spec.dtype for given in graph.inputs if given.role == "parameter"} == {"bfloat16"}
    program = built(f"hub:{at}?text=once upon")
    assert program.kwargs["input_ids"].tolist() == [[1, 2]]


@pytest.mark.parametrize(("text", "words", "said"), [
    ("a " * 9, WORDS, "--text: 9 tokens, and the model has 8 positions"),
    ("", WORDS, "--text '': the tokenizer makes no tokens of it"),
    ("far", {**WORDS, "far": 50}, "--text: the tokenizer gives token 50, and the model has 12"),
])  # fmt: skip
def test_a_text_that_does_not_fit_is_one_line(tmp_path, text, words, said):
    at = checkpoint(tmp_path / "gpt", words=words)
    with pytest.raises(SourceError, match=re.escape(said)) as raised:
        built(with_options(f"hub:{at}", capture_options(None, False, None, text)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("option", ["batch=2", "length=5"])
def test_a_text_goes_with_no_batch_and_no_length(tmp_path, option):
    with pytest.raises(SourceError, match=f"--text gives one example of its own length: leave {option} out"):
        open_source(f"hub:{folder(tmp_path / 'gpt', GPT)}?{option}&text=once")


def test_a_folder_without_a_tokenizer_and_a_model_without_tokens_take_no_text(tmp_path):
    at = checkpoint(tmp_path / "gpt")
    for path in at.glob("token*"):
        path.unlink()
    with pytest.raises(SourceError, match=r"--text: the folder has no tokenizer \(tokenizer.json\)"):
        built(f"hub:{at}?text=once")
    (at / "tokenizer.json").write_text("{}")
    with pytest.raises(SourceError, match=r"--text: its tokenizer cannot be used"):
        built(f"hub:{at}?text=once")
    folder(tmp_path / "picture", {"architecture": "resnet18"})
    with pytest.raises(SourceError, match="--text is for language models"):
        built(f"hub:{tmp_path}/picture?text=once")
