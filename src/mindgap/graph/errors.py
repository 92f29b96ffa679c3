"""Defines the root of every error that mindgap raises on purpose."""


class MindgapError(Exception):
    """Bad input or wrong use. The message names the mistake, the place, and what to do."""


class UnknownOperator(MindgapError):
    """The PyTorch at hand has no operator of that name, or its schema does not take the arguments. `op`: its name."""

    def __init__(self, op: str, message: str) -> None:
        super().__init__(message)
        self.op = op


class GraphError(MindgapError):
    """A graph, or the bytes of one, that breaks a rule; the message names the place."""
