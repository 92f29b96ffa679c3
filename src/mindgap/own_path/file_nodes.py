"""Finds the nodes of an ONNX file that a runtime computes otherwise by themselves: each node alone, on the operands
that ONNX's reference evaluator gives; where none does, the shortest run of nodes up to the first wrong result."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import Array
from mindgap.graph.compare.metrics import distance, not_finite
from mindgap.onnx_files.cutting import CutModel, cut_model
from mindgap.own_path.failures import Failure
from mindgap.own_path.file_values import HeldInput, fed_value
from mindgap.own_path.program_run import FlatProgram, run_by
from mindgap.own_path.runs import FileNode, FileNodes
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.sources.translated_model import UntranslatedModel, apart

#: A part shows the difference of a file where it is at least this share of it.
_SHARE: Final = 1e-2
#: Nodes that are named.
_MOST: Final = 8
#: Integers that quantise floats may be a step apart where rounding decides a tie.
_QUANTISED: Final = frozenset({"int8", "uint8", "int16", "uint16"})


def wrong_nodes(
    path: Path, given: Mapping[str, Array], runner: ScriptRunner, seconds: float, shown: float | None,
    folder: Path | None,
) -> FileNodes:  # fmt: skip
    """Returns the nodes of a file that the runner computes wrongly, or fails on.

    given: the file's inputs. shown: how far the file's outputs are off, of the largest magnitude; None where it fails.
    folder: where the first of them is written as a separate file, with its operands; None for none.
    """
    cut = cut_model(path, given)
    if isinstance(cut, str):
        return FileNodes(reason=cut)
    with tempfile.TemporaryDirectory(prefix="mindgap-cut-") as scratch:
        search = _Search(cut, runner, path, Path(scratch) / "part.onnx", time.monotonic() + seconds, shown)
        nodes = search.alone()
        if not nodes.nodes and not nodes.reason and shown is not None:
            nodes = search.window()
    if nodes.nodes and folder is not None:
        nodes = replace(nodes, file=_written(cut, search.places[0], folder))
    return nodes


@dataclass
class _Search:
    """`places`: of the nodes of the first finding."""

    cut: CutModel
    runner: ScriptRunner
    path: Path
    part: Path
    until: float
    shown: float | None
    places: list[list[int]] | Any = None

    def alone(self) -> FileNodes:
        """Runs each node alone, in order, until the time is used up."""
        nodes: list[FileNode] = []
        self.places = []
        for place in range(len(self.cut.model.graph.node)):
            if time.monotonic() > self.until or len(nodes) == _MOST:
                return FileNodes(tuple(nodes), complete=False)
            if any(name not in self.cut.values for name in self.cut.model.graph.node[place].input if name):
                return FileNodes(tuple(nodes), complete=False)
            ours = self.ran([place], self.cut.results(place))
            expected = self.cut.evaluated(place)
            if isinstance(expected, str):
                if isinstance(ours, Failure):
                    expected = {}
                else:  # the runtime's, so that later nodes have operands
                    self.cut.values |= ours
                    continue
            self.cut.values |= expected
            if any(each.dtype.kind in "OSU" for each in expected.values()):  # of texts, which runners give as bytes
                continue
            node = self.failed(place, ours) if isinstance(ours, Failure) else self.wrong(place, ours, expected)
            if node is not None:
                nodes.append(node)
                self.places.append([place])
        return FileNodes(tuple(nodes))

    def window(self) -> FileNodes:
        """Returns the shortest run of nodes that ends at the first result that is wrong when all nodes before it run
        too."""
        last = len(self.cut.model.graph.node) - 1
        low, high = 0, last
        if not self.is_off(0, last):
            return FileNodes()
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.is_off(0, middle) else (middle + 1, high)
        length = 1
        while length <= high and not self.is_off(high - length, high):
            length *= 2
        first = max(high - length, 0)
        while first < high - 1 and self.is_off(first + 1, high):
            first += 1
        places = [*range(first, high + 1)]
        if not self.is_off(first, high):
            return FileNodes()
        ours, expected = self.sides(places)
        self.places = [places]
        ops = "+".join(dict.fromkeys(self.cut.op(place) for place in places))
        off = distance([*ours.values()], [*expected.values()]) if ours else self.shown or 0.0
        return FileNodes((FileNode(self.cut.name(high), ops, off, nodes=len(places)),))

    def is_off(self, first: int, last: int) -> bool:
        """Whether the results of a run of nodes that are used behind it are wrong."""
        if time.monotonic() > self.until:
            return False
        ours, expected = self.sides([*range(first, last + 1)])
        least = max(1e-3, _SHARE * min(self.shown or 0.0, 1e6))
        return any(
            distance([ours[name]], [expected[name]]) > least and apart(ours[name], expected[name]) for name in ours
        )

    def sides(self, places: Sequence[int]) -> tuple[dict[str, Array], dict[str, Array]]:
        """The results of the last node of a run, by the runtime and by the evaluator; none where it does not run."""
        names = [name for name in self.cut.results(places[-1]) if name in self.cut.values]
        ours = self.ran(places, names)
        if isinstance(ours, Failure):
            return {}, {}
        return ours, {name: self.cut.values[name] for name in names}

    def ran(self, places: Sequence[int], outputs: Sequence[str]) -> dict[str, Array] | Failure:
        """Runs a part. Returns its outputs by name, those of other shapes or dtypes too."""
        import onnx

        library: Any = onnx  # typed in parts
        library.save(self.cut.part(places, outputs), str(self.part))
        fed = {name: fed_value(array) for name, array in self.cut.fed(places).items()}
        given = {name: each for name, each in fed.items() if not isinstance(each, HeldInput)}
        held = {name: each.value for name, each in fed.items() if isinstance(each, HeldInput)}
        flat = FlatProgram(UntranslatedModel([*given], "", fixed=held), tuple(given.values()), {})
        text = self.runner.run.replace(repr(str(self.path.resolve())), repr(str(self.part)))
        outcome = run_by(flat, replace(self.runner, run=text))
        return outcome if isinstance(outcome, Failure) else dict(zip(outputs, outcome, strict=False))

    def failed(self, place: int, failure: Failure) -> FileNode | None:
        """The node, where it fails alone as the file does."""
        if self.shown is not None or failure.ours:
            return None
        return FileNode(self.cut.name(place), self.cut.op(place), None, message=failure.message)

    def wrong(self, place: int, ours: Mapping[str, Array], expected: Mapping[str, Array]) -> FileNode | None:
        """The node, where the runtime's results are not the evaluator's, and neither float64 nor the translation takes
        the runtime's side."""
        name, op = self.cut.name(place), self.cut.op(place)
        wide: Mapping[str, Array] | str | None = None
        for result, right in expected.items():
            got = ours.get(result)
            if got is None or got.shape != right.shape or got.dtype != right.dtype:
                forms = "nothing" if got is None else f"{got.dtype}{list(got.shape)}"
                return FileNode(
                    name, op, float("inf"), message=f"{forms} where {right.dtype}{list(right.shape)} is right"
                )
            if not apart(got, right) or _steps(got, right):
                continue
            wide = self.cut.evaluated(place, wide=True) if wide is None else wide
            exact = wide.get(result) if not isinstance(wide, str) else None
            if exact is not None and exact.shape == right.shape:
                exact = exact.astype(right.dtype)
                if apart(right, exact) or not apart(got, exact):
                    continue
            second = self.cut.by_translation(place).get(result)
            if second is not None and second.shape == got.shape and not apart(got, second):
                continue  # the evaluator alone gives something else
            at = _first(got, right)
            example = f"element {[int(i) for i in at]} of {result}", f"{got[at]:.8g}", f"{right[at]:.8g}"
            return FileNode(name, op, distance([got], [right]), exact is not None, example=example)
        return None


