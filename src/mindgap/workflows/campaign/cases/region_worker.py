"""Runs a process that samples regions: `python -m mindgap.workflows.campaign.cases.region_worker --parent PID`.

parent → worker   sample_regions    a base's digest and bytes, a seed, and the sampler's options
worker → parent   regions   attempts (kinds and reasons), and the regions as a table's bytes
                  failed    a reason
Mutated operators run for the first time here, and some of them end the process.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from mindgap.graph import MindgapError, TensorStore, decode
from mindgap.run.channel import Frame, FrameReader, send_frame
from mindgap.run.worker_setup import claim_channel, prepare_to_die, serve_until_hangup


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until the parent hangs up."""
    parser = argparse.ArgumentParser(prog="mindgap.workflows.campaign.cases.region_worker", description=__doc__)
    parser.add_argument("--parent", type=int, help="the process to die with")
    parser.add_argument("--tensors", type=Path, required=True, help="where the bases' stored tensors are")
    arguments = parser.parse_args(argv)
    requests, answers = claim_channel()
    prepare_to_die(arguments.parent, requests, None)
    reader, tensors = FrameReader(requests), TensorStore(arguments.tensors)
    send_frame(answers, {"kind": "ready"})
    serve_until_hangup(lambda: _serve(reader, answers, tensors))


def _serve(reader: FrameReader, answers: int, tensors: TensorStore) -> None:
    while True:
        frame = reader.next()
        before = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                header, data = _sampled(frame, tensors)
        except MindgapError as error:
            header, data = {"kind": "failed", "reason": str(error)}, b""
        spent = time.process_time() - before
        send_frame(answers, {**header, "cpu_seconds": spent}, [np.frombuffer(data, np.uint8)] if data else [])


def _sampled(frame: Frame, tensors: TensorStore) -> tuple[dict[str, Any], bytes]:
    from mindgap.models.synth.regions.pool import to_bytes
    from mindgap.models.synth.regions.sampler import SamplerOptions, sample_regions

    asked = frame.header
    graph = decode(frame.arrays[0].tobytes())
    tried = list(
        sample_regions(asked["base"], graph, Random(asked["seed"]), SamplerOptions(**asked["wanted"]), tensors=tensors)
    )
    regions = [one.region for one in tried if one.region is not None]
    return {"kind": "regions", "tried": [[one.kind, one.reason] for one in tried]}, to_bytes(regions)


if __name__ == "__main__":
    sys.exit(main())
