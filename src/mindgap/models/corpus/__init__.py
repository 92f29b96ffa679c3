"""Turns the name of a model (a source) into programs and graphs.

Comes in: a source string, `SCHEME:NAME`, `FILE.py:CALLABLE` or `PACKAGE.MODULE:CALLABLE` (see `source`; `SCHEMES`
lists the schemes). Goes out: programs with their arguments, built on demand and without network, and captured graphs.
Must not know: verdicts, and of platforms only LiteRT's reference kernels, with which translations of `.tflite` files
are compared.

- `zoos/`: model libraries (`timm:`, `torchvision:`, `pytorchcv:`, `open_clip:`, `transformers:`, `diffusers:`,
  `pyg:`).
- `records/`: recorded calls of real models (`records:`, `graphnet:`).
- `onnx_models/`: ONNX model files (`FILE.onnx`) and conformance cases (`onnx:`).
- `tflite_models/`: LiteRT model files (`FILE.tflite`).
- `operator_samples/`: samples of PyTorch's test suite (`ops:`, `modules:`).
- `hubs/`: published models (`hub:`, `torchhub:`).
- `files/`: the user's own code and files (`FILE.py:CALLABLE`, `pt2:`, `graph:`).
- `weights/`: construction of models, seeded weights, the registry of drawn tensors.
"""

from mindgap.models.corpus.opening import (
    CaptureFailure,
    capture_built,
    capture_program,
    capture_source,
    captured_graph,
    open_source,
)
from mindgap.models.corpus.program import Built, Captured, Program
from mindgap.models.corpus.source import (
    SCHEMES,
    Scheme,
    Source,
    SourceError,
    SourceOptions,
    parse,
    schemes,
    source_options,
)

__all__ = [
    "SCHEMES",
    "Built",
    "CaptureFailure",
    "Captured",
    "Program",
    "Scheme",
    "Source",
    "SourceError",
    "SourceOptions",
    "capture_built",
    "capture_program",
    "capture_source",
    "captured_graph",
    "open_source",
    "parse",
    "schemes",
    "source_options",
]
