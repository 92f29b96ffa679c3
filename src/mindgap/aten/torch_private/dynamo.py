"""Dynamo, the front end of `torch.compile`: its configuration, counters, compiled-code cache and list of backends."""

import traceback
from typing import Any

import torch._dynamo
from torch._dynamo.utils import counters as counters

#: `torch._dynamo.config`, whose `patch` is made at import and has no type.
dynamo_config: Any = torch._dynamo.config


def reset() -> None:
    """Discards all compiled code of this process."""
    torch._dynamo.reset()


def list_backends() -> list[str]:
    """Returns the names of all registered backends."""
    dynamo: Any = torch._dynamo  # typed in parts
    return list(dynamo.list_backends(()))


def graph_breaks(program: Any, args: tuple[Any, ...]) -> list[tuple[str, str]]:
    """Runs a program as `torch.compile` would, without compiling it. Returns the graph breaks: the reason, and where it
    is in the form of a traceback."""
    dynamo: Any = torch._dynamo  # typed in parts
    found = dynamo.explain(program)(*args).break_reasons
    return [(str(each.reason).splitlines()[0], "".join(traceback.format_list(each.user_stack))) for each in found]
