"""Client of one Python worker process: starts it on demand, sends requests, drops it after a failure.

`WorkerSupervisor` adds what platforms need: retries, back-off, descriptions, graphs that the worker keeps.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from mindgap.platforms.environments import Environment
from mindgap.run import forking
from mindgap.run.channel import Array, Frame
from mindgap.run.process import RequestLimits, WorkerFailed, WorkerProcess, spawned

#: Starts a process: (command, environment) -> process. Raises OSError.
Launch = Callable[[Sequence[str], Mapping[str, str]], WorkerProcess]


class WorkerClient:
    """One process of `python -m MODULE`, replaced by the next request after it died. Not thread-safe."""

    def __init__(
        self, module: str, options: Mapping[str, object], environment: Mapping[str, str], start: RequestLimits,
        launch: Launch = spawned, where: Environment | None = None, *, forks: bool = False,
    ) -> None:  # fmt: skip
        """`options`: command-line options without the dashes, beside `--parent`. `start`: limits until it is ready.

        `where`: the environment in which it runs, None for mindgap's own. `forks`: it may come from the fork server.
        """
        self._module, self._forks = module, forks and where is None
        if self._forks:
            forking.begin()
        command = [sys.executable, "-P", "-m", module] if where is None else where.command(module)
        self._options = ["--parent", str(os.getpid())]
        for name, value in options.items():
            self._options += [f"--{name}", str(value)]
        self._command = [*command, *self._options]
        self._environment, self._start, self._launch = environment, start, launch
        #: The process that runs now.
        self.process: WorkerProcess | None = None
        #: What the latest process sent when it was ready.
        self.ready: Frame | None = None

    def started(self) -> WorkerProcess:
        """Returns the running process, or starts one. Raises `WorkerFailed`, and OSError if it cannot be started."""
        if self.process is not None and self.process.alive:
            return self.process
        self.close()
        forked = None
        if self._forks:
            forked = forking.forked(self._module, self._options, self._environment, self._start.deadline_s)
        self.process = WorkerProcess(forked) if forked else self._launch(self._command, self._environment)
        self.ready = self.process.listen(self._start)
        return self.process

    def ask(self, header: Mapping[str, object], arrays: Sequence[Array], limits: RequestLimits) -> Frame:
        """Sends a request and returns the answer. Raises `WorkerFailed`; the next request starts a new process."""
        try:
            worker = self.started()
            worker.jobs += 1
            worker.stage = str(header["kind"])
            return worker.ask(header, arrays, limits)
        except WorkerFailed:
            self.close()
            raise

    def close(self) -> None:
        """Stops the process. A later request starts another."""
        worker, self.process = self.process, None
        if worker is not None:
            worker.stop()
