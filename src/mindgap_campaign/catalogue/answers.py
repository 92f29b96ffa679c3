"""Records what capture workers answer about sources: the builder reads that in the order of the sources.

So it does not depend on the faster worker which of two programs with one structure is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mindgap.graph import TensorStore, decode, stored_keys
from mindgap.results.catalogue import Pass
from mindgap_campaign.catalogue.capture_client import CaptureClient, ModelLimits, WorkerDied

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
        requested: list[tuple[str, bool]] = [("", False)]

        def wanted(structure: str) -> bool:
            requested.append((structure, is_new(held, name, structure, program)))
            return requested[-1][1]

        def capture() -> Answer:
            header, data = self.client.capture(source, index, name, wanted)
            return Answer(header, data, self._files(data))

        answer = self._answered(capture)
        return replace(answer, structure=requested[-1][0], wanted=requested[-1][1])

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


@dataclass(frozen=True)
class RecordedAnswers:
    """The recorded answers about one source. `tensors`: where a graph's tensors are to be. `again`: captures what has
    no answer that fits: the builder may not want a graph any more, or want one after all."""

    answers: SourceAnswers
    tensors: TensorStore
    again: Again

    def capture(self, source: str, index: int, program: str, name: str, held: Known) -> Answer:
        """Returns the answer of a worker that knew what is held now, and keeps the tensors of its graph."""
        answer = self.answers.captures.get((index, name))
        if answer is not None and answer.structure:
            wanted = is_new(held, name, answer.structure, program)
            if answer.wanted and not wanted and answer.header.get("kind") == "captured":
                # It was proven in vain: one worker would not have proven the program.
                return replace(answer, header={**answer.header, "proven": False}, data=b"", tensors={}, wanted=False)
            answer = answer if answer.wanted == wanted else None
        answer = answer or self.again(source, index, program, name)
        for key, file in answer.tensors.items():
            if key not in self.tensors:
                self.tensors.adopt(key, lambda to, file=file: to.write(file))
        return answer


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
