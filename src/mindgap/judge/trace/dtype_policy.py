"""Checks whether a platform's treatment of a dtype explains a finding.

A platform that computes float64 in float32 differs in nearly every graph with a float64 value. That is one fact about
the platform, not one defect per operator: its description has it (`describe()["dtypes"]`, measured when the platform
is opened), and what it explains has one culprit.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch

from mindgap.aten.tensors import TORCH_DTYPES, to_numpy, to_torch
from mindgap.graph import Graph, Labels, TensorSpec, dtype_name, kind_of, numpy_dtype, operands
from mindgap.graph.compare.culprit import DtypePolicy
from mindgap.graph.compare.verdict import Verdict
from mindgap.graph.operators import traits
from mindgap.judge.oracle import Oracle, OracleError, OracleMemoryError, is_calm, local_expectation
from mindgap.judge.oracle.decisions import decision_slots
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real
from mindgap.judge.oracle.shadows.result_rounding import Decisions
from mindgap.judge.oracle.shadows.segments import MOST_NOISE_BYTES
from mindgap.judge.trace.single_operators import Confirmed, SingleOperators, kind_of_error
from mindgap.judge.trace.subgraphs import Array
from mindgap.platforms.name import PlatformName

#: Shadows of the graph in the narrower dtype are added to those in its dtype, in smaller segments (bytes).
_SEGMENT_BYTES: Final = 64 << 20
#: Elements that are converted at a time; an array of as many is kept in a file.
_PIECE: Final = 1 << 20
#: Integers as large as a number of a floating dtype, by bytes.
_BITS: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32}

#: Platform -> dtype -> the entries of `describe()`: `computes_in`, `returns`, `overflow`.
Dtypes = Callable[[PlatformName], Mapping[str, Mapping[str, str]]]


@dataclass(frozen=True, slots=True)
class DtypeSubstitution:
    """One dtype that a platform treats as another. `saturates`: its integers end at their limits and do not wrap.
    `products`: only sums of products are computed in the other (matrix products, convolutions, attention)."""

    declared: str
    computed: str
    saturates: bool = False
    products: bool = False

    @property
    def culprit(self) -> DtypePolicy:
        """What a finding names in place of an operator."""
        return DtypePolicy(self.declared, self.computed, self.products)

    @property
    def verdict(self) -> Verdict:
        """Fewer bits than declared, or other results."""
        return "reduced_precision" if self.computed != self.declared else "discrepant"


def policies_of(dtypes: Mapping[str, Mapping[str, str]], graph: Graph) -> list[DtypeSubstitution]:
    """The policies that make results of this graph differ: dtypes it has, computed in fewer bits or saturating, or
    whose sums of products are computed in fewer bits."""
    present = {spec.dtype for spec in graph.values if spec is not None}
    policies: list[DtypeSubstitution] = []
    for declared, policy in dtypes.items():
        computed, saturates = policy.get("computes_in", ""), policy.get("overflow") == "saturates"
        if declared not in present:
            continue
        if computed in TORCH_DTYPES and _narrower(computed, declared):
            policies.append(DtypeSubstitution(declared, computed, saturates))
        elif saturates:
            # Whatever it computes in, no result is beyond the limits of the dtype that comes back.
            policies.append(DtypeSubstitution(declared, declared, saturates))
        elif (within := policy.get("matmul_in", "")) in TORCH_DTYPES and _narrower(within, declared):
            policies.append(DtypeSubstitution(declared, within, products=True))
    return policies


def _narrower(computed: str, declared: str) -> bool:
    if is_real(declared):
        return is_real(computed) and FORMATS[computed].u > FORMATS[declared].u
    if kind_of(declared) != "int" or kind_of(computed) != "int":
        return False
    return torch.iinfo(TORCH_DTYPES[computed]).bits < torch.iinfo(TORCH_DTYPES[declared]).bits


class Explanation:
    """Whether one policy explains what a platform gives for a graph.

    `undecided`: why that could not be decided for an operator or the outputs, empty where it could.
    """

    def __init__(
        self, policy: DtypeSubstitution, oracle: Oracle, inputs: Sequence[Array], singles: SingleOperators
    ) -> None:
        self.policy, self._oracle, self._inputs, self._singles = policy, oracle, inputs, singles
        self._integers = kind_of(policy.declared) == "int"
        self._kept: dict[tuple[int, str], Array] = {}
        self._operators: dict[tuple[str, tuple[int, ...]], bool] = {}
        #: What the platform decided where the policy explains it, by value: what follows depends on it.
        self._decided: dict[int, torch.Tensor] = {}
        self.undecided = ""

    def beyond(self, confirmed: Sequence[Confirmed], platform: PlatformName) -> list[Confirmed]:
        """Of the operators that the platform gets wrong, those that the policy does not explain."""
        return [one for one in confirmed if not self.operator(one, platform)]

    def operator(self, confirmed: Confirmed, platform: PlatformName) -> bool:
        """Nothing that this operator gives on common operands is beyond what the dtype that is computed in allows."""
        key = platform, confirmed.nodes
        if key not in self._operators:
            self._operators[key] = self._operator(confirmed, platform)
        return self._operators[key]

    def _operator(self, confirmed: Confirmed, platform: PlatformName) -> bool:
        if len(confirmed.nodes) != 1 or confirmed.whole:
            return not self._integers and self._touches(confirmed)
        if self.policy.products and not _sums_products(self._oracle.graph.nodes[confirmed.nodes[0]].op):
            return False
        single = self._singles.cut(confirmed.nodes)
        arrays = confirmed.arrays
        if not arrays:
            # Of the first few operators alone they are kept.
            result = next(self._singles.run([single], platform), None)
            arrays = {} if result is None else dict(zip(single.outputs, result.arrays or (), strict=False))
        inputs = [self._singles.value(border) for border in single.borders]
        explained = self._integer_result if self._integers else self._float_result
        first = self._oracle.graph.first_value[confirmed.nodes[0]]
        slots = {n - first: a for n, a in arrays.items()}
        if any(a.dtype != numpy_dtype(spec.dtype) for n, a in slots.items() if (spec := _output(single.graph, n))):
            # It is measured that the declared dtype comes back: another one is this operator's own.
            return False
        try:
            explains = bool(slots) and explained(single.graph, inputs, slots)
            if explains:
                decisions = decision_slots(self._oracle.graph, confirmed.nodes)
                self._decided |= {first + slot: to_torch(a) for slot, a in slots.items() if first + slot in decisions}
            return explains
        except OracleMemoryError as error:
            self.undecided = str(error)
            return False
        except (OracleError, RuntimeError):
            # A view of bits, say, has no meaning in another dtype.
            return False

    def _touches(self, confirmed: Confirmed) -> bool:
        """Some value of a set of operators has the dtype of the policy. The outputs decide the rest. Of integers, whose
        operators are exact, every one is judged by itself."""
        graph = self._oracle.graph
        values = {n for i in confirmed.nodes for n in (*operands(graph.nodes[i]), *graph.results(i))}
        specs = graph.values if confirmed.whole else [graph.values[n] for n in values]
        return any(spec is not None and spec.dtype == self.policy.declared for spec in specs)

    def outputs(self, arrays: Sequence[Array], public: Sequence[bool]) -> bool:
        """Every public output is what a computation in the narrower dtype may give. Integers are exact: what explains
        their operators explains the outputs."""
        if self._integers:
            return True
        wanted = [(n, a) for n, a, shown in zip(self._oracle.graph.outputs, arrays, public, strict=True) if shown]
        graph = replace(self._oracle.graph, outputs=tuple(n for n, _ in wanted), labels=Labels())
        self._oracle.release()
        try:
            given = [a for _, a in wanted]
            imposed = [self._oracle.imposed]
            if self._decided:
                imposed.append({**self._oracle.imposed, **self._decided})
            return any(
                self._calm(graph, inputs, given, wide, decisions)
                for decisions in imposed
                for inputs, wide in self._tried(graph)
            )
        except (OracleError, RuntimeError) as error:
            self.undecided = f"{type(error).__name__}: {error}".splitlines()[0]
            return False

    def _tried(self, graph: Graph) -> Iterator[tuple[list[Array], frozenset[int]]]:
        """Inputs in the narrower dtype, and which of them are left as they are."""
        yield from ((narrow, frozenset[int]()) for narrow in self._narrowed(self._inputs))
        yield from ((self._mixed(self._inputs, wide), wide) for wide in self._left_wide(graph))

    def _narrowed(self, inputs: Sequence[Array]) -> Iterator[list[Array]]:
        """The inputs in the narrower dtype. Where some lie halfway between two of its numbers, also with these rounded
        away from zero; where some are out of its range, also with these as its largest number instead of infinity."""
        narrow = self._mixed(inputs, frozenset())
        yield narrow
        for changed in (_ties_away, _cut_off):
            other = [changed(array, wide) for array, wide in zip(narrow, inputs, strict=True)]
            if any(one is not array for one, array in zip(other, narrow, strict=True)):
                yield other

    def _calm(
        self, graph: Graph, inputs: Sequence[Array], arrays: Sequence[Array], wide: frozenset[int], imposed: Decisions
    ) -> bool:
        oracle = self._retyped(graph, inputs, self.policy.computed, imposed, wide)
        numbers = zip(graph.outputs, arrays, strict=True)
        return all(is_calm(oracle, n, self._given(array, oracle.step.values[n])) for n, array in numbers)

    def _float_result(self, graph: Graph, inputs: Sequence[Array], arrays: Mapping[int, Array]) -> bool:
        """Within the bounds of the narrower dtype around the exact results on operands rounded to it, or on operands of
        which one or all are not rounded. What is out of its range may be infinite or its largest number, in operands
        and results."""
        if any(self._within(graph, narrow, arrays) for narrow in self._narrowed(inputs)):
            return True
        if not self.policy.products:
            return any(self._within(graph, self._mixed(inputs, w), arrays, w) for w in self._wide(inputs))
        # A kernel may round the factors alone, or what is added to the products too. One that is composed of others
        # (distances, recurrent cells) rounds between them, and has its result in the narrower dtype: that was tried.
        return any(self._explains_rounded(graph, inputs, arrays, least) for least in (2, 0))

    def _wide(self, inputs: Sequence[Array]) -> Iterator[frozenset[int]]:
        """Which operands a platform may leave as they are: each alone, and all. A kernel that reads one in the declared
        dtype and rounds its result is more exact than the narrower dtype."""
        rounded = [n for n, array in enumerate(inputs) if self._as(array, self.policy.computed) is not array]
        if len(rounded) > 1:
            yield from (frozenset({number}) for number in rounded)
        if rounded:
            yield frozenset(rounded)

    def _left_wide(self, graph: Graph) -> list[frozenset[int]]:
        """The inputs that a platform may not round before its first operators: those that a call gets, or all."""
        if self.policy.products or self._integers:
            return []
        every = frozenset(range(len(graph.inputs)))
        fed = frozenset(n for n, given in enumerate(graph.inputs) if given.role == "input")
        return list(dict.fromkeys((fed, every)))

    def _explains_rounded(self, graph: Graph, inputs: Sequence[Array], arrays: Mapping[int, Array], least: int) -> bool:
        """What the operator gives in the declared dtype for operands rounded to the narrower one, those with at least
        so many dimensions."""
        rounded = [self._as_rounded(array) if array.ndim >= least else array for array in inputs]
        oracle = Oracle(graph, rounded)
        expected = local_expectation(oracle, 0)
        return all(kind_of_error(expected.examine(slot, array)) is None for slot, array in arrays.items())

    def _as_rounded(self, array: Array) -> Array:
        return converted(self._as(array, self.policy.computed), dtype_name(array.dtype))

    def _mixed(self, inputs: Sequence[Array], wide: frozenset[int]) -> list[Array]:
        """The inputs in the narrower dtype, but for those at the places `wide`."""
        return [a if n in wide else self._as(a, self.policy.computed) for n, a in enumerate(inputs)]

    def _within(
        self, graph: Graph, inputs: Sequence[Array], arrays: Mapping[int, Array], wide: frozenset[int] = frozenset()
    ) -> bool:
        oracle = self._retyped(graph, inputs, self.policy.computed, wide=wide)
        expected, first = local_expectation(oracle, 0), oracle.graph.first_value[0]
        for slot, array in arrays.items():
            given = self._given(array, oracle.step.values[first + slot])
            if kind_of_error(expected.examine(slot, given)) is not None:
                return False
        return True

    def _integer_result(self, graph: Graph, inputs: Sequence[Array], arrays: Mapping[int, Array]) -> bool:
        """The exact result, wrapped or cut off at the limits of the dtype that is computed in, as operands may be."""
        computed = TORCH_DTYPES[self.policy.computed]
        limits = torch.iinfo(computed)
        wide = [self._as(array, "int64") for array in inputs]

        def ways(value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return value.to(computed).to(torch.int64), value.clamp(limits.min, limits.max)

        for way in (None, 0, 1):
            given = [a if way is None or a.dtype != np.int64 else to_numpy(ways(to_torch(a))[way]) for a in wide]
            oracle = self._retyped(graph, given, "int64")
            results = {slot: oracle.step.values[oracle.graph.first_value[0] + slot] for slot in arrays}
            if all(_is_one_of(arrays[slot], (exact, *ways(exact))) for slot, exact in results.items()):
                return True
        return False

    def _retyped(
        self, graph: Graph, inputs: Sequence[Array], dtype: str, imposed: Decisions | None = None,
        wide: frozenset[int] = frozenset(),
    ) -> Oracle:  # fmt: skip
        """The oracle of a graph whose values of the policy's dtype have another one, as `inputs` have already.

        `imposed`: decisions that keep the shapes of the captured graph. `wide`: the inputs that keep their dtype.
        """
        narrow = retyped(graph, self.policy.declared, dtype, wide)
        held = MOST_NOISE_BYTES // 2
        return Oracle(narrow, inputs, decisions=imposed, segment_bytes=_SEGMENT_BYTES, noise_bytes_held=held)

    def _as(self, array: Array, dtype: str) -> Array:
        """An array of the policy's dtype in another one."""
        if dtype_name(array.dtype) != self.policy.declared:
            return array
        if not any(array is each for each in self._inputs):
            return converted(array, dtype)
        # Each hypothesis asks for the weights again.
        if (id(array), dtype) not in self._kept:
            self._kept[id(array), dtype] = converted(array, dtype)
        return self._kept[id(array), dtype]

    def _given(self, array: Array, right: torch.Tensor) -> Array:
        """A result as it was computed. The largest number stands for infinity, where that is right."""
        computed = to_torch(self._as(array, self.policy.computed))
        if not computed.is_floating_point() or computed.shape != right.shape:
            return to_numpy(computed)
        largest = torch.finfo(computed.dtype).max
        ended = torch.isinf(right) & (computed == largest * torch.sign(right))
        return to_numpy(torch.where(ended, right.to(computed.dtype), computed))


