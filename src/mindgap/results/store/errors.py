"""Errors of stores."""

from mindgap.graph import MindgapError


class StoreError(MindgapError):
    """A store cannot be opened, read or written. The message names the file and what to do."""


class RowError(StoreError):
    """A row does not fit its table."""
