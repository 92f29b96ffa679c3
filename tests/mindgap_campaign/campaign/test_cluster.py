"""The parts of a campaign on a cluster, without the processes of Ray; `test_ray.py` has those."""

from __future__ import annotations

import errno
import json
import pickle
import resource
import shutil
import socket
import sys
import tempfile
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kills import LEFT_OUT, SAME, contents, differences, written_twice
from small_source import Small, plan_text

from mindgap.graph import MindgapError
from mindgap.graph.compare.reason import Reason
from mindgap.judge.pipeline.outcome_rows import row_of
from mindgap.platforms.name import PlatformName, parse
from mindgap.results.rows import Row
from mindgap.results.store import TABLES, Store, StoreError
from mindgap.results.store.commits import PendingRows
from mindgap.results.store.writer import Writer
from mindgap.results.support_answers import SupportTable
from mindgap.run.local import fingerprint_of
from mindgap.run.outcome import Outcome
from mindgap_campaign.campaign.cases.case import Case, Shard
from mindgap_campaign.campaign.cluster import nodes as cluster_nodes
from mindgap_campaign.campaign.cluster.judged_block import as_ran, judge_block, outcomes_of as gathered_outcomes
from mindgap_campaign.campaign.cluster.messages import (
    BlockChoice,
    CasesRun,
    ClusterSetup,
    JudgedBlock,
    SessionTerms,
)
from mindgap_campaign.campaign.cluster.node import CampaignNode
from mindgap_campaign.campaign.plan import Plan, parse_plan
from mindgap_campaign.campaign.preparation import settled_state
from mindgap_campaign.campaign.schedule.case_runner import BudgetState
from mindgap_campaign.campaign.schedule.eligibility import Eligibility
from mindgap_campaign.campaign.schedule.selection import BlockSelector
from mindgap_campaign.campaign.session import RunOptions, begin
from mindgap_campaign.campaign.state.directory import create_directory, open_directory
from mindgap_campaign.campaign.variant_source_factory import VariantSourceFactory
from mindgap_campaign.cluster.connection import (
    ClusterNode,
    code_digest,
    connected,
    platforms_there,
    ray_resources,
    require_platforms,
    resource_of,
    watch_head,
)
from mindgap_campaign.cluster.messages import ClusterProblem, Failure, checked, pack, unpack

EXACT, SECOND, CRASHES = map(parse, ("toys:EXACT", "toys:EXACT@number=2", "toys:CRASHES"))
NOTHING_KNOWN = Eligibility(SupportTable({}, {}))


def planned(count: int, *platforms: str, **more: str) -> tuple[Plan, str]:
    named = {name: inside for name, _, inside in (platform.partition(" ") for platform in platforms)}
    text = plan_text(count, named, top='reference = "toys:EXACT"', **more)
    return parse_plan(text, "campaign.toml"), text


def setup_in(path: Path, plan: Plan, text: str, **changes: Any) -> ClusterSetup:
    """Begins a campaign's directory, and returns what its nodes get."""
    factory = Small(rare=False)
    path.mkdir()
    Store(path)
    source = factory.begin(plan, path)
    directory = create_directory(path, plan, text, Shard(), source.identity)
    files = {name: (path / name).read_bytes() for name in factory.files}
    setup = ClusterSetup(
        "s", plan, directory.run, Shard(), str(path), factory, files, source.identity, code_digest(), jobs=1
    )
    return replace(setup, **changes)


def outcomes_of(node: CampaignNode, plan: Plan, choice: BlockChoice) -> dict[tuple[PlatformName, int], Any]:
    """Runs a block's parts as the driver asks for them."""
    found: dict[tuple[PlatformName, int], Any] = {}
    orders = {**choice.orders, plan.reference: tuple(sorted({i for order in choice.orders.values() for i in order}))}
    for platform, order in orders.items():
        arguments = pack((platform, choice.number, choice.position, order, choice.budgets.get(platform)))
        answer = node.call("run_cases", arguments, ())
        assert isinstance(answer, tuple)
        run = checked(unpack(answer[1]))
        ran, outcomes = gathered_outcomes([answer[0]])
        assert ran == [run]
        found |= outcomes
    return found


