"""Turns the name of a model (a source) into programs and graphs.

Comes in: a source string, `SCHEME:NAME`, `FILE.py:CALLABLE` or `PACKAGE.MODULE:CALLABLE` (see `source`; `SCHEMES`
lists the schemes). Goes out: programs with their arguments, built on demand and without network, and captured graphs.
Must not know: verdicts and platforms. Openers of other packages, such as `mindgap.onnx_files`, are imported when a
source of their scheme is opened.

- `files/`: the user's code and files (`FILE.py:CALLABLE`, `pt2:`, `graph:`).
- `weights/`: construction of models, seeded weights, the registry of drawn tensors.
"""

from mindgap.sources.opening import (
    CaptureFailure,
    capture_built,
    capture_program,
    capture_source,
    captured_graph,
    open_source,
)
from mindgap.sources.program import Built, Captured, Program
from mindgap.sources.source import (
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
