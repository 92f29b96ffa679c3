"""Names of models to programs and graphs.

Comes in: a source, the text that names models on the command line: the user's own file or module,
a model of timm, torchvision or transformers, a record of calls, an exported program, a graph file.
Goes out: programs with their arguments, built on demand without network, and captured graphs.
Knows no platform.
"""

from mindgap.corpus.opening import (
    CaptureFailure,
    capture_built,
    capture_program,
    capture_source,
    captured_graph,
    open_source,
)
from mindgap.corpus.program import Built, Captured, Program
from mindgap.corpus.source import SCHEMES, Source, SourceError, parse

__all__ = [
    "SCHEMES",
    "Built",
    "CaptureFailure",
    "Captured",
    "Program",
    "Source",
    "SourceError",
    "capture_built",
    "capture_program",
    "capture_source",
    "captured_graph",
    "open_source",
    "parse",
]
