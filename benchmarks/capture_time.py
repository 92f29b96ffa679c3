"""Measures the seconds to capture a model: recording alone, and with the proof on two inputs.

python benchmarks/capture_time.py [NAME …]
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

from mindgap.graph.tensors import TensorStore
from mindgap.models.capture import capture
from mindgap.models.corpus.libraries import declare_operators

TIMM = ("resnet18", "resnet50", "convnext_atto", "efficientnet_b0", "mobilenetv3_small_100", "densenet121",
        "vit_tiny_patch16_224", "swin_tiny_patch4_window7_224", "mixer_s32_224")  # fmt: skip


def cases() -> list[tuple[str, Callable[[], torch.nn.Module], dict[str, Any]]]:
    """(name, how to make the model, its arguments)."""
    declare_operators()
    import timm
    import transformers

    image = {"x": torch.randn(1, 3, 224, 224)}
    found = [(name, lambda name=name: timm.create_model(name).eval(), image) for name in TIMM]
    small = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100}
    heads = {"num_key_value_heads": 4}
    ids = {"input_ids": torch.arange(32).reshape(2, 16)}
    for kind in ("Bert", "Llama", "Qwen3"):
        config = getattr(transformers, f"{kind}Config")(**small, **({} if kind == "Bert" else heads))
        found.append((kind, lambda config=config: transformers.AutoModel.from_config(config).eval(), ids))
    return found


def seconds(model: torch.nn.Module, kwargs: dict[str, Any], **options: Any) -> tuple[float, int]:
    start = time.perf_counter()
    graph = capture(model, (), kwargs, weights="seeded", **options)
    return time.perf_counter() - start, len(graph.nodes)


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = TensorStore(folder)
        print(f"{'model':32s}{'nodes':>6s}{'record s':>10s}{'+ proof s':>10s}{'stored s':>10s}{'ms/node':>9s}")
        recording: list[float] = []
        for name, make, kwargs in cases():
            if names and name not in names:
                continue
            model = make()
            seconds(model, kwargs, verify=False)  # the first capture of an operator fills PyTorch's caches
            bare, nodes = seconds(model, kwargs, verify=False)
            proven, _ = seconds(model, kwargs)
            start = time.perf_counter()
            capture(model, (), kwargs, tensors=store)
            stored = time.perf_counter() - start
            recording.append(bare)
            print(f"{name:32s}{nodes:6d}{bare:10.2f}{proven:10.2f}{stored:10.2f}{bare / nodes * 1e3:9.2f}")
        print(f"median seconds to record: {statistics.median(recording):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
