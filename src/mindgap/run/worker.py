"""Runs jobs on one platform in a worker process: the service of `mindgap.run.server` for platforms."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from mindgap.graph import Graph, MindgapError, TensorStore, decode, default_tensor_store, stored_keys
from mindgap.graph.cache import Cache
from mindgap.graph.tensor_cache import limit_bytes, trim
from mindgap.platforms.environment_process import backend_at, described, probed
from mindgap.platforms.name import PlatformName, parse
from mindgap.platforms.protocol import EXECUTION, Platform
from mindgap.platforms.registry import find
from mindgap.run.batch_loading import prepare
from mindgap.run.channel import Frame
from mindgap.run.identity import remember
from mindgap.run.local import Caches, fingerprint_of, run_job
from mindgap.run.message import graph_bytes, outcome_frame, read_job, sent_graphs
from mindgap.run.outcome import Job
from mindgap.run.server import Answer, Channel, Service
from mindgap.run.system import own_bytes


def platform_service(
    channel: Channel, platform: str, tensors: str, recycle: int | None = None, backend: str | None = None,
    environment: str = "", layered: bool = False, host: str = "",
) -> Service:  # fmt: skip
    """Opens a platform (`cpu/eager@isa=avx2`) and runs jobs on it.

    `tensors`: the directory of stored tensors. `recycle`: resident bytes after a job at which caches are emptied.
    `backend`: the backend's object, `package.module:attribute`, in another environment, which is called `environment`;
    `layered`: what that lacks comes from mindgap's. `host`: the name of the host that this machine is; `tensors` is
    empty then: its store keeps what is sent.
    """
    name = parse(platform)
    backend_class, options = find(name) if backend is None else (backend_at(backend), name.backend_options)
    if host:
        # Those that name files of this machine.
        os.environ.update(backend_class.environment(options))
    availability = probed(backend_class, environment, layered)
    if not availability.available:
        raise MindgapError(f"platform {platform} is not available: {availability.reason}")
    opened = backend_class.open(options)
    description: dict[str, Any] = dict(opened.describe()) | ({} if backend is None else described(host))
    # Whatever a platform puts in, a number of numpy's for one, what travels is JSON.
    description = json.loads(json.dumps(description, default=str))
    if EXECUTION in description:
        from mindgap.platforms.simulated_arithmetic import described_arithmetic

        description |= described_arithmetic(description, environment)
    store = _store_of_host() if host else TensorStore(tensors)
    if host and recycle is not None:
        # What the other side allows is of its memory.
        recycle = min(recycle, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4)
    runner = _JobRunner(opened, name, store, channel, fingerprint_of(description), recycle, asks=bool(host))
    return Service(
        {"job": runner.run, "prepare": runner.prepare, "tensor": runner.keep_tensor},
        {"description": description, "fingerprint": runner.fingerprint},
    )


def _restored() -> contextlib.AbstractContextManager[list[str]]:
    """Restores PyTorch's state after a job, where the platform has imported it. Its random numbers go on: an operator
    that draws some would give the same in each run."""
    if "torch" not in sys.modules:
        return contextlib.nullcontext([])
    from mindgap.aten.torch_private.process_state import restored

    return restored(generators=False)


def _store_of_host() -> TensorStore:
    """The store of this machine's user. A worker's process ends without ceremony, so it is trimmed here."""
    store = default_tensor_store()
    with contextlib.suppress(OSError):
        trim(store.path, limit_bytes())
    return store


class _JobRunner:
    """Runs jobs; keeps graphs and caches between them."""

    def __init__(
        self, platform: Platform, name: PlatformName, tensors: TensorStore, channel: Channel, fingerprint: str,
        recycle: int | None, *, asks: bool,
    ) -> None:  # fmt: skip
        """`asks`: for the tensors of a graph that the store lacks."""
        self._asks = asks
        self._platform, self._name, self._tensors = platform, name, tensors
        self._channel, self.fingerprint, self._recycle = channel, fingerprint, recycle
        self._caches = Caches()
        self._graphs: Cache[str, Graph] = Cache(256, 1 << 27)

    def run(self, frame: Frame) -> Answer:
        """Runs a job. Asks for the graph if it was forgotten. Raises `MindgapError` for bad input."""
        graph = self._graph(frame)
        if graph is None:
            return {"kind": "need"}, ()
        if lacking := self._lacking([graph]):
            return {"kind": "need", "tensors": lacking}, ()
        with _restored() as left:
            outcome = run_job(
                self._platform,
                read_job(frame, self._name, graph),
                tensors=self._tensors,
                caches=self._caches,
                fingerprint=self.fingerprint,
                on_stage=lambda stage: self._channel.send({"stage": stage}),
            )
        rss = own_bytes("self")
        if self._recycle is not None and rss > self._recycle:
            self._slim()
            rss = own_bytes("self")
        header, arrays = outcome_frame(outcome, rss)
        return {**header, "spoiled": left}, arrays

    def prepare(self, frame: Frame) -> Answer:
        """Loads graphs together. Raises `MindgapError` for bad input."""
        jobs = [Job(self._name, self._keep(digest, data), inputs=inputs) for digest, data, inputs in sent_graphs(frame)]
        if lacking := self._lacking([job.graph for job in jobs]):
            return {"kind": "need", "tensors": lacking}, ()
        with _restored() as left:
            held, message = prepare(self._platform, jobs, self._tensors, self._caches)
        return {"kind": "prepared", "held": held, "message": message, "spoiled": left}, ()

    def keep_tensor(self, frame: Frame) -> Answer:
        """Keeps the file of a tensor. Raises `MindgapError` for one that is damaged."""
        try:
            self._tensors.adopt(frame.header["key"], lambda file: file.write(frame.arrays[0].data))
        except OSError as error:
            where = f"tensors cannot be written to {self._tensors.path}: {error.strerror or error}"
            return {"kind": "unable", "message": f"{where}; MINDGAP_HOME there names another directory"}, ()
        return {"kind": "kept"}, ()

    def _lacking(self, graphs: Sequence[Graph]) -> list[str]:
        """The keys of tensors that the graphs need and the store lacks, where it asks for them."""
        keys = dict.fromkeys(key for graph in graphs for key in stored_keys(graph)) if self._asks else ()
        return [key for key in keys if key not in self._tensors]

    def _graph(self, frame: Frame) -> Graph | None:
        digest: str = frame.header["graph"]
        data = graph_bytes(frame)
        return self._graphs.get(digest) if data is None else self._keep(digest, data)

    def _keep(self, digest: str, data: bytes) -> Graph:
        """Decodes a graph and keeps it under its digest. Raises `GraphError`."""
        graph = decode(data)
        # Frames have a checksum and decoding checks every rule, so the parent's word is as good as our own.
        remember(graph, digest)
        # A decoded graph takes some ten times its compressed bytes.
        self._graphs.put(digest, graph, 10 * len(data))
        return graph

    def _slim(self) -> None:
        """Frees caches and unused memory, so that what remains is a leak."""
        self._caches.clear()
        self._graphs.clear()
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
