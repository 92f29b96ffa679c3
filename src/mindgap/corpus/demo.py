"""Lists the models of the demonstration: real architectures of many kinds, small enough for a laptop.

Each runs in under 0.3 s eagerly and compiles in under 40 CPU seconds. `DEMO` needs the packages of the extras and no
other file. `RECORDED` needs the record file.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    "diffusers:UNet2DModel",
    "pyg:GAT",
    f"graph:{DATA / 'deberta_sequence_classification.graph'}",
    f"graph:{DATA / 'swinv2_image_classification.graph'}",
)

#: The same with their gradients, captured below autograd: forward and backward kernels.
TRAINED: Final[tuple[str, ...]] = (
    "timm:resnet18?size=64",
    "transformers:BertModel",
    "transformers:GPT2Model",
    "transformers:LlamaModel",
)

#: Ids in the record file.
RECORDED: Final[tuple[str, ...]] = ("timm/resnet18", "timm/test_convnext.r160_in1k")


@dataclass(frozen=True, slots=True)
class DemoSources:
    """Sources to run: `forward` only, and `trained` with gradients. `left_out`: a message about those that are
    missing."""

    forward: tuple[str, ...]
    trained: tuple[str, ...]
    left_out: str = ""


def demo_sources(records: Path) -> DemoSources:
    """Returns the sources to run. `records`: the path of the record file, which may be absent."""
    if records.is_file():
        return DemoSources((*DEMO, *(f"records:{records}#{name}" for name in RECORDED)), TRAINED)
    return DemoSources(DEMO, TRAINED, f"{len(RECORDED)} records are left out: {records} is not here")