def _steps(got: Array, right: Array) -> bool:
    """Whether quantised integers are at most a step apart."""
    if got.dtype.name not in _QUANTISED:
        return False
    return int(np.abs(got.astype(np.int64) - right.astype(np.int64)).max(initial=0)) <= 1


def _first(got: Array, right: Array) -> tuple[Any, ...]:
    """The index of the element that is furthest off; the first where one side alone is finite."""
    with np.errstate(all="ignore"):
        wide = np.complex128 if np.iscomplexobj(got) else np.float64
        off = np.abs(got.astype(wide) - right.astype(wide))
    if got.dtype.kind not in "biu":
        off = np.where(not_finite(got) != not_finite(right), np.inf, np.nan_to_num(off, nan=0.0))
    return np.unravel_index(int(np.argmax(off)), got.shape)


def _written(cut: CutModel, places: Sequence[int], folder: Path) -> str:
    """Writes a part and its operands; returns the name of the file without its suffix."""
    import onnx

    library: Any = onnx  # typed in parts
    name = "".join(each if each.isalnum() else "_" for each in cut.name(places[-1])).strip("_") or "node"
    folder.mkdir(parents=True, exist_ok=True)
    library.save(cut.part(places, cut.results(places[-1])), str(folder / f"{name}.onnx"))
    operands: dict[str, Any] = dict(cut.fed(places))
    np.savez(folder / f"{name}.npz", **operands)
    right: dict[str, Any] = {each: cut.values[each] for each in cut.results(places[-1]) if each in cut.values}
    np.savez(folder / f"{name}.right.npz", **right)
    return name
