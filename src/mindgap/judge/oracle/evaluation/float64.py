"""Evaluates the operators of a functional graph in float64."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from mindgap.aten.operators import attribute, facts, overload, packet_of
from mindgap.aten.state import TORCH_STATE
from mindgap.aten.storage import StorageRead, UnknownStorage, on_roots, read_cells, storage_reads
from mindgap.aten.tape import flatten_result, last_uses
from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import Arg, DType, Graph, MindgapError, Node, Ref, operands
from mindgap.graph.activity import report_activity
from mindgap.graph.operators import Traits, traits
from mindgap.judge.oracle.evaluation.convolution import convolved
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real, widen
from mindgap.judge.oracle.evaluation.large_weights import LargeWeight, large_weight
from mindgap.judge.oracle.evaluation.scalar_rounding import ScalarOperand, scalar_operands, with_roundings


def half_power(packet: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """`x**0.5` or `x**-0.5` of real numbers, for a scalar exponent; None for any other call.

    PyTorch's float64 kernel takes a square root there, which gives NaN for -∞ and -∞ for the reciprocal at -0. IEEE 754
    (2019, §9.2.1) and C99 (F.9.4.4) define +∞ and 0 for -∞, +0 and +∞ for -0, which the float16 kernel gives.
    """
    if packet != "pow" or len(args) != 2 or kwargs:
        return None
    base, exponent = args
    if not isinstance(base, torch.Tensor) or not base.is_floating_point() or isinstance(exponent, torch.Tensor):
        return None
    if isinstance(exponent, complex) or abs(exponent) != 0.5:
        return None
    root = torch.sqrt(base)
    root = torch.where(base == -torch.inf, torch.inf, torch.where(base == 0, 0.0, root))
    return root if exponent > 0 else root.reciprocal()


def only_looks_up(node: Node, dtypes: Sequence[str]) -> bool:
    """Whether a node only looks up elements of one operand: a table of embeddings then need not be widened."""
    return traits(node.op).looks_up and sum(map(is_real, dtypes)) == 1 and only_moves_data(node, dtypes)


def only_moves_data(node: Node, dtypes: Sequence[str]) -> bool:
    """Every float result is an element of an operand, or its negative, in the operands' own dtype.

    `dtypes`: those of the operands. False where a number among the arguments may land in the result.
    """
    known = traits(node.op)
    numbers = (float, complex, int) if known.fills else (float, complex)
    if not known.moves_data or any(_holds(numbers, arg) for arg in (*node.args, *(arg for _, arg in node.kwargs))):
        return False
    formats = {d for d in dtypes if is_real(d)}
    made = {s.dtype for s in node.outputs if s is not None and is_real(s.dtype)}
    return made == formats and len(made) == 1 and not made & {"complex64", "complex128"}


def _holds(numbers: tuple[type, ...], arg: Arg) -> bool:
    if isinstance(arg, tuple):
        return any(_holds(numbers, item) for item in arg)
    return isinstance(arg, numbers)


#: Operators that depend on the bits of the declared dtype and are therefore judged against their own kernel.
_NATIVE_REASONS: Final = {
    "aten.nextafter.default": "the neighbour of a number depends on its format",
}
VIEWS: Final = frozenset({"aten.view.default", "aten._unsafe_view.default"})
#: (node index, results) -> results to keep
After = Callable[[int, list[Any]], list[Any]]
#: (node index, call, bound arguments, bound keyword arguments, raw results)
Before = Callable[[int, "BoundCall", list[Any], dict[str, Any], list[Any]], None]
#: Values by number, in any dtype: they are widened where an operator takes them.
Values = Sequence[Any] | Mapping[int, Any]


class OracleError(MindgapError):
    """The graph cannot be evaluated in float64 or in its dtypes, or it reads memory of unknown content."""


class OracleMemoryError(OracleError):
    """The machine has too little memory to evaluate an operator or a graph. No other way of evaluating it is tried."""


#: What operators raise for operands, dtypes or values that they do not take.
OPERATOR_ERRORS: Final = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, ArithmeticError)
#: What PyTorch's allocator writes into the RuntimeError that it raises.
_NO_MEMORY: Final = ("DefaultCPUAllocator", "not enough memory", "out of memory")


@dataclass(frozen=True, slots=True)
class BoundCall:
    """One node bound: its callable, its arguments with float dtypes widened, and what it declares.

    `moves`: its results are elements of its operands; `looks_up`: of one, which stays in its dtype. `promotes`: the
    dtype that its whole numbers are converted to first, empty for none. `rounded`: scalar operands that are rounded to
    the dtype that they are combined with. `large`: where a product has a large weight, which stays in its dtype.
    """

    node: Node
    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    packet: str
    dtypes: tuple[str, ...]
    traits: Traits
    native: bool
    moves: bool
    looks_up: bool
    promotes: str = ""
    rounded: tuple[ScalarOperand, ...] = ()
    large: LargeWeight | None = None

    def bind(self, values: Values) -> tuple[list[Any], dict[str, Any]]:
        """Arguments with the values put in for references, floats widened."""
        put = fill if not self.looks_up else fill_as_they_are
        kept = -1 if self.large is None else self.large.weight
        args = [(fill_as_they_are if i == kept else put)(a, values) for i, a in enumerate(self.args)]
        kwargs = {k: put(a, values) for k, a in self.kwargs.items()}
        if self.rounded:
            args, kwargs = with_roundings(self.rounded, [each.dtype for each in self.rounded], args, kwargs)
        return [_promoted(a, self.promotes) for a in args] if self.promotes else args, kwargs


def _promoted(arg: Any, dtype: str) -> Any:
    """A tensor of whole numbers rounded to a float dtype."""
    if not isinstance(arg, torch.Tensor) or arg.is_floating_point() or arg.is_complex():
        return arg
    return widen(arg.to(TORCH_DTYPES[dtype]))


class Float64Graph:
    """The calls of a functional graph, ready to be evaluated in float64 any number of times.

    `graph`: the same with operators that read storage (`as_strided`) reading the value whose memory it is.
    `narrow_scalars`: round the scalars of comparisons, quotients and remainders to the dtype they are combined with.
    """

    def __init__(self, graph: Graph, narrow_scalars: bool = False) -> None:
        try:
            reads = storage_reads(graph)
        except UnknownStorage as error:
            raise OracleError(str(error)) from error
        self.graph = on_roots(graph, reads)
        bound = [bind_call(self.graph, node, narrow_scalars) for node in self.graph.nodes]
        self.calls = [_reading(call, reads[i]) if i in reads else call for i, call in enumerate(bound)]
        #: Nodes evaluated in their own dtypes, and why float64 did not serve.
        self.fallbacks: dict[int, str] = {}
        # Outputs die too: a caller requests those it needs.
        self._dying = last_uses(replace(self.graph, outputs=()))

    def run(
        self,
        inputs: Sequence[torch.Tensor],
        after: After,
        keep: frozenset[int] = frozenset(),
        before: Before | None = None,
    ) -> dict[int, Any]:
        """Evaluates every node; returns the values of `keep` and of the graph's outputs, by number.

        `before` sees a node's bound arguments together with its raw results, `after` decides what is kept of them.
        """
        wanted = keep | set(self.graph.outputs)
        values: dict[int, Any] = dict(enumerate(inputs))
        self.advance(range(len(self.calls)), values, after, wanted, before)
        return {number: _wide(values[number]) for number in wanted}

    def advance(
        self,
        nodes: range,
        values: dict[int, Any],
        after: After,
        keep: Collection[int] = (),
        before: Before | None = None,
    ) -> None:
        """Evaluates some nodes on `values`, which gains their results and loses what no later node reads.

        Inputs and the values of `keep` are never lost.
        """
        with neutral_float64():
            for index in nodes:
                report_activity("judging", "operators evaluated")
                call, first = self.calls[index], self.graph.first_value[index]
                args, kwargs = call.bind(values)
                results, reason = evaluate_with_reason(call, args, kwargs)
                if reason:
                    self.fallbacks.setdefault(index, reason)
                if before is not None:
                    before(index, call, args, kwargs, results)
                values.update(enumerate(after(index, results), start=first))
                for dead in self._dying[index]:
                    if dead not in keep:
                        values.pop(dead, None)


def _wide(value: Any) -> Any:
    return widen(value) if isinstance(value, torch.Tensor) else value


def _wide_contiguous(value: Any) -> Any:
    return widen(value).contiguous() if isinstance(value, torch.Tensor) else value


@contextlib.contextmanager
def neutral_float64() -> Generator[None]:
    """No autograd; tensors created without a dtype are float64."""
    with TORCH_STATE:
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            with torch.no_grad():
                yield
        finally:
            torch.set_default_dtype(default)


def evaluate(call: BoundCall, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Computes a node's results in float64, or in its dtypes where the operator has no float64 form.

    Raises `OracleError` where neither works, `OracleMemoryError` where memory does not suffice.
    """
    return evaluate_with_reason(call, args, kwargs)[0]


