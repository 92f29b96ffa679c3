"""Starts an actor on every node of a cluster, checks that all nodes run the same, and detects lost nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import PlatformFacts
from mindgap.run.local import fingerprint_of
from mindgap_campaign.campaign.cluster.messages import NodeReport, SessionTerms
from mindgap_campaign.campaign.cluster.node import CampaignNode
from mindgap_campaign.campaign.cluster.node_call import CALLS, GROUPS, SESSION_GROUP, node_name
from mindgap_campaign.campaign.cluster.tasks import task_error
from mindgap_campaign.cluster import NAMESPACE
from mindgap_campaign.cluster.connection import ClusterNode, living_nodes, resource_of, unusable_node
from mindgap_campaign.cluster.messages import ClusterProblem, Failure, checked

#: Seconds to wait for a node with a platform whose last node is lost: a machine may restart, or another replace it.
WAIT_S = 120.0
_LOOK_S: Final = 2.0


@dataclass
class _Member:
    """A node with its actor. `life`: a reference that is ready once the actor is lost. `look`: its report, until it is
    there."""

    node: ClusterNode
    actor: Any
    life: Any
    look: Any


@dataclass
class ClusterNodes:
    """The nodes of one session. Not thread-safe: the driver's thread."""

    ray: Any
    setup: Any
    address: str
    session: str
    platforms: tuple[PlatformName, ...]
    _members: dict[str, _Member] = field(default_factory=dict[str, _Member])
    _terms: SessionTerms | None = None
    _looked: float = 0.0
    #: When the actor of a node that is alive was first lost before it took part.
    _failed: dict[str, float] = field(default_factory=dict[str, float])
    _missing: dict[PlatformName, float] = field(default_factory=dict[PlatformName, float])

    def join(self) -> tuple[dict[PlatformName, PlatformFacts], dict[PlatformName, Mapping[str, Any]]]:
        """Opens all nodes. Returns the facts and descriptions of the platforms.

        Raises `MindgapError` where a node would run something else than another, or cannot write where the rows go.
        """
        for node in living_nodes(self.ray):
            self._add(node)
        facts: dict[PlatformName, PlatformFacts] = {}
        descriptions: dict[PlatformName, Mapping[str, Any]] = {}
        hosts: dict[PlatformName, str] = {}
        for member in self._members.values():
            report = self._report(member)
            for platform, description in report.descriptions.items():
                if platform not in descriptions:
                    facts[platform], descriptions[platform] = report.facts[platform], description
                    hosts[platform] = report.host
                else:
                    _require_equal(platform, report, hosts[platform], descriptions[platform])
        return facts, descriptions

    def begin(self, terms: SessionTerms) -> None:
        """Sends all nodes the terms of the session."""
        self._terms = terms
        self.ray.get([_session_method(member.actor.begin).remote(terms) for member in self._members.values()])

    def watch(self) -> None:
        """Opens nodes that have joined, forgets those that are gone. To be called often; looks every two seconds.

        Raises `ClusterProblem` if a platform has had no node for too long, and `MindgapError` for a node that would run
        something else.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        nodes = {node.id: node for node in living_nodes(self.ray)}
        for key, member in list(self._members.items()):
            gone, _ = self.ray.wait([member.life], timeout=0)
            if gone or key not in nodes:
                del self._members[key]
        for node in nodes.values():
            if node.id not in self._members:
                with suppress(self.ray.exceptions.ActorAlreadyExistsError):
                    # The one before has ended, and Ray has not noticed: tried again with the next look.
                    self._add(node)
        for member in list(self._members.values()):
            if member.look is not None and self.ray.wait([member.look], timeout=0)[0]:
                self._welcome(member)
        self._require_all(list(nodes.values()), now)

    def blocks_at_once(self) -> int:
        """Returns how many blocks the platform on most nodes can run at the same time."""
        nodes = [member.node for member in self._members.values()]
        return max(int(sum(node.resources.get(resource_of(name), 0) for node in nodes)) for name in self.platforms)

    def expenses(self) -> list[dict[str, Any]]:
        """Returns rows of the table `expenses` of all nodes. What a lost node spent is not known."""
        expenses_by_node: list[dict[str, Any]] = []
        for reference in [_session_method(member.actor.expenses).remote() for member in self._members.values()]:
            with suppress(self.ray.exceptions.RayError):
                expenses_by_node += self.ray.get(reference, timeout=30)
        return expenses_by_node

    def close(self) -> None:
        """Ends what the session started on the nodes."""
        closing = [_session_method(member.actor.close).remote() for member in self._members.values()]
        if closing:
            self.ray.wait(closing, num_returns=len(closing), timeout=30)
        for member in self._members.values():
            self.ray.kill(member.actor)
        self._members.clear()

    def _add(self, node: ClusterNode) -> None:
        names = [platform for platform in self.platforms if node.has(platform)]
        if not names and not node.computes:
            return
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        actor = (
            self.ray.remote(concurrency_groups=GROUPS)(CampaignNode)
            .options(
                name=node_name(self.session, node.id),
                namespace=NAMESPACE,
                num_cpus=0,
                max_concurrency=CALLS,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False),
            )
            .remote(self.setup, names, int(node.resources.get("CPU", 0)))
        )
        life, look = _session_method(actor.live), _session_method(actor.look)
        self._members[node.id] = _Member(node, actor, life.remote(), look.remote())

    def _report(self, member: _Member) -> NodeReport:
        reference, member.look = member.look, None
        try:
            answer: NodeReport | Failure = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            raise _unusable(self.ray, member.node, error) from None
        return checked(answer)

    def _welcome(self, member: _Member) -> None:
        """Lets a node that has joined take part, if it would run the same as the others. One that is lost before that,
        or has no room on its disk, is looked at again, if it is there."""
        try:
            report = self._report(member)
        except ClusterProblem:
            # A node that has just died is listed as alive for some seconds.
            if time.monotonic() - self._failed.setdefault(member.node.id, time.monotonic()) >= WAIT_S:
                raise
            self.ray.kill(member.actor)
            del self._members[member.node.id]
            return
        self._failed.pop(member.node.id, None)
        assert self._terms is not None, "nodes are watched once the session has begun"
        for platform in report.descriptions:
            if platform in self._terms.descriptions:
                _require_equal(platform, report, "the others", self._terms.descriptions[platform])
        _session_method(member.actor.begin).remote(self._terms)

    def _require_all(self, nodes: Sequence[ClusterNode], now: float) -> None:
        for platform in self.platforms:
            if any(node.has(platform) for node in nodes):
                self._missing.pop(platform, None)
            elif now - self._missing.setdefault(platform, now) >= WAIT_S:
                raise ClusterProblem(
                    f"{self.address}: no node has had {platform} for {WAIT_S:g} s: start one again, and go on "
                    "with `mindgap campaign resume … --ray`"
                )


def _session_method(method: Any) -> Any:
    """Returns a method of an actor, to be called in parallel with those that its tasks wait in."""
    return method.options(concurrency_group=SESSION_GROUP)


def _require_equal(platform: PlatformName, report: NodeReport, other: str, description: Mapping[str, Any]) -> None:
    """Raises `MindgapError` if a platform is another on one node than on the others: rows would not be comparable."""
    if fingerprint_of(report.descriptions[platform]) == fingerprint_of(description):
        return
    differing = sorted(
        key
        for key in {*report.descriptions[platform], *description}
        if report.descriptions[platform].get(key) != description.get(key)
    )
    raise MindgapError(
        f"platform {platform} is another on node {report.host} than on {other} ({', '.join(differing)} differ): "
        "give it to nodes of one kind only"
    )


def _unusable(ray: Any, node: ClusterNode, error: BaseException) -> BaseException:
    cause = task_error(ray, error)
    if isinstance(cause, (ray.exceptions.RayError, ClusterProblem)):
        return unusable_node(node, error, "its actor ended")
    return cause
