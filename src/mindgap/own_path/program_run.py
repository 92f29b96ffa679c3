"""Runs one program by a function of the form `run(model, fresh)`, and locates a failure."""

from __future__ import annotations

import contextlib
import linecache
import math
import warnings
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.torch_private import modules
from mindgap.graph import Array, MindgapError
from mindgap.graph.compare.metrics import distance
from mindgap.graph_capture.deep_copies import fresh_copy, tensors_within
from mindgap.graph_capture.origin import users_line_in
from mindgap.graph_capture.program import bound_arguments, leaves, modules_of, tensor_names
from mindgap.graph_capture.users_code import users_code
from mindgap.own_path.failures import EXPORTS, RUNNER_FILE, Failure, InputsNotMatched, failure_of
from mindgap.own_path.file_values import HeldInput, fed_value, tensors_of
from mindgap.own_path.runs import Sensitivity
from mindgap.own_path.state import State, as_it_was
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.sources.source import one_line

#: By how many units in the last place `sensitivity` moves each element.
_MOVED_UNITS: Final = 8.0
#: What a program raises that mixes float64 with its dtype.
_NOT_IN_FLOAT64: Final = (
    RuntimeError, TypeError, ValueError, NotImplementedError, AssertionError, KeyError, AttributeError, MindgapError,
)  # fmt: skip

#: Values that no run can change.
_PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, torch.Tensor, torch.dtype, torch.device, torch.Size)

Run = Callable[[torch.nn.Module, Callable[[], tuple[torch.Tensor, ...]]], Any]


