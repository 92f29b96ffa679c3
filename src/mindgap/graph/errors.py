"""The root of every error that mindgap raises on purpose."""


class MindgapError(Exception):
    """Bad input or wrong use. The message says what was wrong, where, and what to do about it."""


class GraphError(MindgapError):
    """A graph, or the bytes of one, that breaks a rule; the message names the place."""