@pytest.mark.nightly
def test_a_node_and_a_judged_block_write_what_one_machine_does(tmp_path: Path) -> None:
    plan, text = planned(12, "toys:EXACT@number=2", "toys:CRASHES variants = 6", limits="trace = false")
    begin(plan, text, tmp_path / "local", Small(rare=False), options=RunOptions(jobs=1))
    setup = setup_in(tmp_path / "cluster", plan, text)
    node = CampaignNode(pickle.loads(pickle.dumps(setup)), [EXACT, SECOND, CRASHES], 1)
    try:
        report = checked(node.look())
        prints = {name: fingerprint_of(about) for name, about in report.descriptions.items()}
        terms = SessionTerms(tuple(plan.platforms), prints, report.descriptions, NOTHING_KNOWN)
        node.begin(terms)
        outline = checked(node.outline(0))
        assert [case.data for case in outline.cases] == [b""] * 12
        selection = BlockSelector(plan, list(plan.platforms)).choose(0, outline.cases, support=outline)
        choice = BlockChoice(
            0, 0, {name: tuple(case.index for case in order) for name, order in selection.orders.items()},
            tuple(selection.features), selection.given, dict(selection.refused), {},
        )  # fmt: skip
        outcomes = outcomes_of(node, plan, choice)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        # No file may become larger than this, as on a disk with as much room.
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
        try:
            with pytest.raises(
                StoreError, match=r"00000000.rows cannot be written.*what was published before is intact"
            ):
                judge_block(setup, terms, [], choice, node._block(0), outcomes)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert not list((tmp_path / "cluster").rglob("*.rows")) and not list((tmp_path / "cluster").rglob("*.parquet"))
        assert not list((tmp_path / "cluster").rglob(".tmp-*"))
        judged = judge_block(setup, terms, [], choice, node._block(0), outcomes)
        assert judged.mine and judged.cases == 12 and sum(judged.words.values()) == 18
        # Another driver, or the same task again: what is committed counts.
        again = judge_block(setup, terms, [], choice, node._block(0), {})
        assert again == JudgedBlock(0, judged.found, 12, mine=False)
        shutil.copytree(tmp_path / "cluster", tmp_path / "damaged")
        shutil.rmtree(tmp_path / "damaged/tables/blocks")
        with pytest.raises(StoreError, match=r"block 0 is committed, and its rows are gone: remove .*/00000000.rows"):
            judge_block(replace(setup, store=str(tmp_path / "damaged")), terms, [], choice, [], {})
    finally:
        node.close()
    mine, local = contents(tmp_path / "cluster"), contents(tmp_path / "local")
    for of_the_driver in ("runs", "platforms"):
        del mine[of_the_driver], local[of_the_driver]
    assert differences(mine, local) == [] and local["verdicts"]
    assert {*SAME, *LEFT_OUT} == {*TABLES} and not {*SAME} & {*LEFT_OUT}
    assert written_twice(tmp_path / "cluster") == []
    assert {row["status"] for row in mine["verdicts"]} == {"ok", "crash"}
    segments = {path.parent.name for path in (tmp_path / "cluster/tables").rglob("*.parquet")}
    assert len(list((tmp_path / "cluster/tables").rglob("*.parquet"))) == len(segments), "one segment for each table"
    # What a view does not show.
    store = Store(tmp_path / "cluster")
    (again, *_) = store.rows("SELECT * EXCLUDE (_written, _writer, _seq) FROM verdicts")
    store.append("verdicts", again)
    assert store.rows("SELECT count(*) AS n FROM verdicts") == [{"n": 18}]
    (line,) = written_twice(tmp_path / "cluster")
    assert line.startswith("verdicts: ") and line.endswith(" was written 2 times")


def test_a_budget_is_spent_on_the_node_and_judged_alike(tmp_path: Path) -> None:
    plan, text = planned(12, "toys:SLOW cpu_minutes = 0.0001, batch = 4", limits="trace = false")
    setup = setup_in(tmp_path / "cluster", plan, text)
    slow = parse("toys:SLOW")
    node = CampaignNode(setup, [EXACT, slow], 1)
    try:
        report = checked(node.look())
        prints = {name: fingerprint_of(about) for name, about in report.descriptions.items()}
        terms = SessionTerms(tuple(plan.platforms), prints, report.descriptions, NOTHING_KNOWN)
        node.begin(terms)
        choice = BlockChoice(0, 0, {slow: tuple(range(12))}, (), {}, {}, {slow: BudgetState(0.006, 1, 0.0, 4)})
        outcomes = outcomes_of(node, plan, choice)
        # The first batch takes more than the budget, which is 6 ms.
        assert sum(platform == slow for platform, _ in outcomes) == 4
        judged = judge_block(setup, terms, [], choice, node._block(0), outcomes)
        assert sum(judged.words.values()) == 4
        (row,) = Store(tmp_path / "cluster").rows("SELECT left_out FROM blocks")
        assert row["left_out"] == {"toys:SLOW": 8}
    finally:
        node.close()


class OtherJudge:
    """A judge whose row of the first case is lost, or was cut short by a signal; counts how often it is closed."""

    def __init__(self, broken: str = "") -> None:
        self._broken, self.closed = broken, 0

    def row(self, case: Case, outcome: Outcome, reference: Outcome) -> Row:
        if not self._broken:
            raise ClusterProblem("its job is lost")
        killed = (Reason("worker_killed", stage="judging"),)
        return replace(row_of(case.name, outcome), broken=self._broken, reasons=killed)

    def close(self) -> None:
        self.closed += 1


