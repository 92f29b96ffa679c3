"""Campaigns on a Ray cluster of unlike nodes in this machine: what is lost, what joins, what is refused."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from kills import contents, differences, written_twice
from ray_cluster import add_node, cluster_of
from small_source import FirstCases, Small, plan_text

from mindgap.graph import MindgapError
from mindgap_campaign.campaign.cases.case import BLOCK
from mindgap_campaign.campaign.cluster import nodes as cluster_nodes
from mindgap_campaign.campaign.cluster_session import RayCluster
from mindgap_campaign.campaign.plan import Plan, parse_plan
from mindgap_campaign.campaign.session import RunOptions, begin, resume_campaign
from mindgap_campaign.campaign.state.status import CampaignStatus
from mindgap_campaign.cluster.messages import ClusterProblem

#: Each starts a cluster: tens of seconds on two cores. Ray is imported once `cluster_of` has set its variables.
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
]
PLATFORMS = ("toys:WRONG", "toys:CRASHES", "toys:FAILS")
SOURCE = FirstCases(Small(), 12, 12)


def ports_beyond_loopback() -> list[str]:
    """Addresses other than loopback on which a process that this one started listens."""
    mine = {process.pid for process in psutil.Process().children(recursive=True)}
    listening = {c.laddr.ip for c in psutil.net_connections("tcp") if c.pid in mine and c.status == psutil.CONN_LISTEN}
    assert listening
    return sorted(listening - {"127.0.0.1", "::ffff:127.0.0.1"})


def planned(blocks: int, *platforms: str, **more: str) -> tuple[Plan, str]:
    text = plan_text(blocks * BLOCK, dict.fromkeys(platforms, ""), top='reference = "toys:EXACT"', **more)
    return parse_plan(text, "campaign.toml"), text


def on_cluster(cluster: Any, plan: tuple[Plan, str], out: Path, **options: Any) -> CampaignStatus:
    return begin(*plan, out, SOURCE, options=RunOptions(**options), place=RayCluster(cluster.address))


def locally(plan: tuple[Plan, str], out: Path) -> dict[str, Any]:
    begin(*plan, out, SOURCE, options=RunOptions(jobs=2))
    return contents(out)


def when_committed(out: Path, count: int, then: Callable[[], object]) -> threading.Thread:
    """Calls `then` once so many blocks are committed."""

    def wait() -> None:
        until = time.monotonic() + 600
        while len(list(out.glob("commits/*/*.rows"))) < count and time.monotonic() < until:
            time.sleep(0.05)
        then()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


def resources(*names: str) -> Mapping[str, float]:
    return dict.fromkeys(names, 1.0)


def test_a_node_that_is_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    plan = planned(6, *PLATFORMS)
    out = tmp_path / "cluster"
    unlike = [
        resources("toys:EXACT", "toys:WRONG"),
        resources("toys:WRONG", "toys:CRASHES", "toys:FAILS"),
        resources("toys:EXACT", "toys:CRASHES", "toys:FAILS"),
    ]
    with cluster_of(unlike) as cluster:
        victim = sorted(cluster.worker_nodes, key=lambda node: node.node_id)[0]
        killer = when_committed(out, 1, lambda: cluster.remove_node(victim, allow_graceful=False))
        result = on_cluster(cluster, plan, out)
        killer.join()
        assert ports_beyond_loopback() == []
    assert result.state == "finished"
    undisturbed = locally(plan, tmp_path / "local")
    assert differences(contents(out), undisturbed) == [] and written_twice(out) == []
    crashes = [row for row in undisturbed["verdicts"] if row["platform"] == "toys:CRASHES" and row["status"] == "crash"]
    assert len(crashes) == 24, "a platform's crash is data, not a lost node"
    assert result.cpu.purposes["judging"] > 0 and result.cpu.purposes["running"] > 0


def test_two_drivers_on_one_store_never_write_a_block_twice(tmp_path: Path) -> None:
    plan = planned(4, "toys:WRONG")
    shared = str(tmp_path / "shared")
    with cluster_of([resources("toys:EXACT", "toys:WRONG")]) as cluster:
        text = (
            "import sys; from pathlib import Path; from small_source import *; import test_ray as t\n"
            "plan = t.planned(4, 'toys:WRONG'); out, address, url = sys.argv[1:]\n"
            "options = t.RunOptions(store_url=url)\n"
            "t.begin(*plan, Path(out), t.SOURCE, options=options, place=t.RayCluster(address))"
        )
        drivers = [
            subprocess.Popen(
                [sys.executable, "-c", text, str(tmp_path / f"d{number}"), cluster.address, shared],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=subprocess.PIPE,
            )
            for number in range(2)
        ]  # fmt: skip
        said = [driver.communicate()[1].decode() for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], said
    undisturbed = locally(plan, tmp_path / "local")
    assert differences(contents(Path(shared)), undisturbed) == []
    assert written_twice(Path(shared)) == [] and len(undisturbed["verdicts"]) == 4 * 12


def test_a_platform_whose_last_node_is_gone_ends_the_session_and_a_resume_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_nodes, "WAIT_S", 3.0)
    plan, out = planned(6, "toys:WRONG"), tmp_path / "cluster"
    with cluster_of([resources("toys:EXACT"), resources("toys:WRONG")]) as cluster:
        (victim,) = cluster.worker_nodes
        killer = when_committed(out, 1, lambda: cluster.remove_node(victim, allow_graceful=False))
        with pytest.raises(ClusterProblem, match=r"no node has had toys:WRONG for 3 s: start one again, and go on"):
            on_cluster(cluster, plan, out)
        killer.join()
        kept = {path.name for path in out.glob("commits/*/*.rows")}
        assert kept
        add_node(cluster, resources("toys:WRONG"))
        result = resume_campaign(out, SOURCE, place=RayCluster(cluster.address))
    assert result.state == "finished"
    assert differences(contents(out), locally(plan, tmp_path / "local")) == []


def test_a_cluster_that_lacks_a_platform_or_has_two_kinds_of_it_is_refused(tmp_path: Path) -> None:
    plan = planned(1, "toys:WRONG")
    with cluster_of([resources("toys:EXACT", "toys:WRONG")]) as cluster:
        with pytest.raises(ClusterProblem, match=r"no node of .* has toys:SLOW; 127.0.0.1 has toys:EXACT, toys:WRONG"):
            on_cluster(cluster, planned(1, "toys:SLOW"), tmp_path / "lacking")
        assert not (tmp_path / "lacking").exists()
        different = cluster.add_node(
            num_cpus=1, resources=dict(resources("toys:WRONG")), node_ip_address="127.0.0.1",
            object_store_memory=80 << 20, env_vars={"TOY_VERSION": "2"},
        )  # fmt: skip
        with pytest.raises(
            MindgapError, match=rf"toys:WRONG is another on node {socket.gethostname()} .*version differ"
        ):
            on_cluster(cluster, plan, tmp_path / "differs")
        cluster.remove_node(different)
