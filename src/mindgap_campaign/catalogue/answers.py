"""Records what a capture worker answers about a source, so that sources captured in any order are recorded in one.

Workers capture several sources at a time. Which of two programs with one structure is kept must not depend on which
worker is faster. So a worker's answers are kept, and the builder reads them in the order of the sources. What it asks
for and the worker has not answered is captured again.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mindgap.graph import TensorStore, decode, stored_keys
from mindgap.results.catalogue import Pass
from mindgap_campaign.catalogue.capture_client import CaptureClient, ModelLimits, Wanted, WorkerDied

#: The graph of each (pass, structure), and its program.
Known = Mapping[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """A worker's answer to one request. `died`: why there is none. `wanted`: whether the graph, of this `structure`,
    was to be proven and sent; without a structure it was not requested. `tensors`: files of those that `data` refers
    to, where the builder's catalogue has other files than the worker."""

    header: Mapping[str, Any] = field(default_factory=dict[str, Any])
    data: bytes = b""
    tensors: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    died: str = ""
    structure: str = ""
    wanted: bool = False

    def checked(self) -> Mapping[str, Any]:
        """Returns the header. Raises `WorkerDied` if the worker died."""
        if self.died:
            raise WorkerDied(self.died)
        return self.header


#: Captures one pass of one program again: (source, number of the program, its source, pass).
Again = Callable[[str, int, str, str], Answer]


@dataclass
class SourceAnswers:
    """All answers about one source. `captures`: by the number of the program, and the pass."""

    opened: Answer = field(default_factory=Answer)
    captures: dict[tuple[int, str], Answer] = field(default_factory=dict[tuple[int, str], Answer])


@dataclass(frozen=True)
class AnswerRecorder:
    """Records the answers of a client. `tensors`: where its worker puts tensors, if their files are to be recorded too.
    `patience_s`: how long to wait after a worker was killed from outside."""

    client: CaptureClient
    tensors: TensorStore | None = None
    patience_s: float = 0.0

    def open(self, source: str) -> Answer:
        """Opens a source."""
        return self._answered(lambda: Answer(self.client.open(source)))

    def capture(self, source: str, index: int, program: str, name: str, held: Known) -> Answer:
        """Captures one pass of one program, whose source is `program`. What is not among those held is wanted."""
        asked: list[tuple[str, bool]] = [("", False)]

        def wanted(structure: str) -> bool:
            asked.append((structure, is_new(held, name, structure, program)))
            return asked[-1][1]

        def capture() -> Answer:
            header, data = self.client.capture(source, index, name, wanted)
            return Answer(header, data, self._files(data))

        answer = self._answered(capture)
        structure, proved = asked[-1]
        return replace(answer, structure=structure, wanted=proved)

    def _files(self, data: bytes) -> Mapping[str, bytes]:
        if self.tensors is None or not data:
            return {}
        return {key: self.tensors.file(key).read_bytes() for key in stored_keys(decode(data))}

    def _answered(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return ask()
        except WorkerDied as died:
            if died.killed:
                time.sleep(self.patience_s)
            return Answer(died=str(died))


@dataclass
class RecordedAnswers:
    """Gives recorded answers as a capture client. `tensors`: where a graph's tensors are to be. `again`: captures
    what has no recorded answer.

    The builder no longer wants a graph whose structure has come in since the request to the worker.
    """

    answers: SourceAnswers
    tensors: TensorStore
    again: Again

    def open(self, source: str) -> Mapping[str, Any]:
        """Returns the worker's answer. Raises `WorkerDied` if it died."""
        return self.answers.opened.checked()

    def capture(self, source: str, index: int, name: str, wanted: Wanted) -> tuple[Mapping[str, Any], bytes]:
        """Returns the worker's answer, and keeps the tensors of a graph that is wanted. Raises `WorkerDied` as
        `open`."""
        answer = self.answers.captures.get((index, name))
        if answer is not None and answer.structure and answer.wanted != wanted(answer.structure):
            if answer.header.get("kind") == "captured" and answer.wanted:
                # The worker proved it in vain: one worker would not have been asked to prove the program.
                return {**answer.header, "proven": False}, b""
            answer = None
        if answer is None:
            program: str = self.answers.opened.checked()["programs"][index]["source"]
            answer = self.again(source, index, program, name)
        header = answer.checked()
        for key, file in answer.tensors.items():
            if key not in self.tensors:
                self.tensors.adopt(key, _copier(file))
        return header, answer.data


def answer_source(
    recorder: AnswerRecorder, source: str, passes: Sequence[Pass], limits: ModelLimits,
    held: MutableMapping[tuple[str, str], tuple[str, str]],
) -> SourceAnswers:  # fmt: skip
    """Captures the programs of a source as far as the builder will ask for them. `held`: as `Known`; graphs of this
    source are added."""
    answers = SourceAnswers(recorder.open(source))
    for index, program in enumerate(answers.opened.header.get("programs", ())):
        text, parameters = str(program["source"]), 0
        for name in passes:
            if name != "forward" and limits.too_many_to_train(parameters):
                break
            answer = answers.captures[index, name] = recorder.capture(source, index, text, name, held)
            if not answer.data:
                break
            held[name, answer.structure] = (str(answer.header["graph"]), text)
            parameters = int(answer.header["parameters"])
    return answers


def is_new(known: Known, name: str, structure: str, source: str) -> bool:
    """Whether no other source's graph is kept for this structure."""
    held = known.get((name, structure))
    return held is None or held[1] == source


def _copier(file: bytes) -> Callable[[io.BufferedIOBase | Any], object]:
    return lambda to: to.write(file)