def test_a_lost_job_of_one_block_leaves_the_judges_of_the_node_to_the_others(tmp_path: Path) -> None:
    plan, text = planned(12, "toys:WRONG", limits="trace = false")
    setup = setup_in(tmp_path / "cluster", plan, text)
    wrong = parse("toys:WRONG")
    node = CampaignNode(setup, [EXACT, wrong], 1)
    try:
        report = checked(node.look())
        prints = {name: fingerprint_of(about) for name, about in report.descriptions.items()}
        terms = SessionTerms(tuple(plan.platforms), prints, report.descriptions, NOTHING_KNOWN)
        node.begin(terms)
        choice = BlockChoice(0, 0, {wrong: tuple(range(12))}, (), {}, {}, {})
        outcomes = outcomes_of(node, plan, choice)
        lost: Any = OtherJudge()
        with pytest.raises(ClusterProblem, match="its job is lost"):
            judge_block(setup, terms, [lost], choice, node._block(0), outcomes)
        assert lost.closed == 0
        # A judge that is killed with its node: the node waits for its end, and commits nothing.
        killed: Any = OtherJudge("mindgap failed, twice: the process that judges was killed by SIGKILL while judging")
        node._ending.set()
        with pytest.raises(ClusterProblem, match="the session has ended"):
            judge_block(setup, terms, [killed], choice, node._block(0), outcomes, node._check_judges)
        told: list[bool] = []
        judge_block(setup, terms, [killed], choice, node._block(0), outcomes, told.append)
        assert told == [True]
    finally:
        node.close()


def test_a_part_that_ran_again_is_judged_as_it_ran() -> None:
    slow = parse("toys:SLOW")
    cases = [Case(index, f"v{index}", b"", "", "", (f"only {index}", "in all"), 1, "") for index in range(3)]
    given = {"toys:SLOW": ["only 0", "in all", "only 1", "only 2"]}
    choice = BlockChoice(0, 0, {slow: (0, 1, 2)}, (), given, {}, {slow: BudgetState(1.0, 1)})
    again = CasesRun(slow, (0, 2), 1.0)
    ran, outcomes = gathered_outcomes([pack((again, ["first", "last"]))])
    assert outcomes == {(slow, 0): "first", (slow, 2): "last"}
    assert as_ran(choice, cases, ran).given == {"toys:SLOW": ["only 0", "in all", "only 2"]}
    with pytest.raises(MindgapError, match="another than when the session began"):
        gathered_outcomes([pack(Failure("it is another than when the session began"))])


def test_a_node_without_room_is_refused_in_a_line_and_may_be_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, text = planned(3, "toys:EXACT")
    node = CampaignNode(setup_in(tmp_path / "cluster", plan, text), [], 1)

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert node.look() == Failure(f"node {node.host}: No space left on device (/tmp/x)", lost=True)
    node.close()


