"""Real architectures are captured, proven, portable, and have a functional form with the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from aten.differing_outputs import differing_outputs
from mindgap.aten.functional import functionalize
from mindgap.aten.operators import is_inplace
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors
from mindgap.graph.materialisation import materialise_all
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import capture
from mindgap.sources.libraries import declare_operators

IDS = torch.arange(24).reshape(2, 12) * 37 % 97
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
PORTABLE = ("mkldnn", "_for_cpu", "cudnn", "_native_multi_head")


def prove(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], store: TensorStore) -> None:
    graph = capture(model, args, kwargs, tensors=store)
    assert not any(word in node.op for node in graph.nodes for word in PORTABLE)
    assert len(graph.labels.nodes) == len(graph.nodes) and all(graph.labels.nodes)
    assert len(graph.labels.outputs) == len(graph.outputs)
    inputs = input_tensors(graph, materialise_all(graph, store))
    specs: list[Any] = []
    Tape(graph).run(inputs, on_node=lambda _, flat: specs.append(flat))
    for node, flat in zip(graph.nodes, specs, strict=True):
        shapes = [None if t is None else (str(t.dtype)[6:], tuple(t.shape)) for t in flat]
        assert shapes == [None if s is None else (s.dtype, s.shape) for s in node.outputs], node.op
    functional = functionalize(graph)
    assert differing_outputs(graph, functional.graph, inputs) == []
    assert len(functional.origin) == len(functional.graph.nodes)
    assert not any(is_inplace(node.op) for node in functional.graph.nodes)


@pytest.fixture(scope="module", autouse=True)
def vision() -> None:
    from mindgap.sources.libraries import declare_operators

    declare_operators()  # the CPU build of torchvision does not import without


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("name", "train"), [
    ("resnet18", True), ("mobilenetv3_small_100", True), ("convnext_atto", False), ("levit_128s", False),
    ("vit_tiny_patch16_224", False), ("swin_tiny_patch4_window7_224", False), ("ghostnet_100", False),
])  # fmt: skip
def test_timm(name: str, train: bool, store: TensorStore) -> None:
    timm = pytest.importorskip("timm")
    model = timm.create_model(name, **({"drop_rate": 0.2} if train else {})).train(train)
    side = 224 if name.endswith("224") or name.startswith("levit") else 64
    prove(model, (torch.randn(2, 3, side, side),), {}, store)


@pytest.mark.parametrize("name", ["shufflenet_v2_x0_5", "squeezenet1_1", "deeplabv3_mobilenet_v3_large"])
def test_torchvision(name: str, store: TensorStore) -> None:
    models = pytest.importorskip("torchvision").models
    options = {"weights_backbone": None} if "deeplab" in name else {}
    model = models.get_model(name, weights=None, **options).eval()
    prove(model, (torch.randn(1, 3, 64, 64),), {}, store)


def language(kind: str, **more: Any) -> Callable[[Any], Any]:
    return lambda t: t.AutoModel.from_config(getattr(t, f"{kind}Config")(**{**SMALL, **more})).eval()


@pytest.mark.parametrize(("make", "kwargs"), [
    (language("Bert"), {"input_ids": IDS}), (language("DebertaV2"), {"input_ids": IDS}),
    (language("Llama"), {"input_ids": IDS, "attention_mask": torch.ones_like(IDS), "use_cache": False}),
    (language("Gemma2"), {"input_ids": IDS, "use_cache": True}), (language("Falcon"), {"input_ids": IDS}),
    (language("Mamba"), {"input_ids": IDS}),
    (language("Mixtral", num_local_experts=4), {"input_ids": IDS, "use_cache": False}),
    (lambda t: t.GPT2LMHeadModel(t.GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=100, bos_token_id=1,
                                              eos_token_id=2)).train(), {"input_ids": IDS, "labels": IDS}),
    (lambda t: t.T5Model(t.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=100)).eval(),
     {"input_ids": IDS, "decoder_input_ids": IDS}),
], ids=["bert", "deberta", "llama", "gemma2-cache", "falcon", "mamba", "mixtral", "gpt2-train", "t5"])  # fmt: skip
def test_transformers(make: Any, kwargs: dict[str, Any], store: TensorStore) -> None:
    declare_operators()
    transformers = pytest.importorskip("transformers")
    prove(make(transformers), (), kwargs, store)
