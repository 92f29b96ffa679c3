"""Connects to a Ray cluster, and reads what its nodes were started with."""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.platforms.name import ENVIRONMENT, HOST, PlatformName
from mindgap.run.source_files import PACKAGE
from mindgap_campaign.cluster import NAMESPACE, RETRIES
from mindgap_campaign.cluster.messages import ClusterProblem

#: Of a platform's resource on a node (1): what a block takes, and what a job of a judge takes besides it.
BLOCK_SHARE: Final = 0.9
JOB_SHARE: Final = 0.1
_CONNECT_S: Final = 10.0
#: A head that has not answered for so long is lost.
_HEAD_S: Final = 45.0
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
#: No statistics leave the machine, and what tasks print is not repeated by the driver.
_VARIABLES: Final = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


@dataclass(frozen=True)
class ClusterNode:
    """A node that is alive. `resources`: what it was started with."""

    id: str
    address: str
    resources: Mapping[str, float]

    def has(self, platform: PlatformName) -> bool:
        """Tells whether the node runs the platform."""
        return self.resources.get(resource_of(platform), 0) >= BLOCK_SHARE

    @property
    def computes(self) -> bool:
        """Whether tasks that need no platform, such as judging, run there."""
        return self.resources.get("CPU", 0) >= 1


def ray_module() -> Any:
    """Imports Ray. Raises `MindgapError` where it is not installed."""
    for name, value in _VARIABLES.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MindgapError(f"--ray needs Ray ({error}): pip install 'mindgap[ray]'") from None


@contextmanager
def connected(address: str) -> Generator[Any]:
    """Connects this process to a cluster, and yields the module `ray`.

    `address`: HOST:PORT of its head, `auto` for the cluster that this machine is a node of, or `ray://HOST:PORT`.
    Raises `ClusterProblem` if no cluster answers there.
    """
    _reach(address)
    ray = ray_module()
    host, _, port = address.rpartition(":")
    if host in _LOCAL:
        # Ray connects to this machine's own address in its place, and would wait for minutes.
        _reach(f"{ray.util.get_node_ip_address()}:{port}", address)
    if ray.is_initialized():
        raise MindgapError("this process is connected to a Ray cluster already")
    try:
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        text = " ".join(str(error).split())
        raise ClusterProblem(f"--ray {address}: no Ray cluster can be joined there: {text}") from None
    over = threading.Event()
    if not address.startswith("ray://"):
        head = str(ray.get_runtime_context().gcs_address)
        threading.Thread(target=watch_head, args=(head, over), name="mindgap-head", daemon=True).start()
    try:
        yield ray
    finally:
        over.set()
        ray.shutdown()


def watch_head(
    head: str, over: threading.Event, lost_s: float = _HEAD_S, end: Callable[[int], object] = os._exit
) -> None:
    """Ends this process with status 2 and one line if the head of the cluster does not answer for `lost_s` seconds.

    Ray itself ends the process after 60, with status 1, which means findings; until then it lets every call wait.
    `over`: ends the watch.
    """
    answered = time.monotonic()
    while not over.wait(lost_s / 15):
        try:
            with socket.create_connection(_host_and_port(head), _CONNECT_S):
                answered = time.monotonic()
        except OSError as error:
            if time.monotonic() - answered >= lost_s and not over.is_set():
                why = error.strerror or str(error) or type(error).__name__
                message = f"the head of the cluster, {head}, is lost ({why}): what is committed stays; start it again"
                os.write(2, f"mindgap: {message}, and go on (a campaign: `mindgap campaign resume … --ray`)\n".encode())
                end(2)
                return


def living_nodes(ray: Any) -> list[ClusterNode]:
    """Returns the nodes that are alive."""
    listed: list[dict[str, Any]] = ray.nodes()
    return [
        ClusterNode(str(node["NodeID"]), str(node["NodeManagerAddress"]), dict(node["Resources"]))
        for node in listed
        if node["Alive"]
    ]