def _is_one_of(array: Array, results: tuple[torch.Tensor, ...]) -> bool:
    """Each element is that of one of these results, whole numbers. A comparison that is wrong is a separate one."""
    if results[0].dtype != torch.int64 or tuple(results[0].shape) != array.shape:
        return False
    got = to_torch(array).to(torch.int64)
    equal = [got == result.to(torch.int64) for result in results]
    return bool(torch.stack(equal).any(0).all())


def _sums_products(op: str) -> bool:
    return traits(op).contracts or "dot_product_attention" in op


def _output(graph: Graph, slot: int) -> TensorSpec | None:
    return graph.nodes[0].outputs[slot]


def _cut_off(narrow: Array, wide: Array) -> Array:
    """Numbers that the narrower dtype has made infinite, at its limits. The array itself where there are none."""
    tensor = to_torch(narrow)
    if not tensor.is_floating_point():
        return narrow
    limits, declared = torch.finfo(tensor.dtype), to_torch(wide)
    parts = zip(_pieces(tensor), _pieces(declared), strict=True)
    if not any(bool((torch.isinf(part) & torch.isfinite(whole)).any()) for part, whole in parts):
        return narrow
    overflowed = torch.isinf(tensor) & torch.isfinite(declared)
    return to_numpy(torch.where(overflowed, tensor.clamp(limits.min, limits.max), tensor))


