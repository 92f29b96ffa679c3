"""Runs a process that tries faults: `python -m mindgap.workflows.selftest.worker --parent PID`.

parent → worker   try      a subject's name, a seed, and how many faults
worker → parent   tried    a row for each fault, or the reason why the subject was skipped
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence

from mindgap.run.channel import FrameReader, send_frame
from mindgap.run.worker_setup import claim_channel, prepare_to_die, serve_until_hangup
from mindgap.workflows.selftest.trial import try_subject


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the parent hangs up. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="mindgap.workflows.selftest.worker", description=__doc__)
    parser.add_argument("--parent", type=int, help="the process to die with")
    arguments = parser.parse_args(argv)
    requests, answers = claim_channel()
    prepare_to_die(arguments.parent, requests, None)
    send_frame(answers, {"kind": "ready"})
    serve_until_hangup(lambda: _serve(FrameReader(requests), answers))
    return 0


def _serve(reader: FrameReader, answers: int) -> None:
    while True:
        asked = reader.next().header
        trials = try_subject(asked["subject"], asked["seed"], asked["limit"])
        send_frame(answers, {"kind": "tried", **dataclasses.asdict(trials)})


if __name__ == "__main__":
    sys.exit(main())
