"""Opens a command's sources and captures their programs in a worker process, so that nothing a user's code does can
end the command: a service of `mindgap.run.server`.

Messages:

parent → worker   open      a source, and a number for it
                  build     a program of an opened source, by both numbers; it is kept until it is captured
                  capture   a program of an opened source, by both numbers; it is dropped once it is captured
                  capturable_submodules  of a refused program
                  generate  text with a causal language model, in several ways
worker → parent   opened    each program (`OpenedProgram`)
                  built     the bytes of its weights
                  captured  the graph's bytes, and warnings
                  capturable_submodules  a text to add to the reason
                  generated  of each way its label and why it gave nothing; tokens and logits of each
                  failed    a reason; `broken`: the traceback, if mindgap itself failed; `refused`: "program"
                            where one was refused, "raised" where one fails by itself, "untranslated" for a file
                            with an operator that has no translation; `error`: the error alone
"""

from __future__ import annotations

import contextlib
import dataclasses
import faulthandler
import importlib
import logging
import os
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mindgap.graph import MindgapError, TensorStore, encode
from mindgap.run.channel import Array, ChannelClosed, Frame
from mindgap.run.server import Answer, Channel, Service

if TYPE_CHECKING:
    from mindgap.sources import Captured, Program
    from mindgap.sources.program import Built

Header = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedProgram:
    """One program of a source that was opened.

    source: the text that names it alone.
    captured: it is a graph already.
    group: the name of the program where this is one of several sets of its arguments; `first`: the source of the first.
    """

    name: str
    source: str
    captured: bool = False
    group: str = ""
    first: str = ""


def source_service(_: Channel, tensors: str) -> Service:
    """Opens sources and captures their programs. `tensors`: where tensors too big for a graph's bytes go."""
    # Imported before the first request, whose deadline is for the user's code.
    importlib.import_module("mindgap.sources")
    # What torchao warns of at its import, by transformers, is nothing that the user of a model can change.
    for library in ("torchao", "torch.utils._pytree"):
        logging.getLogger(library).setLevel(logging.ERROR)
    sources = Sources(TensorStore(tensors))
    answers = {
        "open": sources.open, "build": sources.build, "capture": sources.capture,
        "capturable_submodules": sources.capturable_submodules, "generate": sources.generate,
        "preprocessing": sources.preprocessing,
    }  # fmt: skip
    return Service({kind: answering(answer) for kind, answer in answers.items()})


def answering(answer: Callable[[Mapping[str, Any]], Answer]) -> Callable[[Frame], Answer]:
    """Answers a request with the reason of any failure. A user's code may raise anything, `SystemExit` among it.

    What the request left in this process's global state reaches no other program: it is restored, and the answer names
    as `spoiled` what cannot be, so that the client replaces the process. Settings that a source makes without failing,
    at its import as a rule, are made again for its later requests.
    """

    def answered(frame: Frame) -> Answer:
        from mindgap.aten.torch_private import process_state as state

        source = str(frame.header.get("key") or frame.header.get("source"))
        arrays: Sequence[Array] = ()
        with state.restored() as left, _explained_exits():
            settings = state.settings()
            state.set_all(_made_settings.get(source, {}))
            try:
                header, arrays = answer(frame.header)
                made = {name: now for name, now in state.settings().items() if now != settings[name]}
                _made_settings[source] = made
            except ChannelClosed:
                raise
            except BaseException as error:
                header = _failed(error)
                # The frames of the traceback hold the model.
                error.__traceback__ = None
        if not left:
            return header, arrays
        # An error of mindgap's own code there is a consequence.
        reason = f"the program left its process within {' and '.join(left)}" if header.get("broken") else ""
        blamed = {"reason": f"{reason}: {header['reason']}", "broken": ""} if reason else {}
        return {**header, **blamed, "spoiled": left}, arrays

    return answered


#: By source: the settings of this process that its requests made.
_made_settings: dict[str, dict[str, Any]] = {}