def evaluate_with_reason(call: BoundCall, args: list[Any], kwargs: Mapping[str, Any]) -> tuple[list[Any], str]:
    """Computes a node's results as `evaluate` does. Returns also why float64 was not used, empty where it was."""
    if call.native:
        return _results_in_given_dtypes(call, args, kwargs), _NATIVE_REASONS.get(call.node.op, "")
    try:
        return _results_in_float64(call, args, kwargs), ""
    except (MemoryError, *OPERATOR_ERRORS) as error:
        _raise_for_memory(call, error)
        reason = first_line(error)
    return _results_in_given_dtypes(call, args, kwargs), reason


def _results_in_float64(call: BoundCall, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    if call.large is not None:
        return [call.large.product(args, kwargs)]
    if (quick := convolved(call.packet, args, kwargs)) is not None:
        return [quick]
    if (root := half_power(call.packet, args, kwargs)) is not None:
        return [root]
    return [widen(t) if t is not None else None for t in flatten_result(call.function(*args, **kwargs))]


def _raise_for_memory(call: BoundCall, error: BaseException) -> None:
    """Raises `OracleMemoryError` where the error means that memory ran out."""
    if isinstance(error, OracleMemoryError):
        raise error
    if isinstance(error, MemoryError) or any(sign in str(error) for sign in _NO_MEMORY):
        raise OracleMemoryError(f"memory does not suffice to evaluate {call.node.op}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The type of an exception and the first line of its message."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _reading(call: BoundCall, read: StorageRead) -> BoundCall:
    """The call of an operator that reads storage. Its first operand is the root, laid out as the graph declares."""

    def function(root: torch.Tensor, *args: Any) -> torch.Tensor:
        try:
            return read_cells(read, root, args[0] if args and isinstance(args[0], torch.Tensor) else None)
        except UnknownStorage as error:
            raise OracleError(f"{call.node.op}: {error}") from error

    return replace(call, function=function)


def _results_in_given_dtypes(call: BoundCall, args: list[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """Runs the operator on operands narrowed to the dtypes that the graph declares."""
    declared = iter(call.dtypes)

    def narrow(arg: Any) -> Any:
        if isinstance(arg, torch.Tensor):
            return arg.to(TORCH_DTYPES[next(declared)])
        if isinstance(arg, list):
            return [narrow(item) for item in arg]  # pyright: ignore[reportUnknownVariableType] # lists of anything
        return _narrow_dtype(arg, call)

    try:
        narrowed = [narrow(arg) for arg in args]
        named = {key: narrow(arg) for key, arg in kwargs.items()}
        return [widen(t) if t is not None else None for t in flatten_result(call.function(*narrowed, **named))]
    except (MemoryError, *OPERATOR_ERRORS) as error:
        _raise_for_memory(call, error)
        raise OracleError(
            f"{call.node.op} runs neither in float64 nor in its own dtypes: {first_line(error)}"
        ) from error


def _narrow_dtype(arg: Any, call: BoundCall) -> Any:
    if arg in (torch.float64, torch.complex128):
        real = [spec for spec in call.node.outputs if spec is not None and is_real(spec.dtype)]
        return TORCH_DTYPES[real[0].dtype] if real else arg
    return arg


def bind_call(graph: Graph, node: Node, narrow_scalars: bool = False) -> BoundCall:
    """One node of a graph, bound to float64. `narrow_scalars` as in `Float64Graph`."""
    dtypes = tuple(spec.dtype for i in operands(node) if (spec := graph.values[i]) is not None)
    packet = packet_of(node.op)
    # float64 does not hold every int64: a cast by way of it would round twice.
    known = traits(node.op)
    native = known.depends_on_dtype or (known.casts and cast_source(graph, node) == "int64")
    scalar_dtype = _scalar_dtype(node, dtypes)
    # Where a result jumps, a scalar that is rounded first gives another one.
    jumps = narrow_scalars and (known.decides == "comparison" or known.family == "division")

    def constant(arg: Arg) -> Any:
        if isinstance(arg, float):
            return _round_scalar(arg, scalar_dtype)
        if isinstance(arg, DType):
            return TORCH_DTYPES[arg.name] if native else _wide_dtype(arg.name)
        if isinstance(arg, tuple):
            return [constant(item) for item in arg]
        return attribute(arg)

    kwargs = {name: constant(arg) for name, arg in node.kwargs}
    schema = facts(node.op)
    if schema.takes_device and "device" not in kwargs and len(node.args) <= schema.arguments.index("device"):
        kwargs["device"] = torch.device("cpu")
    args = tuple(constant(a) for a in node.args)
    _own_defaults(packet, schema.arguments, args, kwargs, dtypes)
    moves, looks_up = only_moves_data(node, dtypes), only_looks_up(node, dtypes)
    # Which views there are depends on strides, and those of float64 need not be those of the declared dtypes.
    function = overload("aten.reshape.default" if node.op in VIEWS else node.op)
    return BoundCall(
        node, function, args, kwargs, packet, dtypes, known, native, moves, looks_up, _promotion(node, dtypes),
        scalar_operands(graph, node) if jumps else (), large_weight(graph, node, packet),
    )  # fmt: skip


def cast_operand(node: Node) -> Arg:
    """The operand that a cast converts: the second of `copy(self, src)`, else the first."""
    position = 1 if packet_of(node.op).startswith("copy") else 0
    return node.args[position] if position < len(node.args) else None


def cast_source(graph: Graph, node: Node) -> str:
    """The dtype that a cast converts from, empty where it converts no tensor."""
    source = cast_operand(node)
    spec = graph.values[source.index] if isinstance(source, Ref) else None
    return spec.dtype if spec is not None else ""


def _promotion(node: Node, dtypes: Sequence[str]) -> str:
    """The float dtype that an operator on whole numbers and floats computes in, empty where nothing is converted."""
    if not traits(node.op).promotes or not any(d in ("int32", "int64") for d in dtypes):
        return ""
    declared = next((s.dtype for s in node.outputs if s is not None), "")
    if is_real(declared):
        return declared
    # A comparison declares booleans. A float scalar makes whole numbers float32, the default dtype.
    real = [d for d in dtypes if is_real(d)]
    return real[0] if real else "float32" if any(isinstance(a, float) for a in node.args) else ""


def _own_defaults(
    packet: str, names: Sequence[str], args: Sequence[Any], kwargs: dict[str, Any], dtypes: Sequence[str]
) -> None:
    """Arguments whose default follows from the dtype of the operand, as it is declared."""
    real = next((d for d in dtypes if is_real(d)), None)
    if real is None:
        return

    def default(name: str, value: float) -> None:
        position = names.index(name)
        if (args[position] if position < len(args) else kwargs.get(name)) is None and position >= len(args):
            kwargs[name] = value

    if packet == "rms_norm":
        # The epsilon of the format that the sum is kept in.
        default("eps", 2 * FORMATS[real].u_acc)
    elif packet == "nan_to_num":
        default("posinf", FORMATS[real].largest)
        default("neginf", -FORMATS[real].largest)


def _wide_dtype(name: str) -> torch.dtype:
    if not is_real(name):
        return TORCH_DTYPES[name]
    return torch.complex128 if name.startswith("complex") else torch.float64


def _scalar_dtype(node: Node, dtypes: Sequence[str]) -> str:
    """The dtype that a float scalar has by the time the kernel uses it: float32 for narrow formats."""
    real = [s.dtype for s in node.outputs if s is not None and is_real(s.dtype)] or [d for d in dtypes if is_real(d)]
    if not real or any(d in ("float64", "complex128") for d in real) or "upsample" in node.op:
        return "float64"  # A scale of sizes stays as it is: how many elements there are depends on it.
    return "float32"


def _round_scalar(value: float, dtype: str) -> float:
    if dtype == "float64" or value != value or value in (float("inf"), float("-inf")):
        return value
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def fill(arg: Any, values: Values) -> Any:
    """References replaced by values in float64, contiguous, inside lists as well.

    Some kernels err on strided operands (`native_layer_norm_backward`, `median` of an expanded tensor), in float64 too.
    """
    return _put(arg, values, _wide_contiguous)


def fill_as_they_are(arg: Any, values: Values) -> Any:
    """References replaced by values in the dtype that they happen to be kept in."""
    return _put(arg, values, lambda value: value)


def _put(arg: Any, values: Values, widened: Callable[[Any], Any]) -> Any:
    if isinstance(arg, Ref):
        return widened(values[arg.index])
    if isinstance(arg, list):
        return [_put(item, values, widened) for item in arg]  # pyright: ignore[reportUnknownVariableType] # lists of anything
    return arg