def test_a_node_that_cannot_join_is_dropped_and_added_again(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[str] = []
    exceptions = SimpleNamespace(RayError=type("RayError", (Exception,), {}))
    full = Failure("node b: No space left on device", lost=True)
    ray: Any = SimpleNamespace(get=lambda reference: full, kill=killed.append, exceptions=exceptions)
    nodes = cluster_nodes.ClusterNodes(ray, None, "head:1", "s", ())
    member = cluster_nodes._Member(ClusterNode("b", "10.0.0.2", {}), "actor", None, "look")
    nodes._members["b"] = member
    nodes._welcome(member)
    assert killed == ["actor"] and nodes._members == {}
    monkeypatch.setattr(cluster_nodes, "WAIT_S", 0.0)
    with pytest.raises(ClusterProblem, match="node b: No space left"):
        nodes._welcome(replace(member, look="look"))


def test_a_node_that_would_run_something_else_is_refused(tmp_path: Path) -> None:
    plan, text = planned(3, "toys:EXACT")
    setup = setup_in(tmp_path / "cluster", plan, text)

    def refused(**changes: Any) -> str:
        node = CampaignNode(replace(setup, **changes), [], 1)
        try:
            answer = node.look()
        finally:
            node.close()
        assert isinstance(answer, Failure) and not answer.lost
        return answer.message

    assert "has another mindgap than the driver" in refused(code="0" * 64)
    assert "makes its cases of something else than the driver" in refused(identity="0" * 64)
    elsewhere = refused(store=str(tmp_path / "only-there"))
    assert "cannot use" in elsewhere and "all nodes write there" in elsewhere and "\n" not in elsewhere
    (tmp_path / "file").write_text("")
    assert "cannot use" in refused(store=str(tmp_path / "file"))


def test_what_a_node_is_started_with() -> None:
    assert resource_of(parse("onnxruntime/cpu@threads=1")) == "onnxruntime/cpu"
    assert resource_of(SECOND) == "toys:EXACT"
    assert resource_of(parse("onnxruntime/cpu@env=old,threads=1")) == "onnxruntime/cpu@env=old"
    names = [parse("cuda/eager"), parse("cpu/eager@isa=avx2"), parse("cpu/eager")]
    assert json.loads(ray_resources(names)) == {"cuda/eager": 1, "cpu/eager": 1}


def test_a_cluster_that_lacks_a_platform_is_told_what_its_nodes_have() -> None:
    nodes = [
        ClusterNode("1", "10.0.0.1", {"CPU": 4.0, "node:10.0.0.1": 1.0, "cpu/eager": 1.0}),
        ClusterNode("2", "10.0.0.2", {"CPU": 4.0, "memory": 5.0}),
    ]
    require_platforms(nodes, [parse("cpu/eager@isa=avx2")], "head:6379")
    with pytest.raises(ClusterProblem) as told:
        require_platforms(nodes, [parse("cpu/eager"), parse("cuda/eager")], "head:6379")
    assert str(told.value) == (
        "no node of head:6379 has cuda/eager; 10.0.0.1 has cpu/eager; 10.0.0.2 has none: "
        "start a node there with ray start --resources='{\"cuda/eager\": 1}'"
    )
    # With `skip_unavailable` some may be left out, not all: nothing would run, and the campaign would be over.
    wanted = [parse("cuda/eager"), parse("cpu/eager")]
    assert platforms_there(nodes, wanted, "head:6379") == [parse("cpu/eager")]
    with pytest.raises(
        ClusterProblem, match=r"no node of head:6379 has any of the plan's platforms \(cuda/eager\): 10"
    ):
        platforms_there(nodes, wanted[:1], "head:6379")
    with pytest.raises(ClusterProblem, match="no node of head:6379 has a CPU for judging"):
        require_platforms([ClusterNode("1", "10.0.0.1", {"cpu/eager": 1.0})], [parse("cpu/eager")], "head:6379")


@pytest.mark.parametrize("address", ["nowhere", "host:port", "ray://", "127.0.0.1:0", "local", "127.0.0.1:99999"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ClusterProblem, match=f"--ray {address}: give HOST:PORT"), connected(address):
        pass


def test_an_address_where_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = rf"--ray 127.0.0.1:{port}: nobody answers there \(Connection refused\)"
    with pytest.raises(ClusterProblem, match=said), connected(f"127.0.0.1:{port}"):
        pass


def test_a_head_that_is_lost_ends_the_driver_with_status_2(capfd: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        head = f"127.0.0.1:{server.getsockname()[1]}"
        watch = threading.Thread(target=watch_head, args=(head, over, 0.3, ended.append))
        watch.start()
        watch.join(0.6)
        assert watch.is_alive() and ended == [], "it answers"
    watch.join(10)
    assert ended == [2]
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"mindgap: the head of the cluster, {head}, is lost (Connection refused): ")
    over.set()
    watch_head(head, over, 0.3, ended.append)
    assert ended == [2], "nothing ends a session that is over"


def test_without_ray_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MindgapError, match=r"--ray needs Ray \(.*\): pip install 'mindgap\[ray\]'"), connected("auto"):
        pass


def test_a_variant_source_reaches_a_node_without_its_listeners(tmp_path: Path) -> None:
    factory = VariantSourceFactory(3, notify=lambda line: None)
    there = pickle.loads(pickle.dumps(factory))
    assert isinstance(there, VariantSourceFactory) and there.jobs is None and there.files == factory.files


def test_a_block_that_was_committed_and_not_published_is_done_in_the_next_session(tmp_path: Path) -> None:
    plan, text = planned(12, "toys:EXACT@number=2")
    setup_in(tmp_path / "out", plan, text)
    directory = open_directory(tmp_path / "out")
    store, rows = directory.store, PendingRows(directory.store)
    writer = Writer(rows, age_s=1e6)
    now = datetime.now(UTC)
    # A session on one machine began the block, and was killed.
    store.append("blocks", {"run": directory.run, "block": 0, "shard": "0/1", "cases": 0})
    writer.append("runs", {"run": directory.run, "created": now, "settings": json.dumps({"platforms": []})})
    writer.append("blocks", {"run": directory.run, "block": 0, "shard": "0/1", "cases": 0, "seconds": 1.0})
    writer.close()
    file = tmp_path / "out/commits" / directory.run / "00000000.rows"
    file.parent.mkdir(parents=True)
    file.write_bytes(rows.to_bytes())
    assert store.rows("SELECT seconds FROM blocks") == [{"seconds": None}]
    assert settled_state(store, directory).done == {0}
    assert file.read_bytes() == b"" and store.rows("SELECT block FROM blocks") == [{"block": 0}]