def require_platforms(nodes: Sequence[ClusterNode], platforms: Iterable[PlatformName], address: str) -> None:
    """Raises `ClusterProblem` for a cluster that lacks a platform, or a processor for judging: what nodes have."""
    lacking = [platform for platform in platforms if not any(node.has(platform) for node in nodes)]
    if lacking:
        raise ClusterProblem(
            f"no node of {address} has {', '.join(lacking)}; {_what_nodes_have(nodes)}: start a node there with "
            f"ray start --resources='{ray_resources(lacking)}'"
        )
    if not any(node.computes for node in nodes):
        raise ClusterProblem(f"no node of {address} has a CPU for judging: {_what_nodes_have(nodes)}")


def platforms_there(
    nodes: Sequence[ClusterNode], platforms: Iterable[PlatformName], address: str
) -> list[PlatformName]:
    """Returns the platforms that some node has. Raises `ClusterProblem` if none has any: nothing would run."""
    wanted = list(platforms)
    there = [platform for platform in wanted if any(node.has(platform) for node in nodes)]
    if not there:
        raise ClusterProblem(
            f"no node of {address} has any of the plan's platforms ({', '.join(wanted)}): {_what_nodes_have(nodes)}"
        )
    return there


def resource_of(platform: PlatformName) -> str:
    """Returns the name of the resource that a node with this platform has: the platform without its options, but with
    its environment or host."""
    places = {key: value for key, value in platform.options.items() if key in (ENVIRONMENT, HOST)}
    return str(PlatformName(platform.device_mode, places))


def ray_resources(platforms: Iterable[PlatformName]) -> str:
    """Returns the JSON for `ray start --resources`: one of each platform."""
    return json.dumps(dict.fromkeys(map(resource_of, platforms), 1))


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Returns a digest of mindgap's source files: nodes with other files would judge otherwise."""
    root = Path(PACKAGE).parent
    digest = hashlib.sha256()
    for file in sorted(file for folder in root.glob("mindgap*") for file in folder.rglob("*.py")):
        digest.update(f"{file.relative_to(root)}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    return host.strip("[]"), int(port)


def lost_task(ray: Any, error: BaseException) -> BaseException:
    """Returns the error to raise for one of `ray.get`: one line for what was lost, else the error itself."""
    if isinstance(error, ray.exceptions.RayTaskError):
        cause: Any = getattr(error, "cause", None)
        if isinstance(cause, ModuleNotFoundError):
            return ClusterProblem(f"a node of the cluster cannot run mindgap: {cause}: install the same version there")
        if isinstance(cause, ray.exceptions.RayError):
            error = cause
    if isinstance(error, ray.exceptions.RayError) and not isinstance(error, ray.exceptions.RayTaskError):
        text = " ".join(str(error).split())[:300]
        return ClusterProblem(f"the cluster lost a task, {RETRIES + 1} times ({type(error).__name__}): {text}")
    return error


def unusable_node(node: ClusterNode, error: BaseException, otherwise: str) -> ClusterProblem:
    """Returns the error to raise for a node that cannot take part. `otherwise`: why, unless a module is missing."""
    text = " ".join(str(error).split())
    why = "it has another mindgap, or lacks what it needs" if "No module named" in text else otherwise
    return ClusterProblem(f"node {node.address} cannot take part: {why}: {text[-300:]}")


def _what_nodes_have(nodes: Sequence[ClusterNode]) -> str:
    listed: list[str] = []
    for node in nodes:
        names = [name for name in node.resources if ("/" in name or ":" in name) and not _is_ray_name(name)]
        listed.append(f"{node.address} has {', '.join(sorted(names)) or 'none'}")
    return "; ".join(listed) or "it has no node"


def _is_ray_name(name: str) -> bool:
    return name.startswith(("node:", "accelerator_type:"))


def _reach(address: str, given: str = "") -> None:
    """Raises `ClusterProblem` if nothing listens at an address: Ray itself would ask for a minute. `given`: what the
    user named, where Ray takes another."""
    if address == "auto":
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ClusterProblem(
            f"--ray {address or '(empty)'}: give HOST:PORT of a cluster's head, ray://HOST:PORT or auto"
        )
    try:
        with socket.create_connection(_host_and_port(address), _CONNECT_S):
            pass
    except OSError as error:
        there = f"at {address}, which Ray takes for it" if given else "there"
        raise ClusterProblem(f"--ray {given or address}: nobody answers {there} ({error.strerror or error})") from None
