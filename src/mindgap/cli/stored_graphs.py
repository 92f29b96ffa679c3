"""Sources of many graphs that are read or made one at a time: a catalogue, and variants of a catalogue's graphs.

    catalogue:DIR?limit=N&pass=NAME      N of its graphs, evenly spread over the sources; all without a limit
    variants:DIR?count=N&nodes=N&seed=N  variants merged from its regions, as a campaign draws them

A graph is made when it is run, and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

from mindgap.graph import Graph, MindgapError, TensorStore, stored_keys
from mindgap.run.extensions import service
from mindgap.workflows.diff import Subject

#: The options of each scheme with their defaults.
_OPTIONS: Final = {
    "catalogue": {"limit": "0", "pass": "forward"},
    "variants": {"count": "1000", "nodes": "20", "seed": "0"},
}


def is_stored(source: str) -> bool:
    """Whether a source is one of these."""
    return source.partition(":")[0] in _OPTIONS


def stored_subjects(source: str, tensors: TensorStore) -> Iterator[Subject]:
    """The subjects of such a source. `tensors`: where workers find large tensors, which are copied there.

    Raises `MindgapError` for an unknown option, or a directory without a catalogue or without graphs.
    """
    scheme, _, rest = source.partition(":")
    directory, _, listed = rest.partition("?")
    options = dict(_OPTIONS[scheme])
    for name, value in parse_qsl(listed, keep_blank_values=True):
        if name not in options:
            raise MindgapError(f"{source}: {scheme} has no option {name}; it takes {', '.join(options)}")
        options[name] = value
    if scheme == "catalogue":
        return _catalogued(Path(directory), _number(source, options, "limit"), options["pass"], tensors)
    count, nodes, seed = (_number(source, options, name) for name in ("count", "nodes", "seed"))
    if not count or not nodes:
        raise MindgapError(
            f"{source}: count={count}, nodes={nodes}: ask for one variant at least, of one node at least"
        )
    drawn = service("variants")(Path(directory), count, nodes, seed)
    return (_subject(name, graph, where, tensors) for name, graph, where in drawn)


def _number(source: str, options: dict[str, str], name: str) -> int:
    if not options[name].isdecimal():
        raise MindgapError(f"{source}: {name}={options[name]} is not a whole number")
    return int(options[name])


def _catalogued(directory: Path, limit: int, of: str, tensors: TensorStore) -> Iterator[Subject]:
    from mindgap.results.catalogue import Catalogue

    catalogue = Catalogue(directory)
    entries = catalogue.entries("status = 'captured' AND pass = ?", [of])
    if not entries:
        raise MindgapError(f"{directory} has no graph of the pass {of}")
    count = min(limit or len(entries), len(entries))
    for number in range(count):
        entry = entries[number * len(entries) // count]
        read = partial(catalogue.graph, entry)
        yield _subject(entry.source, read, catalogue.tensors, tensors)


def _subject(name: str, read: Callable[[], Graph], where: Path, tensors: TensorStore) -> Subject:
    def graph() -> Graph:
        subject = read()
        if keys := stored_keys(subject):
            tensors.copy(keys, TensorStore(where))
        return subject

    return Subject(name, graph)
