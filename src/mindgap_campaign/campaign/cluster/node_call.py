"""The Ray task of a campaign: calls the actor of the node that it runs on, and holds its resources meanwhile.

A node's workers, judges and drawn blocks belong to one actor, so that all tasks of a node share them. What the task
passes on is packed before and after it: its process, of which Ray starts many, imports neither PyTorch nor mindgap's
rooms.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from mindgap_campaign.cluster import NAMESPACE

#: Calls that an actor takes at a time. Jobs have threads of their own: judges wait for them in the others.
CALLS: Final = 32
JOB_GROUP: Final = "jobs"
SESSION_GROUP: Final = "session"
GROUPS: Final = {JOB_GROUP: 32, SESSION_GROUP: 4}
#: A node that has just joined gets its actor from the driver within so many seconds.
_ACTOR_S: Final = 300.0


class NoActor(Exception):
    """Raised where a node has no actor of the session."""


def node_name(session: str, node: str) -> str:
    """Returns the name of the actor of a node in a session."""
    return f"mindgap {session} {node}"


def on_node(session: str, method: str, arguments: bytes, references: Sequence[Any] = ()) -> Any:
    """Calls a method of the actor of this node. `arguments`: packed. `references`: of objects, not fetched here.

    Returns the method's result packed, or a tuple of its results. Raises `NoActor` if the driver gives the node none.
    """
    ray: Any = import_module("ray")
    name = node_name(session, ray.get_runtime_context().get_node_id())
    call = _actor(ray, name).call
    if method == "job":
        call = call.options(concurrency_group=JOB_GROUP)
    return ray.get(call.remote(method, arguments, references))


def _actor(ray: Any, name: str) -> Any:
    until = time.monotonic() + _ACTOR_S
    while True:
        try:
            return ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            if time.monotonic() > until:
                raise NoActor(f"{name}: the driver has given this node no actor") from None
            time.sleep(0.1)
