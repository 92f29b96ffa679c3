"""A Ray cluster of several nodes in this machine, on the loopback interface only."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

#: Without the first, Ray's ports listen on all interfaces. The others give a machine with other work more time.
VARIABLES = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_NUM_REDIS_GET_RETRIES": "120",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_failure_threshold": "10",
}
_STORE_BYTES = 80 << 20


@contextmanager
def cluster_of(nodes: Sequence[Mapping[str, float]], cpus: int = 1) -> Generator[Any]:
    """Starts nodes with these resources, the first as head, and yields the cluster. `os.environ` reaches them."""
    os.environ.update(VARIABLES)
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        for resources in nodes:
            add_node(cluster, resources, cpus)
        yield cluster
    finally:
        cluster.shutdown()


def add_node(cluster: Any, resources: Mapping[str, float], cpus: int = 1) -> Any:
    """Starts one more node."""
    head = not cluster.head_node
    options = {"include_dashboard": False} if head else {}
    return cluster.add_node(
        num_cpus=cpus,
        resources=dict(resources),
        object_store_memory=_STORE_BYTES,
        node_ip_address="127.0.0.1",
        **options,
    )
