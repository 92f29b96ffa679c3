"""Defines the root of every error that mindgap raises on purpose."""


class MindgapError(Exception):
    """Bad input or wrong use. The message names the mistake, the place, and what to do."""


class GraphError(MindgapError):
    """A graph, or the bytes of one, that breaks a rule; the message names the place."""