class Sources:
    """The sources that are open. `opened`: their programs, by the number of the source."""

    def __init__(self, tensors: TensorStore) -> None:
        self._tensors = tensors
        self.opened: dict[int, list[Program | Captured | None]] = {}

    def open(self, header: Mapping[str, Any]) -> Answer:
        """Opens a source, under a number."""
        from mindgap.sources import open_source

        found = self.opened[header["key"]] = [*open_source(header["source"])]
        programs = [dataclasses.asdict(_opened_program(one)) for one in found if one is not None]
        return {"kind": "opened", "programs": programs}, ()

    def build(self, header: Mapping[str, Any]) -> Answer:
        """Builds a program of an opened source, which its capture takes up."""
        from mindgap.graph_capture.errors import SourceNote
        from mindgap.sources import Program

        programs = self.opened[header["key"]]
        index: int = header["index"]
        one = programs[index]
        weights = 0
        if isinstance(one, Program):
            with warnings.catch_warnings(record=True) as caught:
                built = one.make()
            notes = [each for each in caught if issubclass(each.category, SourceNote)]
            _warn_again(each for each in caught if each not in notes)
            programs[index] = dataclasses.replace(one, make=partial(_told_again, built, notes))
            weights = built.weight_bytes
        return {"kind": "built", "weights": weights}, ()

    def preprocessing(self, header: Mapping[str, Any]) -> Answer:
        """Builds a program of an opened source, and tells how its library prepares images for it."""
        from mindgap.source_worker.preprocessing import preprocessing_of
        from mindgap.sources import Program

        self.build(header)
        index: int = header["index"]
        one = self.opened[header["key"]][index]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # its capture tells them
            found = preprocessing_of(one.make().program) if isinstance(one, Program) else None
        return {"kind": "preprocessing", "found": None if found is None else dataclasses.asdict(found)}, ()

    def capture(self, header: Mapping[str, Any]) -> Answer:
        """Captures a program of an opened source, once."""
        from mindgap.sources import Captured, capture_program, captured_graph

        programs = self.opened[header["key"]]
        index: int = header["index"]
        one, programs[index] = programs[index], None
        assert one is not None, "each program is captured once"
        with warnings.catch_warnings(record=True) as caught:
            if isinstance(one, Captured):
                graph = captured_graph(one, header["backward"] or header["optimizer"] is not None)
            else:
                graph = capture_program(one, self._tensors, backward=header["backward"], optimizer=header["optimizer"])
        header = {
            "kind": "captured",
            "warnings": [str(each.message) for each in caught if issubclass(each.category, UserWarning)],
        }
        return header, [np.frombuffer(encode(graph), np.uint8)]

    def capturable_submodules(self, header: Mapping[str, Any]) -> Answer:
        """Tells which submodules of a refused program can be captured."""
        from mindgap.sources import Program, open_source
        from mindgap.sources.submodules import capturable_submodules

        one = open_source(header["source"])[0]
        assert isinstance(one, Program), "only a program is refused"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            text = capturable_submodules(one, header["seconds"], header["backward"], header["optimizer"])
        return {"kind": "capturable_submodules", "text": text}, ()

    def generate(self, header: Mapping[str, Any]) -> Answer:
        """Generates text with a causal language model, in several ways."""
        from mindgap.aten.tensors import to_numpy
        from mindgap.sources import Captured, open_source
        from mindgap.sources.generation import generated

        one = open_source(header["source"])[0]
        if isinstance(one, Captured):
            raise MindgapError(f"{one.source}: it is a graph already, which generates no text")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [*generated(one, header["prompt"], header["steps"], header["compiled"])]
        texts = [{"label": each.label, "error": each.error} for each in found]
        arrays = [to_numpy(each) for one in found for each in (one.tokens, one.logits)]
        return {"kind": "generated", "texts": texts}, arrays


def _told_again(built: Built, notes: Sequence[warnings.WarningMessage]) -> Built:
    """Returns a program that was built before, and warns of what its build warned of: its capture hands that on."""
    _warn_again(notes)
    return built


def _warn_again(caught: Iterable[warnings.WarningMessage]) -> None:
    for each in caught:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _opened_program(one: Program | Captured) -> OpenedProgram:
    from mindgap.sources import Captured

    if isinstance(one, Captured):
        return OpenedProgram(one.name, one.source, captured=True)
    return OpenedProgram(one.name, one.source, group=one.group, first=one.first)


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
    from mindgap.graph_capture.errors import CaptureError, ProgramError
    from mindgap.graph_capture.origin import user_line_of, was_users
    from mindgap.run.message_cleaning import one_line

    if isinstance(error, MindgapError):
        from mindgap.sources.translated_model import NoTranslation

        refused = "program"
        if isinstance(error, NoTranslation):
            refused = "untranslated" if error.valid else "invalid"
        refused = "raised" if isinstance(error, ProgramError) else refused if isinstance(error, CaptureError) else ""
        return {"kind": "failed", "reason": str(error), "broken": "", "refused": refused}
    if isinstance(error, Exception) and not isinstance(error, MemoryError) and not was_users(error):
        broken = "".join(traceback.format_exception(error)).encode(errors="backslashreplace").decode()
        return {"kind": "failed", "reason": one_line(error), "broken": broken}
    line = user_line_of(error.__traceback__)
    words = one_line(error)
    place = f" ({line})" if line else ""
    return {"kind": "failed", "reason": f"it raised {words}{place}", "error": words, "broken": ""}
