"""The models of the demonstration: real architectures of every kind, small enough for a laptop.

Each runs in under 0.3 s eagerly and is compiled in under 40 CPU seconds. Those of `DEMO` need the
packages of the extras and no file from elsewhere; the records of `RECORDED` need the record file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Graphs of the GraphNet collection that come with the package; see data/LICENSE.GraphNet.
DATA: Final = Path(__file__).parent / "data"

DEMO: Final[tuple[str, ...]] = (
    "timm:resnet18?size=64",
    "timm:convnext_atto?size=64",
    "timm:vit_tiny_patch16_224?size=64",
    "timm:mixer_s32_224",
    "timm:efficientnet_lite0?size=64",
    "timm:resmlp_12_224?size=64",
    "torchvision:mobilenet_v3_small?size=64",
    "torchvision:shufflenet_v2_x0_5?size=64",
    "torchvision:squeezenet1_1?size=64",
    "transformers:BertModel",
    "transformers:GPT2Model",
    "transformers:LlamaModel",
    "transformers:T5Model",
    "transformers:WhisperModel",
    "transformers:SegformerModel",
    "transformers:CLIPModel",
    f"graph:{DATA / 'deberta_sequence_classification.graph'}",
    f"graph:{DATA / 'swinv2_image_classification.graph'}",
)

#: Ids in the record file.
RECORDED: Final[tuple[str, ...]] = ("timm/resnet18", "timm/test_convnext.r160_in1k")


def demo_sources(records: Path) -> tuple[tuple[str, ...], str]:
    """The sources to run where `records` is the path of the record file, and a word on what is left out."""
    if records.is_file():
        return (*DEMO, *(f"records:{records}#{name}" for name in RECORDED)), ""
    return DEMO, f"{len(RECORDED)} records are left out: {records} is not here"