def _ties_away(narrow: Array, wide: Array) -> Array:
    """Numbers halfway between two of the narrower dtype, rounded away from zero and not to the even one. The array
    itself where there are none, and where it is as large as those that are kept in files: those are weights.

    The simulator of Qualcomm's SM8550 rounds float32 to float16 so.
    """
    tensor, declared = to_torch(narrow), to_torch(wide)
    if not tensor.is_floating_point() or tensor.dtype == declared.dtype or tensor.numel() >= _PIECE:
        return narrow
    # The next number away from zero has the next higher bits, for either sign.
    further = (tensor.view(_BITS[tensor.itemsize]) + 1).view(tensor.dtype)
    tied = (further.double() - declared.double()) == (declared.double() - tensor.double())
    return to_numpy(torch.where(tied, further, tensor)) if bool(tied.any()) else narrow


def _pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    flat = tensor.reshape(-1)
    for start in range(0, flat.numel(), _PIECE):
        yield flat[start : start + _PIECE]


def converted(array: Array, dtype: str) -> Array:
    """An array in another dtype. A large one is a file without a name that is mapped: the system may take its pages
    back, so that all weights of a model in another dtype need no memory of their own. Raises `OracleMemoryError` where
    the folder of temporary files has no room for it."""
    kind = TORCH_DTYPES[dtype]
    if array.size < _PIECE:
        return to_numpy(to_torch(array).to(kind))
    try:
        with tempfile.TemporaryFile(prefix="mindgap-") as file:
            for part in _pieces(to_torch(array)):
                file.write(to_numpy(part.to(kind)).view(np.uint8).data)
            file.flush()
            content = np.memmap(file, np.uint8, "c").view(np.ndarray)
    except OSError as error:
        raise OracleMemoryError(f"{tempfile.gettempdir()} has no room for a weight in {dtype}: {error}") from error
    return content.view(numpy_dtype(dtype)).reshape(array.shape)


def retyped(graph: Graph, declared: str, dtype: str, kept: frozenset[int] = frozenset()) -> Graph:
    """The graph with another dtype wherever one is declared, but for the inputs `kept`."""

    def spec(given: TensorSpec) -> TensorSpec:
        return replace(given, dtype=dtype) if given.dtype == declared else given

    return replace(
        graph,
        inputs=tuple(
            each if number in kept else replace(each, spec=spec(each.spec)) for number, each in enumerate(graph.inputs)
        ),
        nodes=tuple(
            replace(node, outputs=tuple(None if out is None else spec(out) for out in node.outputs))
            for node in graph.nodes
        ),
    )


def detail_of_policy(policy: DtypeSubstitution, platform: PlatformName, shown: str, *, everything: bool = True) -> str:
    """One sentence for a person. `shown`: one element that is off, or nothing. `everything`: it is the only fault."""
    what = f"sums of products of {policy.declared}" if policy.products else policy.declared
    how = f"computes {what} in {policy.computed}"
    if policy.computed == policy.declared:
        how = f"cuts {policy.declared} off at its limits, where it should wrap"
    explains = "every difference" if everything else "differences"
    return f"{platform} {how}, which explains {explains} here" + (f": {shown}" if shown else "")
