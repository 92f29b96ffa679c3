"""What a session records of a run: nothing without a store."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mindgap.graph import Graph
from mindgap.platforms.name import PlatformName
from mindgap.results.rows import Model, PlatformFacts, Refused, Row
from mindgap.results.settings import RunSettings
from mindgap.results.store.errors import StoreError
from mindgap.run.outcome import Outcome

if TYPE_CHECKING:
    from mindgap.results.store import Store

#: Gives what a platform reports of itself.
Describe = Callable[[PlatformName], Mapping[str, Any]]


class RunRecord:
    """A record that keeps nothing. `mindgap.results.recording.Recording` writes into a store."""

    #: Why nothing more is written.
    failure: StoreError | None = None

    def begin(
        self, created: str, version: str, facts: Sequence[PlatformFacts], wanted: Sequence[PlatformName],
        more: Mapping[str, Any] | None = None, order: Sequence[PlatformName] = (),
    ) -> None:  # fmt: skip
        """The run itself, what is known of platforms, and those that get rows. `more`: settings besides. `order`: of
        the run's platforms, where `facts` are those of some."""

    def graph(self, name: str, graph: Graph) -> None:
        """A graph and its bytes, before anything runs it."""

    def model(self, position: int, model: Model, reference: Outcome) -> None:
        """What the run calls a graph, and how its reference fared."""

    def row(self, graph: Graph | str, row: Row, outcome: Outcome | None) -> None:
        """What a platform did and what was decided of it. `graph`: or its digest. `outcome`: None for the reference."""

    def refused(self, position: int, refused: Refused) -> Refused:
        """A source that gave no graph, which is returned."""
        return refused

    def finish(self, seconds: float) -> None:
        """The run came to its end."""


def opened_store(url: str) -> Store:
    """Opens a store, and makes it where there is none. Raises `StoreError`, also where its libraries are missing."""
    from mindgap.results.store import Store

    return Store(url)


@contextmanager
def recorded(store: Store | None, settings: RunSettings, describe: Describe) -> Generator[RunRecord]:
    """Yields a record of a new run in the store; without a store, one that keeps nothing."""
    if store is None:
        yield RunRecord()
        return
    from mindgap.results.recording import recording  # imports Arrow

    with recording(store, settings, describe) as record:
        yield record
