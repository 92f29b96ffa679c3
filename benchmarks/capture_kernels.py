"""Measures kernels-level capture of real models: time, calls, and the operators that a training step reaches.

Prints a row per model (nodes of forward, forward + backward, and a whole AdamW step, seconds of the last two with
their proof) and the distinct overload packets and overloads of each stage over all of them.

    .venv/bin/python benchmarks/capture_kernels.py [NAME …]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from mindgap.graph import Graph
from mindgap.models.capture import capture_kernels
from mindgap.models.capture.errors import CaptureError
from mindgap.models.corpus.libraries import declare_operators

Made = tuple[Any, tuple[Any, ...], dict[str, Any]]
IDS = torch.arange(24).reshape(2, 12) * 37 % 97
IMAGE = (2, 3, 64, 64)
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def timm(name: str, shape: tuple[int, ...] = IMAGE, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        import timm as zoo

        return zoo.create_model(name, num_classes=10, **options).train(), (torch.randn(shape),), {}

    return make


def torchvision(path: str, **options: Any) -> Callable[[], Made]:
    def make() -> Made:
        from torchvision import models

        return models.get_model(path, weights=None, **options).train(), (torch.randn(IMAGE),), {}

    return make


def language(kind: str, head: str = "Model", inputs: dict[str, Any] | None = None, **more: Any) -> Callable[[], Made]:
    def make() -> Made:
        import transformers as t

        config = getattr(t, f"{kind}Config")(**{**SMALL, **more})
        model = getattr(t, f"{kind}{head}")(config).train()
        return model, (), inputs or {"input_ids": IDS}

    return make


def recurrent() -> Made:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(100, 16)
            self.lstm = torch.nn.LSTM(16, 16, 2, dropout=0.1, bidirectional=True, batch_first=True)
            self.gru = torch.nn.GRU(32, 16, batch_first=True)
            self.out = torch.nn.Linear(16, 5)

        def forward(self, ids: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            hidden, _ = self.gru(self.lstm(self.embed(ids))[0])
            return torch.nn.functional.cross_entropy(self.out(hidden).transpose(1, 2), target)

    return Net().train(), (IDS, IDS % 5), {}


MODELS: dict[str, Callable[[], Made]] = {
    "resnet18": timm("resnet18"),
    "mobilenetv3": timm("mobilenetv3_small_100", drop_rate=0.2),
    "efficientnet": timm("efficientnet_lite0", drop_path_rate=0.1),
    "convnext": timm("convnext_atto"),
    "vit": timm("vit_tiny_patch16_224", (1, 3, 64, 64), img_size=64, depth=3),
    "swin": timm("swin_tiny_patch4_window7_224", (1, 3, 224, 224), depths=(1, 1), num_heads=(2, 2), embed_dim=32),
    "levit": timm("levit_128s", (2, 3, 224, 224)),
    "ghostnet": timm("ghostnet_100"),
    "shufflenet": torchvision("shufflenet_v2_x0_5"),
    "googlenet": torchvision("googlenet", init_weights=False, aux_logits=False),
    "deeplab": torchvision("deeplabv3_mobilenet_v3_large", weights_backbone=None),
    "bert": language("Bert"),
    "gpt2": language("GPT2", "LMHeadModel", {"input_ids": IDS, "labels": IDS}, n_embd=32, n_layer=2, n_head=4),
    "llama": language("Llama", "ForCausalLM", {"input_ids": IDS, "labels": IDS, "use_cache": False}),
    "t5": language("T5", "Model", {"input_ids": IDS, "decoder_input_ids": IDS}, d_model=32, d_kv=8, d_ff=64,
                   num_layers=2, num_heads=4),
    "mamba": language("Mamba"),
    "deberta": language("DebertaV2"),
    "lstm": lambda: recurrent(),
}  # fmt: skip


def packets(graph: Graph) -> set[str]:
    return {node.op.rpartition(".")[0] for node in graph.nodes}


def main(names: list[str]) -> None:
    declare_operators()  # the CPU build of torchvision does not import without
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    stages = {"forward": {}, "backward": {"backward": True}, "adamw": {"optimizer": "adamw"}}
    seen: dict[str, set[str]] = {stage: set() for stage in stages}
    overloads: set[str] = set()
    captured = 0
    print(f"{'model':14} {'forward':>8} {'backward':>8} {'adamw':>8} {'s bwd':>6} {'s step':>6}")
    for name in names or list(MODELS):
        torch.manual_seed(0)
        program, args, kwargs = MODELS[name]()
        cells: list[str] = []
        seconds: list[float] = []
        for stage, options in stages.items():
            started = time.perf_counter()
            try:
                graph = capture_kernels(program, args, kwargs, weights="seeded", **options)
            except CaptureError as error:
                print(f"{name}: {stage}: {error}")
                break
            seconds.append(time.perf_counter() - started)
            cells.append(f"{len(graph.nodes):8}")
            seen[stage] |= packets(graph)
            overloads |= {node.op for node in graph.nodes}
        else:
            captured += 1
            print(f"{name:14} {' '.join(cells)} {seconds[1]:6.2f} {seconds[2]:6.2f}", flush=True)
    print(f"{captured} of {len(names or MODELS)} models captured at every stage and proven on two inputs")
    for stage, found in seen.items():
        print(f"{stage}: {len(found)} overload packets")
    print(f"union: {len(set().union(*seen.values()))} overload packets, {len(overloads)} overloads")


if __name__ == "__main__":
    main(sys.argv[1:])