class FlatProgram(torch.nn.Module):
    """A program that takes the tensors among its arguments one by one, and returns its tensors as a list.

    Its graph is the program's. Runners of scripts need this form. Behind the tensors it takes the objects among the
    arguments that hold tensors and that pytree does not open, such as a cache: an exporter takes or refuses them
    itself. Each run is given copies (`fresh`).
    """

    def __init__(
        self, program: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
        input_map: Sequence[tuple[str, str]] = (), filled: Collection[int] = (), numbers: Collection[int] = (),
    ) -> None:  # fmt: skip
        """`input_map`: (argument, input of a model file) where their names differ. An input may be its number.
        `filled`: the places of leaves that a run puts tensors into (`places_filled`). `numbers`: the places of outputs
        that are no tensors in eager mode; tracing makes tensors of sizes."""
        super().__init__()
        self.numbers = numbers
        self.program = program
        self.input_map = tuple(input_map)
        if not isinstance(program, torch.nn.Module):
            # An exporter looks for parameters in the modules that it can see.
            self.held = torch.nn.ModuleList(module for _, module in modules_of(program))
        self.training = getattr(program, "training", True)
        given, self._structure = modules.tree_flatten((tuple(args), dict(kwargs)))
        opaque = [place for place, leaf in enumerate(given) if not isinstance(leaf, _PLAIN)]
        objects = [place for place in opaque if place in filled or tensors_within(given[place])]
        self._kept = [place for place in opaque if place not in objects]
        self._given = [
            None if place in objects or isinstance(leaf, torch.Tensor) else leaf for place, leaf in enumerate(given)
        ]
        self._places = [place for place, leaf in enumerate(given) if isinstance(leaf, torch.Tensor)] + objects
        #: The tensors among the arguments, in order, and their names.
        self.tensors = [leaf for leaf in given if isinstance(leaf, torch.Tensor)]
        self.names = tensor_names(program, args, kwargs)
        #: Objects among the arguments that hold tensors, or are given some by a run.
        self.objects = [given[place] for place in objects]
        self._pristine = list(self._given)
        #: What tracing warned of so far: the user's line and the first sentence of each.
        self.warned: list[tuple[str, str]] = []
        #: Names of the tensors that the last run was fed and has written to.
        self.written: list[str] = []
        #: Inputs of a model file that were matched by order or shape, and their arguments.
        self.by_order: list[tuple[str, str]] = []
        #: The dynamic dimensions that an export is given.
        self.dynamic_shapes: Mapping[str, Any] = {}

    def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Returns the tensors that the program returns."""
        args, kwargs = self.unflattened(tensors)
        returned = enumerate(leaves(self.program(*args, **kwargs)))
        return [each for n, (_, each) in returned if isinstance(each, torch.Tensor) and n not in self.numbers]

    def arguments(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns the program's arguments with these tensors in place of the others. They are for no run: its other
        arguments are no copies."""
        return self.unflattened((*tensors, *self.objects))

    def unflattened(self, fed: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that `fresh` gave one by one."""
        given = list(self._given)
        for place, one in zip(self._places, fed, strict=True):
            given[place] = one
        args, kwargs = modules.tree_unflatten(given, self._structure)
        return args, kwargs

    def alike(self, other: FlatProgram) -> bool:
        """Whether the arguments of both have the same structure, shapes, dtypes and values that are no tensors."""
        forms = [[(each.shape, each.dtype) for each in side.tensors] for side in (self, other)]
        pairs = zip(self._given, other._given, strict=False)
        same = all(a is b or (isinstance(a, _PLAIN) and type(a) is type(b) and a == b) for a, b in pairs)
        bare = not self.objects and not other.objects
        return forms[0] == forms[1] and self._structure == other._structure and same and bare

    def matched(
        self, inputs: Sequence[tuple[str, Sequence[Any]]], tensors: Sequence[torch.Tensor]
    ) -> list[tuple[str, torch.Tensor | HeldInput]]:
        """Returns the tensor for each input of a model file: by `input_map`, then by name, then by order and shape. One
        that is fixed for the program is given as the program has it.

        `inputs`: name and shape of each; a dimension that is no number may have any size. An argument that no input
        takes is left out where all inputs have arguments' names. Raises `InputsNotMatched` for inputs that the
        arguments do not fit.
        """
        fixed: Mapping[str, Any] = getattr(self.program, "fixed_inputs", {})
        given = [each for each in inputs if each[0] not in fixed]
        taken = iter(self._assigned(given, tensors))
        return [(name, fed_value(fixed[name]) if name in fixed else next(taken)) for name, _ in inputs]

    def _assigned(
        self, inputs: Sequence[tuple[str, Sequence[Any]]], tensors: Sequence[torch.Tensor]
    ) -> list[torch.Tensor]:
        """The tensor for each input, none of which is a constant of the program."""
        sizes = [_dimensions(shape) for _, shape in inputs]
        taken = self._mapped(inputs)
        for number, (name, _) in enumerate(inputs):
            if number not in taken and name in self.names and self.names.index(name) not in taken.values():
                taken[number] = self.names.index(name)
        left = [number for number in range(len(inputs)) if number not in taken]
        tensors = tensors[: len(self.names)]
        free = [place for place in range(len(tensors)) if place not in taken.values()]
        if left and len(left) != len(free):
            wanted = ", ".join(name or "(no name)" for name, _ in inputs)
            raise InputsNotMatched(
                f"the file has {len(inputs)} inputs ({wanted}), and the program {len(tensors)} tensors among its "
                f"arguments ({', '.join(self.names)}): --input-map ARGUMENT=INPUT says which is which"
            )
        if left:
            taken |= dict(zip(left, _in_order([sizes[n] for n in left], free, tensors), strict=True))
        self.by_order = [(inputs[n][0] or f"number {n}", self.names[taken[n]]) for n in left if len(inputs) > 1]
        for number, (name, shape) in enumerate(inputs):
            tensor = tensors[taken[number]]
            if sizes[number] and not _fits(sizes[number], tensor):  # ONNX Runtime gives none for any number of sizes
                raise InputsNotMatched(
                    f"the file's input {name or number} is {list(shape)}, and the argument {self.names[taken[number]]} "
                    f"is {list(tensor.shape)}"
                )
        return [tensors[taken[number]] for number in range(len(inputs))]

    def _mapped(self, inputs: Sequence[tuple[str, Sequence[Any]]]) -> dict[int, int]:
        """The arguments of inputs by `input_map`. Of several inputs for one argument, the first that the file has."""
        mapped: dict[int, int] = {}
        names = [name for name, _ in inputs]
        for argument in dict.fromkeys(argument for argument, _ in self.input_map):
            given = [each for name, each in self.input_map if name == argument]
            if argument not in self.names:
                raise InputsNotMatched(f"--input-map {argument}={given[0]}: the arguments are {', '.join(self.names)}")
            numbers = [names.index(each) if each in names else _number(each, len(names)) for each in given]
            number = next((each for each in numbers if each is not None), None)
            if number is None:
                has = ", ".join(name or f"(no name, number {n})" for n, name in enumerate(names))
                raise InputsNotMatched(f"--input-map {argument}={given[0]}: the inputs of the file are {has}")
            mapped[number] = self.names.index(argument)
        return mapped

    def fresh(self, tensors: Sequence[torch.Tensor] | None = None) -> tuple[Any, ...]:
        """Returns new copies of the tensors among the arguments, and of the objects that hold tensors. What else a run
        can change among the arguments is replaced by a copy of it as it was.

        `tensors`: in place of those among the arguments.
        """
        kept = [self._pristine[place] for place in self._kept]
        given = self.tensors if tensors is None else list(tensors)
        fed, objects, kept = fresh_copy((given, self.objects, kept))
        for place, one in zip(self._kept, kept, strict=True):
            self._given[place] = one
        return (*fed, *objects)

    def places_filled(self) -> list[int]:
        """Returns the places of arguments that held no tensor before the last run, and do now."""
        return [place for place in self._kept if tensors_within(self._given[place])]

    def written_of(self, fed: Sequence[Any], given: Sequence[torch.Tensor]) -> list[str]:
        """Returns the names of tensors that are not as they were given."""
        pairs = zip(self.names, fed, given, strict=False)
        return [name for name, now, before in pairs if not np.array_equal(_bytes(now), _bytes(before))]

    def other_tensors(self) -> list[torch.Tensor] | None:
        """Returns other arguments of the same kind, of the same elements. None if there are none.

        Integers have another order. Floats are drawn with replacement without the largest: a maximum, a mean or a norm
        of them is another too. Sorted integers and booleans stay: offsets, positions and masks keep their form.
        """
        from mindgap.aten.tensors import to_torch

        generator = torch.Generator().manual_seed(0)
        tensors = [tensor.detach().clone() for tensor in self.tensors]
        changed = False
        for tensor in tensors:
            flat = tensor.reshape(-1)
            held = not (tensor.is_floating_point() or tensor.is_complex())
            values = _array(flat)  # PyTorch compares no unsigned integers of more than 8 bits
            if flat.numel() < 2 or tensor.dtype == torch.bool or (held and bool((values[1:] >= values[:-1]).all())):
                continue
            if held:
                mixed = to_torch(values[torch.randperm(flat.numel(), generator=generator).numpy()])
            else:
                kept = flat[torch.arange(flat.numel()) != flat.abs().argmax()]
                mixed = kept[torch.randint(kept.numel(), (flat.numel(),), generator=generator)]
            changed = changed or not np.array_equal(_bytes(mixed), _bytes(flat))
            tensor.copy_(mixed.reshape(tensor.shape))
        return tensors if changed else None


def run_eagerly(program: FlatProgram, tensors: Sequence[torch.Tensor] | None = None) -> list[Array]:
    """Returns the outputs in eager mode. `tensors`: in place of those among the arguments."""
    with as_it_was(program.program), torch.no_grad(), users_code():
        return arrays_of(program(*program.fresh(tensors)))


def sensitivity(program: FlatProgram) -> Sensitivity:
    """Returns how far the outputs in eager mode move, and how far they are from those in float64."""
    expected = run_eagerly(program)
    return Sensitivity(_moved(program, expected), _apart_in_float64(program, expected))


def _moved(program: FlatProgram, expected: Sequence[Array]) -> float:
    generator = torch.Generator().manual_seed(0)

    def move(tensor: torch.Tensor) -> None:
        if tensor.is_floating_point():
            signs = torch.randint(0, 2, tensor.shape, generator=generator) * 2 - 1
            tensor.mul_((1 + _MOVED_UNITS * torch.finfo(tensor.dtype).eps * signs).to(tensor.dtype))

    given, parameters = program.fresh(), [*program.parameters()]
    before = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        try:
            for tensor in (*given, *parameters):
                move(tensor)
            return distance(run_eagerly(program, given), expected)
        finally:
            for parameter, saved in zip(parameters, before, strict=True):
                parameter.copy_(saved)


def _apart_in_float64(program: FlatProgram, expected: Sequence[Array]) -> float:
    """How far the outputs are from those with arguments, parameters and buffers in float64; infinity where the program
    does not take these."""
    given = [tensor.double() if _is_narrower(tensor) else tensor for tensor in program.fresh()]
    held = [(each, each.data) for each in (*program.parameters(), *program.buffers()) if _is_narrower(each)]
    try:
        for each, data in held:
            each.data = data.double()
        exact = run_eagerly(program, given)
    except _NOT_IN_FLOAT64:
        return math.inf
    finally:
        for each, data in held:
            each.data = data
    pairs = [(a.astype(b.dtype), b) for a, b in zip(exact, expected, strict=False) if a.shape == b.shape]
    return distance(expected, [a for a, _ in pairs])


def _is_narrower(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and tensor.itemsize < 8 and not tensor.is_sparse


@dataclass(frozen=True, slots=True)
class TwoCalls:
    """The outputs in eager mode of two calls with the same arguments, one after the other.

    written: the tensors among the arguments that a call writes to.
    draws: the first call draws random numbers.
    filled: as of `FlatProgram`. grown: the names of arguments that are no tensors and that a call changes.
    changes: what the second call changes in the program, or else the first one: the path of a buffer or an attribute,
        and the user's line.
    numbers: as of `FlatProgram`.
    """

    first: list[Array]
    second: list[Array]
    written: list[str]
    draws: bool
    filled: list[int]
    grown: list[str]
    changes: list[tuple[str, str]]
    numbers: list[int]


def run_twice(program: FlatProgram, around_second: Callable[[Callable[[], None]], None]) -> TwoCalls:
    """Calls the program twice in eager mode, with the same random numbers. `around_second`: makes the second call."""
    calls: list[list[Array]] = []
    numbers: list[int] = []
    fed: list[tuple[Any, ...]] = []
    grown: list[str] = []

    def call() -> None:
        fed.append(program.fresh())
        args, kwargs = program.unflattened(fed[-1])
        given = State(None, bound_arguments(program.program, args, kwargs))
        with torch.no_grad(), users_code():
            returned = program.program(*args, **kwargs)
        calls.append(arrays_of(returned))
        numbers[:] = [n for n, (_, each) in enumerate(leaves(returned)) if not isinstance(each, torch.Tensor)]
        grown.extend(name for name, _ in given.changes({}))

    with as_it_was(program.program) as before:
        random = torch.random.get_rng_state()
        with before.writes() as writes:
            call()
        draws = not torch.equal(random, torch.random.get_rng_state())
        between = State(program.program)
        torch.random.set_rng_state(random)
        around_second(call)
        written = program.written_of(fed[0], program.tensors)
        changes = between.changes(writes.lines) or before.changes(writes.lines)
        filled, unique = program.places_filled(), [*dict.fromkeys(grown)]
        return TwoCalls(calls[0], calls[1], written, draws, filled, unique, changes, numbers)


def run_by(
    program: FlatProgram, runner: ScriptRunner, later: Sequence[torch.Tensor] | None = None,
    exports: dict[str, Any] | None = None,
) -> list[Array] | Failure:  # fmt: skip
    """Returns the outputs by a runner, or why there are none.

    `later`: the tensors that it is fed after the export, which has those among the arguments. A runner that asks for
    operands once exports nothing that another call could use: that is a failure of the runner (`ours`). `exports`: of
    this program, kept for the next run; a run with what was exported before feeds `later` at once.
    """
    asked, again = 0, bool(exports)
    fed: tuple[Any, ...] | None = None

    def fresh() -> tuple[Any, ...]:
        nonlocal asked, fed
        asked += 1
        first = asked == 1 and not again
        fed = program.fresh(None if first else later)
        if not first and ".numpy()" in runner.run:
            fed = tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in fed)
        return fed

    try:
        run = function_of(runner, exports)
    except (ImportError, SystemExit) as error:
        return Failure(f"the runtime cannot be imported: {one_line(error)}", ours=True)
    reason = _unfit(program.tensors, runner)
    if reason:
        return Failure(reason, ours=True)
    try:
        with as_it_was(program.program), torch.no_grad(), _tracer_warnings(program.warned):
            given: Any = run(program, fresh)
            arrays = arrays_of(tensors_of(given) if isinstance(given, list) else given)  # pyright: ignore[reportUnknownArgumentType] # a runner's
    except (Exception, SystemExit) as error:
        return failure_of(error, runner, program)
    if later is not None and asked < 2 and not again:
        return Failure("it exports and runs in one call", ours=True)
    program.written = [] if fed is None else program.written_of(fed, program.tensors if later is None else later)
    return arrays


def function_of(runner: ScriptRunner, exports: dict[str, Any] | None = None) -> Run:
    """Returns the function `run(model, fresh)` of a runner. Raises what its imports raise. `exports`: keeps what the
    calls of `EXPORTS` return, and gives it to later calls."""
    kept: dict[str, Any] = {} if exports is None else exports

    def once(name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        if name not in kept:
            kept[name] = call(*args, **options)
        return kept[name]

    body = runner.run
    for name in EXPORTS:
        body = body.replace(f"{name}(", f"once({name!r}, {name}, ")
    text = "\n".join([*runner.imports, f"PROPERTIES = {dict(runner.properties)!r}", "", body, ""])
    linecache.cache[RUNNER_FILE] = (len(text), None, text.splitlines(keepends=True), RUNNER_FILE)
    names: dict[str, Any] = {"torch": torch, "np": np, "__name__": "__runner__", "once": once}
    exec(compile(text, RUNNER_FILE, "exec"), names)
    return names["run"]


def _dimensions(shape: Sequence[Any]) -> list[int | None]:
    """The sizes of a shape, None for any; OpenVINO has a separate type for them."""
    return [each if isinstance(each, int) else None if isinstance(each, str) else _static(each) for each in shape]


def _fits(sizes: Sequence[int | None], tensor: torch.Tensor) -> bool:
    return len(sizes) == tensor.dim() and all(a in (None, b) for a, b in zip(sizes, tensor.shape, strict=True))


def _in_order(
    inputs: Sequence[Sequence[int | None]], places: Sequence[int], tensors: Sequence[torch.Tensor]
) -> list[int]:
    """The places of the tensors for inputs: in order, if all fit; else by shape, if one assignment fits."""
    if all(_fits(sizes, tensors[place]) for sizes, place in zip(inputs, places, strict=True)):
        return [*places]
    fitting = [[place for place in places if _fits(sizes, tensors[place])] for sizes in inputs]
    if all(len(each) == 1 for each in fitting) and len({each[0] for each in fitting}) == len(places):
        return [each[0] for each in fitting]
    return [*places]


def _number(text: str, count: int) -> int | None:
    return int(text) if text.isdecimal() and int(text) < count else None


def _static(size: Any) -> int | None:
    return int(size.get_length()) if getattr(size, "is_static", False) else None


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for _, leaf in leaves(value) if isinstance(leaf, torch.Tensor)]


def arrays_of(value: Any) -> list[Array]:
    """Returns the tensors of nested outputs as arrays."""
    return [_array(tensor) for tensor in _tensors(value)]


def _bytes(tensor: torch.Tensor) -> Any:
    return np.frombuffer(_array(tensor).tobytes(), np.uint8)


def _array(tensor: torch.Tensor) -> Array:
    from mindgap.aten.tensors import to_numpy

    if tensor.is_quantized:
        tensor = tensor.int_repr()
    # `ascontiguousarray` would make a 0-d array 1-d.
    return np.array(to_numpy(tensor.detach().cpu().resolve_conj().resolve_neg()), order="C")


def _unfit(tensors: Sequence[torch.Tensor], runner: ScriptRunner) -> str:
    """Why the runner cannot feed these arguments; empty where it can."""
    if ".numpy()" not in runner.run:
        return ""
    takes_bfloat16 = "torch.bfloat16" in runner.run
    for tensor in tensors:
        if tensor.dtype == torch.bfloat16 and takes_bfloat16:
            continue
        if tensor.is_complex():
            return "a complex argument has no form that the exported model takes"
        try:
            tensor.new_empty(0).numpy()
        except TypeError:
            return f"numpy has no {str(tensor.dtype).removeprefix('torch.')}, in which an argument is given"
    return ""


@contextlib.contextmanager
def _tracer_warnings(found: list[tuple[str, str]]) -> Generator[None]:
    """Collects what tracing warns of in the user's code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", torch.jit.TracerWarning)  # pyright: ignore[reportPrivateImportUsage] # documented
        yield
    for each in caught:
        line = users_line_in(f'File "{each.filename}", line {each.lineno}')
        if line:
            found.append((line, str(each.message).partition(".")[0].partition(" might cause")[0]))
