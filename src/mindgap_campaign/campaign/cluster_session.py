"""Runs a session of a campaign on a Ray cluster, in place of this machine."""

from __future__ import annotations

import os
import secrets
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from mindgap.graph import MindgapError
from mindgap.results.recording import Recording
from mindgap.results.store import Store
from mindgap.run.local import fingerprint_of
from mindgap_campaign.campaign.cluster.cluster_driver import ClusterContext, ClusterDriver
from mindgap_campaign.campaign.cluster.messages import ClusterSetup, SessionTerms
from mindgap_campaign.campaign.cluster.nodes import ClusterNodes
from mindgap_campaign.campaign.cluster.tasks import ClusterPool
from mindgap_campaign.campaign.plan import Plan
from mindgap_campaign.campaign.preparation import (
    RunOptions,
    begin_record,
    budgets_of,
    check_changes,
    progress_of,
    selector_of,
    settled_state,
    support_of,
    writer_of,
)
from mindgap_campaign.campaign.session import Session
from mindgap_campaign.cluster.connection import (
    code_digest,
    connected,
    living_nodes,
    platforms_there,
    require_platforms,
)


@dataclass
class RayCluster:
    """The nodes of a Ray cluster, as the place of a session. `address`: as `connected` takes it."""

    address: str
    _ray: Any = field(default=None, repr=False)

    @contextmanager
    def reached(self, plan: Plan, options: RunOptions, *, fresh: bool) -> Generator[None]:
        """Connects to the cluster. Raises `ClusterProblem` if no cluster answers, or it lacks a platform of the
        plan."""
        with connected(self.address) as self._ray:
            needed = [plan.reference] if plan.skip_unavailable else [plan.reference, *plan.platforms]
            nodes = living_nodes(self._ray)
            require_platforms(nodes, needed, self.address)
            platforms_there(nodes, plan.platforms, self.address)
            yield

    def run(self, session: Session) -> str:
        """Runs the unfinished blocks. Returns why it stopped early; empty if everything ran."""
        return _run(session, self._ray, self.address)


def _run(session: Session, ray: Any, address: str) -> str:
    started = perf_counter()
    directory, options, expenses = session.directory, session.options, session.expenses
    plan, store, steps = directory.plan, directory.store, options.steps
    steps.step("reading what has run")
    store.check_writable()
    resume_state = settled_state(store, directory)
    if resume_state.lacking:
        added = ", ".join(directory.added)
        raise MindgapError(f"{directory.path}: {added} were added, which runs on one machine: resume without --ray")
    there = living_nodes(ray)
    platforms = platforms_there(there, plan.platforms, address)
    for name in plan.platforms:
        if name not in platforms:
            options.notify(f"LEFT OUT, no node has it: {name}")
    names = tuple(dict.fromkeys([plan.reference, *platforms]))
    setup = _cluster_setup(session, store)
    with ExitStack() as stack:
        steps.step(f"starting the workers of {', '.join(names)} on {len(there)} nodes")
        nodes = ClusterNodes(ray, ray.put(setup), address, setup.session, names)
        stack.callback(nodes.close)
        facts, descriptions = nodes.join()
        pool = ClusterPool(setup.session, descriptions)
        check_changes(store, directory, pool, names, options)
        fresh = platforms if resume_state.created is None else []
        support = support_of(directory, session.case_source, pool, platforms, options, fresh)
        prints = {name: fingerprint_of(about) for name, about in descriptions.items()}
        nodes.begin(SessionTerms(tuple(platforms), prints, descriptions, support))
        writer = stack.enter_context(writer_of(store))
        record = Recording(store, writer, plan.run_settings, pool.describe, "campaign", directory.run)
        begin_record(record, directory, resume_state, list(facts.values()), platforms)
        for name in names:
            record.described(name, prints[name])
        # The driver gives it what platforms refuse with each block.
        selector = selector_of(plan, platforms, resume_state)
        progress = progress_of(directory, resume_state)
        budgets = {
            name: replace(budget.now, batch=plan.platforms[name].batch)
            for name, budget in budgets_of(directory, platforms, resume_state).items()
        }
        context = ClusterContext(directory, nodes, selector, resume_state, progress, budgets)
        steps.run(progress)
        driver = ClusterDriver(context)
        driver.run()
        record.expenses(expenses.rows(directory.run, pool.cpu) + nodes.expenses())
        record.finish(resume_state.seconds + perf_counter() - started)
        steps.step("writing the store and ending the workers")
    store.compact()
    return driver.stopped


def _cluster_setup(session: Session, store: Store) -> ClusterSetup:
    directory = session.directory
    files = {name: (directory.path / name).read_bytes() for name in session.factory.files}
    place = directory.store_url or os.path.abspath(directory.path)
    return ClusterSetup(
        secrets.token_hex(6), directory.plan, directory.run, directory.shard, place, session.factory, files,
        directory.identity, code_digest(), store.last_stamp(), session.options.jobs,
    )  # fmt: skip
