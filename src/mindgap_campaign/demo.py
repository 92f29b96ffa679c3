"""Lists what the demonstration runs: real architectures of many kinds, and operator samples to make variants of.

Each model runs in under 0.3 s eagerly and compiles in under 40 CPU seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Graphs of the GraphNet collection that come with the package; see data/LICENSE.GraphNet.
DATA: Final = Path(__file__).parent / "data"

#: A text classifier that leaves out its padding mask where it is exported. `mindgap demo` copies it and compares it.
DEMO_PROGRAM: Final = DATA / "text_classifier.py"

#: What `mindgap demo` runs: a convolutional network, a vision transformer, an encoder and a decoder of text.
DEMO_MODELS: Final[tuple[str, ...]] = (
    "timm:resnet18?size=64",
    "timm:vit_tiny_patch16_224?size=64",
    "transformers:BertModel",
    "transformers:LlamaModel",
)

#: The samples that `mindgap demo` makes variants of: pooling, padding, normalisation, interpolation, and what else the
#: functions of a small image classifier call.
DEMO_OPERATORS: Final[tuple[str, ...]] = (
    "ops:nn.functional.*pool*",
    "ops:nn.functional.pad.*",
    "ops:nn.functional.*norm",
    "ops:nn.functional.interpolate.*",
    "ops:nn.functional.cross_entropy",
    "ops:nn.functional.unfold",
    "ops:nn.functional.softmin*",
    "ops:nn.functional.grid_sample",
)
