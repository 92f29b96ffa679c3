"""Platforms that misbehave, reached by workers as `misbehaving:BACKEND` with this folder on PYTHONPATH.

The operator of a graph's last node says what to do: `zoo.segfault.default` and so on. numpy only, so
that a worker starts in a fraction of a second.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mindgap.graph import Graph, Input, Node, Ref, TensorSpec, Uniform
from mindgap.graph.compare.digest import digest_bytes
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.protocol import (
    Array,
    Availability,
    CompileFailure,
    Fallback,
    NotOnThisMachine,
    PlatformError,
    Unsupported,
    ValueDigest,
)

HELD: list[bytearray] = []
HELD_MODES: list[Any] = []
POISONED: list[bool] = []
DRAWN: list[Array] = []
KEPT = np.zeros(4, np.float32)


def graph(what: str, seed: int = 0, size: int = 4, dtype: str = "float32", outputs: int = 1) -> Graph:
    """x -> zoo.WHAT(x); the seed makes graphs differ."""
    spec = TensorSpec.contiguous(dtype, (size,))
    node = Node(f"zoo.{what}.default", (Ref(0),), (), (spec,))
    return Graph((Input(spec, Uniform(seed)),), (node,), (1,) * outputs)


class Run:
    def __init__(self, what: str) -> None:
        self.what = what
        self.count = 0
        self.facts: Mapping[str, Any] = {}

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        self.count += 1
        if POISONED:
            ctypes.string_at(0)
        action = getattr(self, self.what, None)
        found = None if action is None else action(inputs[0])
        return [inputs[0] + 1] if found is None else found

    def trace(self, inputs: Sequence[Array], numbers: Collection[int] | None = None) -> list[Array | None]:
        return [inputs[0] + 1 if numbers is None or 1 in numbers else None]

    def digest_values(self, inputs: Sequence[Array]) -> tuple[list[Array], list[ValueDigest]]:
        return self(inputs), [digest_bytes(inputs[0] + 1)]

    def segfault(self, x: Array) -> None:
        ctypes.string_at(0)

    def take_down(self, x: Array) -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(20)

    def exit(self, x: Array) -> None:
        os._exit(3)

    def burn(self, x: Array) -> None:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass

    def burn_on(self, x: Array) -> None:
        while True:
            pass

    def burn_and_exit(self, x: Array) -> None:
        self.burn(x)
        os._exit(3)

    def burn_in_a_child(self, x: Array) -> None:
        code = "import time\nwhile time.process_time() < 0.1: pass"
        subprocess.run([sys.executable, "-S", "-c", code], check=True)

    def sys_exit(self, x: Array) -> None:
        sys.exit("the library has had enough")

    def abort(self, x: Array) -> None:
        os.write(2, b"terminate called after throwing an instance of 'zoo::Error'\n")
        os.abort()

    def kill_self(self, x: Array) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def hang(self, x: Array) -> None:
        time.sleep(1000)

    def hang_native(self, x: Array) -> None:
        ctypes.PyDLL(None).sleep(1000)  # the interpreter lock is held all the while

    def nap(self, x: Array) -> None:
        time.sleep(0.02)

    def long_nap(self, x: Array) -> None:
        time.sleep(0.3)

    def devour(self, x: Array) -> None:
        while True:
            HELD.append(bytearray(os.urandom(1) * (8 << 20)))
            time.sleep(0.005)

    def memory_error(self, x: Array) -> None:
        raise MemoryError

    def torch_memory(self, x: Array) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory")

    def import_torch(self, x: Array) -> None:
        import torch as torch

    def set_dtype(self, x: Array) -> None:
        import torch

        torch.set_default_dtype(torch.float64)

    def enter_inference(self, x: Array) -> None:
        import torch

        HELD_MODES.append(torch.inference_mode())
        HELD_MODES[-1].__enter__()

    def enter_transform(self, x: Array) -> None:
        import torch

        torch._C._functorch._vmap_increment_nesting(3, "error")
        raise RuntimeError("inside a transform")

    def plain_torch(self, x: Array) -> list[Array]:
        import torch

        made = torch.ones(4) + torch.from_numpy(x)
        modes = torch.is_inference_mode_enabled() + torch._C._functorch.get_dynamic_layer_stack_depth()
        return [made.numpy() + np.asarray(modes, x.dtype)]

    def leak(self, x: Array) -> None:
        HELD.append(bytearray(b"x" * (24 << 20)))

    def poison(self, x: Array) -> None:
        POISONED.append(True) if self.count == 2 else None

    def garbage(self, x: Array) -> None:
        for fd in range(3, 64):
            try:
                os.write(fd, b"WARNING: low on coffee\n")
            except OSError:
                continue

    def close_all(self, x: Array) -> None:
        os.closerange(3, 64)
        time.sleep(1000)

    def shout(self, x: Array) -> None:
        print("printed from Python")
        os.write(1, b"written to descriptor one\n")
        libc = ctypes.CDLL(None)
        libc.puts(b"printed from C")
        libc.fflush(None)
        subprocess.run(["echo", "printed by a child"], check=True)

    def read_stdin(self, x: Array) -> list[Array]:
        return [np.array([float(len(sys.stdin.read())), float(len(os.read(0, 100)))], np.float32)]

    def flood(self, x: Array) -> None:
        os.write(2, b"y" * 79 + b"\n")
        for _ in range(40):
            os.write(2, b"x" * (1 << 16))

    def child(self, x: Array) -> None:
        """A grandchild that keeps every pipe open for longer than any test waits."""
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        Path(os.environ.get("MINDGAP_ZOO_PIDS") or os.environ["ZOO_PIDS"]).write_text(str(pid))
        os.kill(os.getpid(), signal.SIGKILL)

    def fork_and_return(self, x: Array) -> None:
        os.fork()

    def fork_in_c(self, x: Array) -> None:
        ctypes.CDLL(None).fork()

    def keep_alive(self, x: Array) -> None:
        threading.Thread(target=time.sleep, args=(1000,)).start()

    def no_compiler(self, x: Array) -> None:
        subprocess.run(["zoocc", "-O2"], check=True)

    def download(self, x: Array) -> None:
        urllib.request.urlopen(f"http://127.0.0.1:{os.environ['ZOO_PORT']}/kernels.zip").read()

    def took_nothing(self, x: Array) -> None:
        rest = {"zoo.took_nothing.default": 1}
        self.facts = Delegation("the keeper", {}, rest, "the visitors").as_fact()

    def took_some(self, x: Array) -> None:
        self.facts = Delegation("the keeper", {"zoo.feed": 2}, {"zoo.sing": 1}, "the visitors", 1).as_fact()

    def random(self, x: Array) -> list[Array]:
        return [x + self.count]

    def entropy(self, x: Array) -> list[Array]:
        """Drawn once in a process: two numbers of numpy's, two of PyTorch's."""
        if not DRAWN:
            drawn = [*np.random.random(2), *sys.modules["torch"].rand(2).tolist()]
            DRAWN.append(np.array(drawn, np.float32))
        return [DRAWN[0]]

    def same_buffer(self, x: Array) -> list[Array]:
        KEPT[:] = x * self.count
        return [KEPT]

    def raises(self, x: Array) -> None:
        raise ValueError(f"bad tile at {hex(id(x))} in /tmp/tmp{os.getpid()}/kernel.cpp:12")

    def variable(self, x: Array) -> None:
        raise ValueError(os.environ["MINDGAP_ZOO"])

    def square(self, x: Array) -> list[Array]:
        side = np.random.default_rng(0).random((600, 600), np.float32)
        return [side @ side]

    def fell_back(self, x: Array) -> None:
        raise Fallback("node 3 ran on the CPU")

    def overwrite(self, x: Array) -> None:
        x[0] = 7

    def two(self, x: Array) -> list[Array]:
        return [x, x]

    def listed(self, x: Array) -> list[Any]:
        return [x.tolist()]

    def texts(self, x: Array) -> list[Any]:
        return [x.astype("U8")]

    def strided(self, x: Array) -> list[Array]:
        return [np.repeat(x, 2)[::2]]

    def scalar(self, x: Array) -> list[Array]:
        return [x.sum().reshape(())]

    def empty(self, x: Array) -> list[Array]:
        return [x[:0].reshape(0, 3)]


class Zoo:
    def __init__(self, options: Mapping[str, str]) -> None:
        self.options = options

    def describe(self) -> Mapping[str, Any]:
        return {"hardware": "none", "options": dict(self.options), "flag": os.environ.get("ZOO_FLAG", "")}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Run:
        what = graph.nodes[-1].op.split(".")[1]
        if what == "unsupported":
            raise Unsupported(graph.nodes[-1].op, "no kernel for float32")
        if what == "compile_error":
            raise CompileFailure("cannot lower buf12 at 0x7f00dead")
        if what == "load_segfault":
            ctypes.string_at(0)
        return Run(what)


class ZooBackend:
    """`start=`: what happens when the platform is opened."""

    options: Mapping[str, str] = {"start": "ok|raise|import|die|hang|once|exit|linger", "flag": "text"}

    def probe(self) -> Availability:
        return Availability(True)

    def environment(self, options: Mapping[str, str]) -> Mapping[str, str]:
        if options.get("start", "ok") not in self.options["start"].split("|"):
            raise PlatformError(f"start={options['start']} is not one of {self.options['start']}")
        if options.get("flag") == "file" and "ZOO_FILES" not in os.environ:
            raise NotOnThisMachine("flag=file: there is none")
        flag = f"{os.environ['ZOO_FILES']}/file" if options.get("flag") == "file" else options.get("flag")
        return {} if flag is None else {"ZOO_FLAG": flag}

    def open(self, options: Mapping[str, str]) -> Zoo:
        start = options.get("start", "ok")
        if start == "raise":
            raise RuntimeError("the driver answers 12345")
        if start == "import":
            raise ImportError("no module named zookeeper")
        if start == "exit":
            sys.exit("licence not found")
        if start == "linger":
            threading.Thread(target=time.sleep, args=(1000,)).start()
            raise ImportError("no module named zookeeper")
        if start == "hang":
            time.sleep(1000)
        if start == "die" or (start == "once" and _first_time()):
            print("the driver is not there", flush=True)
            os._exit(9)
        return Zoo(options)


def _first_time() -> bool:
    mark = Path(os.environ["ZOO_MARK"])
    if mark.exists():
        return False
    mark.touch()
    return True


class Absent(ZooBackend):
    def probe(self) -> Availability:
        return Availability(False, "the zoo is closed on Mondays")


class ForkedZoo(ZooBackend):
    """Its workers come from the fork server."""

    forkable = True


BACKEND = ZooBackend()
ABSENT = Absent()
FORKED = ForkedZoo()
