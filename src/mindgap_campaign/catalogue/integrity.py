"""Checks that the graphs of a catalogue can be rebuilt from disk: graph files, and the tensors beside them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mindgap.graph import MindgapError, Stored, TensorSpec, TensorStore, materialise
from mindgap.results.catalogue import Catalogue

#: Told (done, total) graphs.
OnChecked = Callable[[int, int], None]
_HOLDERS: Final = """
SELECT holder, list({'source': source, 'pass': pass} ORDER BY source, pass) AS programs FROM captures
WHERE status IN ('captured', 'duplicate') GROUP BY holder ORDER BY holder
"""


@dataclass(frozen=True, slots=True)
class DamagedGraph:
    """A graph that cannot be run. `reason`: what is missing or damaged. `programs`: (source, pass) it represents."""

    graph: str
    reason: str
    programs: tuple[tuple[str, str], ...]


class GraphChecker:
    """Reads graphs back from disk as a run would. Reads each stored tensor once. Not thread-safe."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._tensors = TensorStore(catalogue.tensors)
        self._sound: set[tuple[str, TensorSpec]] = set()

    def fault(self, graph: str) -> str:
        """Returns why the graph with this digest cannot be rebuilt, or "".

        Of the inputs only stored tensors are read, with their checksums. Recipes that draw need no file, and decoding
        has checked them.
        """
        try:
            for number, given in enumerate(self._catalogue.store.get_graph(graph).inputs):
                if isinstance(given.recipe, Stored) and (given.recipe.key, given.spec) not in self._sound:
                    try:
                        materialise(given, self._tensors)
                    except MindgapError as error:
                        return f"input {number}: {error}"
                    self._sound.add((given.recipe.key, given.spec))
        except MindgapError as error:
            return str(error)
        return ""


def damaged_graphs(catalogue: Catalogue, on_checked: OnChecked = lambda done, total: None) -> tuple[DamagedGraph, ...]:
    """Returns the graphs that represent an entry of the catalogue and cannot be rebuilt, sorted by digest."""
    checker, found = GraphChecker(catalogue), list[DamagedGraph]()
    rows = catalogue.store.rows(_HOLDERS)
    for done, row in enumerate(rows, 1):
        reason = checker.fault(row["holder"])
        if reason:
            programs = tuple((each["source"], each["pass"]) for each in row["programs"])
            found.append(DamagedGraph(row["holder"], reason, programs))
        on_checked(done, len(rows))
    return tuple(found)


def discard(catalogue: Catalogue, graph: str) -> None:
    """Removes the files of a damaged graph that prevent a new capture from replacing it.

    Removes only those of its tensors that are damaged. Its rows stay until the capture writes new ones.
    """
    tensors = TensorStore(catalogue.tensors)
    try:
        inputs = catalogue.store.get_graph(graph).inputs
    except MindgapError:
        inputs = ()
    for given in inputs:
        if isinstance(given.recipe, Stored):
            try:
                tensors.get(given.recipe.key)
            except MindgapError:
                tensors.remove(given.recipe.key)
    catalogue.store.remove_graph(graph)
