"""`transformers:NAME`."""

from mindgap.corpus.program import Program
from mindgap.corpus.source import Source, SourceError


def open_transformers(source: Source) -> list[Program]:
    raise SourceError("not yet")
