"""Counts which calls of operators the everyday programs make; the index of findings ranks conditions by it.

    python tools/findings/everyday_calls.py [--only NAME] [--out FILE]

Runs each program of tests/everyday/programs in eager mode, in a process of its own, sees every call of an operator of
ATen, whole and in parts, and writes the distinct calls, each with the programs that make it, to everyday_calls.txt.gz
beside this file. A program that raises is left out, and named. `mistakes` are no programs of users and are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("HF_HUB_OFFLINE", "1")
ROOT: Final = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from counts import TABLE  # noqa: E402
from operator_use import Seen, defaults, seen_calls  # noqa: E402

from everyday.measure_truth import Case, declare_operators, eager, programs  # noqa: E402
from mindgap.findings.causes.call_predicate import OperatorCall  # noqa: E402
from mindgap.findings.causes.operator_calls import table_bytes  # noqa: E402

#: Seconds for one program.
_LIMIT: Final = 90


def calls_of(name: str, path: Path) -> list[tuple[Any, ...]] | str:
    """The distinct calls of one program, made in a forked process; why there are none."""
    receive, send = multiprocessing.get_context("fork").Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=_send_calls, args=(name, path, send))
    process.start()
    send.close()
    try:
        return receive.recv() if receive.poll(_LIMIT) else f"no end in {_LIMIT} s"
    except EOFError:
        return "the process died"
    finally:
        process.kill()
        process.join()


def _send_calls(name: str, path: Path, send: Any) -> None:
    sys.path.insert(0, str(path.parent))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    seen = Seen()
    try:
        case = Case(name, path)
        with seen_calls(seen):
            eager(case)
        send.send(sorted(seen.calls, key=repr))
    except Exception as error:  # a user's program may raise anything
        send.send(f"{type(error).__name__}: {str(error)[:100]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name begins so")
    parser.add_argument("--out", type=Path, default=TABLE)
    asked = parser.parse_args()
    declare_operators()
    for library in ("transformers.models.gpt2", "transformers.models.llama", "diffusers", "timm", "torch_geometric.nn"):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)  # once, and not in each process
    calls: dict[int, list[OperatorCall]] = {}
    for name, path in programs().items():
        if name.startswith("mistakes:") or not name.startswith(asked.only):
            continue
        found = calls_of(name, path)
        if isinstance(found, str):
            print(f"left out: {name}: {found}")
        else:
            calls[len(calls)] = [
                OperatorCall(op, dict(args), *rest) for op, args, *rest in found if op.startswith("aten.")
            ]
    overloads = {call.op for made in calls.values() for call in made}
    asked.out.write_bytes(table_bytes(calls, {op: defaults(op) for op in overloads}))
    print(f"{len(calls)} programs, {len(overloads)} overloads, {asked.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
