"""Worker process that opens a command's sources and captures their programs, so that nothing a user's code does can
end the command: `python -m mindgap.models.sources.worker --parent PID --tensors DIR`.

Messages:

parent → worker   open      a source, and a number for it
                  capture   a program of an opened source, by both numbers; it is dropped once it is captured
                  way_on    which submodules of a refused program can be captured
worker → parent   opened    name and source of each program
                  captured  the graph's bytes, and warnings
                  way_on    a text to add to the reason
                  failed    a reason; `broken`: the traceback, if mindgap itself failed; `refused`: a program was
                            refused
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import importlib
import os
import sys
import traceback
import warnings
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mindgap.graph import MindgapError, TensorStore, encode
from mindgap.run.channel import FrameReader, send_frame
from mindgap.run.worker_setup import claim_channel, prepare_to_die, serve_until_hangup

if TYPE_CHECKING:
    from mindgap.models.corpus import Captured, Program

Header = dict[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Serves requests until the parent closes the channel."""
    parser = argparse.ArgumentParser(prog="mindgap.models.sources.worker", description=__doc__)
    parser.add_argument("--parent", type=int, help="the process to die with")
    parser.add_argument("--tensors", type=Path, required=True, help="where tensors too big for a graph's bytes go")
    arguments = parser.parse_args(argv)
    requests, answers = claim_channel()
    prepare_to_die(arguments.parent, requests, None)
    # Imported before the first request, whose deadline is for the user's code.
    importlib.import_module("mindgap.models.corpus")
    server = _SourceServer(TensorStore(arguments.tensors))
    serve_until_hangup(lambda: server.serve(FrameReader(requests), answers))


class _SourceServer:
    """Answers the requests of one client."""

    def __init__(self, tensors: TensorStore) -> None:
        self._tensors = tensors
        self._opened: dict[int, list[Program | Captured | None]] = {}

    def serve(self, reader: FrameReader, answers: int) -> None:
        """Answers requests. Raises `ChannelClosed` when the parent closes the channel."""
        send_frame(answers, {"kind": "ready"})
        while True:
            header = reader.next().header
            with _explained_exits():
                try:
                    answer, data = self._answer(header)
                # A user's code may raise anything, SystemExit among it.
                except BaseException as error:
                    answer, data = _failed(error), b""
                    # The frames of the traceback hold the model.
                    error.__traceback__ = None
            sys.stderr.flush()
            send_frame(answers, answer, [np.frombuffer(data, np.uint8)] if data else [])

    def _answer(self, header: Mapping[str, Any]) -> tuple[Header, bytes]:
        if header["kind"] == "open":
            return self._open(header)
        return self._way_on(header) if header["kind"] == "way_on" else self._capture(header)

    def _open(self, header: Mapping[str, Any]) -> tuple[Header, bytes]:
        from mindgap.models.corpus import open_source

        found = self._opened[header["key"]] = [*open_source(header["source"])]
        return {"kind": "opened", "programs": [[one.name, one.source] for one in found if one is not None]}, b""

    def _capture(self, header: Mapping[str, Any]) -> tuple[Header, bytes]:
        from mindgap.models import corpus

        programs = self._opened[header["key"]]
        index: int = header["index"]
        one, programs[index] = programs[index], None
        assert one is not None, "each program is captured once"
        with warnings.catch_warnings(record=True) as caught:
            if isinstance(one, corpus.Captured):
                graph = corpus.captured_graph(one, header["backward"] or header["optimizer"] is not None)
            else:
                graph = corpus.capture_program(
                    one, self._tensors, backward=header["backward"], optimizer=header["optimizer"]
                )
        return {"kind": "captured", "warnings": [str(each.message) for each in caught]}, encode(graph)

    def _way_on(self, header: Mapping[str, Any]) -> tuple[Header, bytes]:
        from mindgap.models.corpus import Program, open_source
        from mindgap.models.corpus.inside import way_on

        one = open_source(header["source"])[0]
        assert isinstance(one, Program), "only a program is refused"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = way_on(one, header["seconds"], header["backward"], header["optimizer"])
        return {"kind": "way_on", "text": text}, b""


@contextlib.contextmanager
def _explained_exits() -> Generator[None]:
    """Prints the Python stack if the code within calls `os._exit`."""
    really, worker = os._exit, os.getpid()

    def explained(status: int) -> Any:
        if os.getpid() == worker:
            faulthandler.dump_traceback(all_threads=False)
        really(status)

    os._exit = explained
    try:
        yield
    finally:
        os._exit = really


def _failed(error: BaseException) -> Header:
    if isinstance(error, MindgapError):
        from mindgap.models.capture import CaptureError

        return {"kind": "failed", "reason": str(error), "broken": "", "refused": isinstance(error, CaptureError)}
    if isinstance(error, Exception) and not isinstance(error, MemoryError):
        return {"kind": "failed", "reason": str(error), "broken": "".join(traceback.format_exception(error))}
    from mindgap.models.capture.origin import user_line_of
    from mindgap.models.corpus.source import one_line

    line = user_line_of(error.__traceback__)
    return {"kind": "failed", "reason": f"it raised {one_line(error)}{f' ({line})' if line else ''}", "broken": ""}


if __name__ == "__main__":
    sys.exit(main())
