"""Translates an ONNX model to a PyTorch module; what is known before it runs is computed once."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.onnx_files.model_proto import (
    attributes_of,
    constant_of,
    domain_of,
    has_one_condition,
    initial_value,
    initial_values,
    node_name,
    op_of,
    repeated_graph,
    subgraphs,
    unique_name,
)
from mindgap.onnx_files.node import TRANSLATIONS, ConstantResults, OnnxNode
from mindgap.onnx_files.sequences import SEQUENCE_OPERATORS, translate_sequence
from mindgap.sources.translated_model import (
    MissingTranslation,
    TranslatedModel,
    TranslatedNode,
    Unrunnable,
    Untranslated,
)

for _family in (
    "pointwise",
    "shapes",
    "reductions",
    "layers",
    "resampling",
    "fourier",
    "recurrent",
    "quantised",
    "microsoft",
    "attention",
    "machine_learning",
):
    importlib.import_module(f"mindgap.onnx_files.{_family}")  # each registers its translations

#: Operators whose results are facts about shapes.
_OF_SHAPES: Final = frozenset({"Shape", "Size"})
#: Operators that hold graphs -> operands that decide which of their nodes run, and how often.
_CONTROL: Final[Mapping[str, tuple[int, ...]]] = {"If": (0,), "Loop": (0, 1), "Scan": ()}
#: Operators that are resolved while the model is translated -> operands that must be known.
_KNOWN: Final = {**_CONTROL, **SEQUENCE_OPERATORS}
_ITERATIONS: Final = 1000
#: A trip count that no loop reaches, such as the largest int64.
_ENDLESS: Final = 1 << 31


#: Called with each node, its operands (None where left out) and its results.
OnNode = Callable[[Any, Sequence[torch.Tensor | None], Sequence[torch.Tensor | None]], None]


def translated(
    model: Any, given: Mapping[str, torch.Tensor], on_node: OnNode | None = None, baked: set[str] | None = None,
    initial: Mapping[str, torch.Tensor] | None = None,
) -> TranslatedModel:  # fmt: skip
    """Returns the program of an ONNX model (`onnx.ModelProto`) that was run on these inputs.

    `given`: a tensor for each input. `baked`: inputs that become constants, by default those that give shapes, axes and
    the like. A subgraph of `If`, `Loop` or `Scan` is taken along the path that these inputs take, where the values of
    other inputs do not decide it. `on_node` is called after each node. `initial`: the initializers, where they are
    known (`initial_values`). Raises `Untranslated`, with the node's name, for an operator, an attribute or a type
    without an equivalent, and if nothing depends on an input any more.
    """
    if baked is None:
        baked = structural_names(model.graph.node) & set(given)
    work = Translation(model, given, on_node, baked, initial_values(model) if initial is None else initial)
    work.run(model.graph.node, Scope({}, ""))
    outputs = [value.name for value in model.graph.output]
    for name in outputs:
        if name in work.sequences:
            raise MissingTranslation(f"output {name} is a sequence")
        if name not in work.values:
            raise Untranslated(f"output {name} is given by no node")
    if all(name in work.known for name in outputs):
        program = work.module(outputs)
        raise ConstantResults({name: work.values[name] for name in outputs}, program if program.steps else None)
    return work.module(outputs)


def bakeable(model: Any, given: Mapping[str, torch.Tensor]) -> set[str]:
    """Returns the inputs of a model that may become constants: what an operator needs to know, and integers from which
    that is computed. What is computed from the floats of an input is no fact about shapes."""
    direct = {
        node.input[i] for node in model.graph.node if op_of(node) in TRANSLATIONS
        for i in TRANSLATIONS[op_of(node)].structural if i < len(node.input)
    }  # fmt: skip
    names = structural_names(model.graph.node) & set(given)
    return {name for name in names if name in direct or not given[name].is_floating_point()}


def is_translated(node: Any) -> bool:
    op = op_of(node)
    return op in TRANSLATIONS or op in _OF_SHAPES or op in _KNOWN or op == "Constant"


def structural_names(nodes: Sequence[Any]) -> set[str]:
    """Returns names of values that must be known before the model runs: structural operands and what they are
    computed from."""
    names: set[str] = set()
    for node in reversed(nodes):
        op = op_of(node)
        for graph in subgraphs(node):
            names |= structural_names(graph.node)
        if op in _OF_SHAPES or op == "Constant":
            continue
        positions: Iterable[int] = TRANSLATIONS[op].structural if op in TRANSLATIONS else _KNOWN.get(op, ())
        if any(name in names for name in node.output):
            positions = range(len(node.input))
        names.update(node.input[i] for i in positions if i < len(node.input) and node.input[i])
    return names


class Scope:
    """The values that the nodes of one graph see. `names`: name in the graph -> name in the program."""

    def __init__(self, names: dict[str, str], prefix: str) -> None:
        self.names = names
        self.prefix = prefix

    def bind(self, name: str) -> str:
        """Returns the program's name of a result."""
        return self.names.setdefault(name, f"{self.prefix}{name}") if self.prefix else name

    def of(self, name: str) -> str:
        return self.names.get(name, name)

    def inner(self, prefix: str) -> Scope:
        return Scope(dict(self.names), f"{self.prefix}{prefix}/")


class Translation:
    """What is known while a model is translated. `values`: of all names so far; `known`: those that no input changes;
    `folded`: those of them that become constants of the program; `sequences`: the values that each sequence holds."""

    def __init__(
        self, model: Any, given: Mapping[str, torch.Tensor], on_node: OnNode | None, baked: set[str],
        initial: Mapping[str, torch.Tensor],
    ) -> None:  # fmt: skip
        self.opsets = {domain_of(each): each.version for each in model.opset_import}
        self.given, self.baked, self.on_node = given, baked, on_node
        self.initial = initial
        self.values: dict[str, torch.Tensor] = {**self.initial, **given}
        self.known = baked | (set(self.initial) - set(given))
        self.folded = set(baked)
        self.sequences: dict[str, tuple[str, ...]] = {}
        self.steps: list[TranslatedNode] = []
        self.names: set[str] = set()

    def module(self, outputs: Sequence[str]) -> TranslatedModel:
        return TranslatedModel(
            [name for name in self.given if name not in self.baked],
            {name: to_numpy(self.given[name]) for name in self.given if name in self.baked},
            {name: value for name, value in self.values.items() if name in self.known},
            set(self.initial), self.steps, outputs,
        )  # fmt: skip

    def run(self, nodes: Sequence[Any], scope: Scope) -> None:
        for index, node in enumerate(nodes):
            op = op_of(node)
            name = self.named(f"{scope.prefix}{node_name(node, index)}")
            try:
                if op == "Constant":
                    self.keep(scope.bind(node.output[0]), constant_of(node), folded=True)
                elif op in _OF_SHAPES:
                    self.keep(scope.bind(node.output[0]), self._fact(node, scope), folded=True)
                elif op in SEQUENCE_OPERATORS:
                    translate_sequence(self, node, name, scope)
                elif op in _CONTROL:
                    {"If": self._if, "Loop": self._loop, "Scan": self._scan}[op](node, name, scope)
                else:
                    self._step(node, op, name, scope)
            except Untranslated as error:
                raise (error if error.located else error.at(name, op)) from error

    def named(self, name: str) -> str:
        return unique_name(name, self.names)

    def keep(self, name: str, tensor: torch.Tensor, folded: bool) -> None:
        self.values[name] = tensor
        self.known.add(name)
        if folded:
            self.folded.add(name)

    def value(self, name: str, scope: Scope) -> torch.Tensor:
        known = scope.of(name)
        if known not in self.values:
            raise Untranslated(f"operand {name} is given by no node before it")
        return self.values[known]

    def _fact(self, node: Any, scope: Scope) -> torch.Tensor:
        shape, attributes = tuple(self.value(node.input[0], scope).shape), attributes_of(node)
        if node.op_type == "Size":
            return torch.tensor(int(np.prod(shape, dtype=np.int64)))
        return torch.tensor(shape[slice(attributes.get("start", 0), attributes.get("end"))], dtype=torch.int64)

    def _step(self, node: Any, op: str, name: str, scope: Scope) -> None:
        if op not in TRANSLATIONS:
            raise Untranslated(f"operator {op} has no translation")
        structural: dict[int, Any] = {}
        operands: list[str] = []
        for position, each in enumerate(node.input):
            tensor = scope.of(each) if each else ""
            if each:
                self.value(each, scope)  # it is there
            if not each or position not in TRANSLATIONS[op].structural:
                operands.append(tensor)
                continue
            if tensor not in self.known:
                raise MissingTranslation(f"operand {position} of {node.op_type} is computed from the inputs")
            structural[position] = to_numpy(self.value(each, scope))
            operands.append("")
        wanted = tuple(bool(each) for each in node.output)
        one = OnnxNode(op, attributes_of(node), structural, wanted, self.opsets.get(domain_of(node), 1), name)
        outputs = [scope.bind(each) if each else "" for each in node.output]
        results = self.ran(one, operands, outputs, [scope.of(each) for each in node.input if each])
        if self.on_node is not None:
            given = [self.value(each, scope) if each else None for each in node.input]
            self.on_node(node, given, [results.get(each) for each in outputs])

    def _note(self, step: TranslatedNode, results: Mapping[str, torch.Tensor], operands: Sequence[str]) -> None:
        """A step of known integers is arithmetic of shapes and becomes a constant. One of weights stays a step, though
        its result is known."""
        known = all(name in self.known for name in operands)
        floats = any(t.is_floating_point() or t.is_complex() for t in results.values())
        if known:
            self.known.update(results)
        if known and (not floats or all(name in self.folded for name in operands)):
            self.folded.update(results)
        else:
            self.steps.append(step)

    def ran(
        self, node: OnnxNode, operands: Sequence[str], outputs: Sequence[str], read: Sequence[str]
    ) -> dict[str, torch.Tensor]:
        """Runs a node and notes it. `read`: all its operands; `operands` has "" in the place of those that are left out
        or structural."""
        function = functools.partial(TRANSLATIONS[node.op].function, node)
        step = TranslatedNode(node.name, node.op, function, operands, outputs)
        computed = step.run(self.values)
        if len(computed) < sum(node.wanted):
            raise Untranslated(f"{node.op} gives {len(computed)} of the {sum(node.wanted)} outputs asked for")
        results = {name: tensor for name, tensor in zip(outputs, computed, strict=False) if name}
        self.values.update(results)
        self._note(step, results, read)
        return results

    def _decision(self, node: Any, position: int, scope: Scope) -> int | None:
        if position >= len(node.input) or not node.input[position]:
            return None
        name = node.input[position]
        value = self.value(name, scope)
        if scope.of(name) not in self.known:
            decided = "which branch" if node.op_type == "If" else "how often it"
            raise MissingTranslation(f"the values of the inputs decide {decided} runs")
        if value.numel() != 1:
            raise Untranslated(f"operand {position} is one value, and {name} has {value.numel()}")
        return int(value.reshape(()))

    def _if(self, node: Any, name: str, scope: Scope) -> None:
        graphs = {each.name: each.g for each in node.attribute}
        taken = "then_branch" if self._decision(node, 0, scope) else "else_branch"
        if taken not in graphs or len(graphs[taken].output) != len(node.output):
            raise Untranslated(f"it has no {taken} with its {len(node.output)} outputs")
        graph = graphs[taken]
        inner = scope.inner(name)
        self.run(graph.node, self._initialised(graph, inner))
        for given, result in zip(graph.output, node.output, strict=True):
            self.alias(inner.of(given.name), result, scope)

    def alias(self, name: str, result: str, scope: Scope) -> None:
        """Gives a value a second name, that of a result of the node around it."""
        if name in self.sequences:
            self.sequences[scope.bind(result)] = self.sequences[name]
            return
        if name not in self.values:
            raise Untranslated(f"{name}, an output of its graph, is given by no node")
        target = scope.bind(result)
        one = OnnxNode("Identity", {}, {}, (True,), name=self.named(f"{target}/output"))
        self.ran(one, (name,), (target,), (name,))

    def _initialised(self, graph: Any, scope: Scope) -> Scope:
        for one in graph.initializer:
            self.keep(scope.bind(one.name), initial_value(one), folded=True)
        return scope

    def _loop(self, node: Any, name: str, scope: Scope) -> None:
        carries = max(len(node.input) - 2, 0)
        graph = repeated_graph(node, 2 + carries, 1 + carries)
        count, going = self._decision(node, 0, scope), self._decision(node, 1, scope)
        endless = (count is None or count >= _ENDLESS) and has_one_condition(graph)
        carried = [scope.of(each) for each in node.input[2:]]
        collected: list[list[str]] = [[] for _ in graph.output[1 + len(carried) :]]
        index = 0
        while (count is None or index < count) and (going is None or going):
            if index >= _ITERATIONS:
                raise MissingTranslation(f"more than {_ITERATIONS} iterations")
            inner = scope.inner(f"{name}#{index}")
            self._initialised(graph, inner)
            self.keep(inner.bind(graph.input[0].name), torch.tensor(index), folded=True)
            self.keep(inner.bind(graph.input[1].name), torch.tensor(True), folded=True)
            for given, value in zip(graph.input[2:], carried, strict=True):
                inner.names[given.name] = value
            self.run(graph.node, inner)
            results = [inner.of(each.name) for each in graph.output]
            if results[0] not in self.known:
                raise MissingTranslation("the values of the inputs decide how often it runs")
            if self.values[results[0]].numel() != 1:
                raise Untranslated(
                    f"its condition {results[0]} has {self.values[results[0]].numel()} values, and not one"
                )
            going, carried = int(self.values[results[0]].reshape(())), results[1 : 1 + len(carried)]
            if endless and going:
                raise Unrunnable(
                    "it never ends: its condition is always true, and it has no trip count; give it one (its first "
                    "input), or a condition that comes to false"
                )
            for values, each in zip(collected, results[1 + len(carried) :], strict=True):
                values.append(each)
            index += 1
        for value, result in zip(carried, node.output, strict=False):
            if result:
                self.alias(value, result, scope)
        for values, result in zip(collected, node.output[len(carried) :], strict=False):
            if result:
                self._stack(values, result, name, scope)

    def _stack(self, values: Sequence[str], result: str, name: str, scope: Scope, axis: int = 0) -> None:
        if not values:
            raise Untranslated("it collects nothing: no iteration runs")
        target = scope.bind(result)
        one = OnnxNode("mindgap.Stack", {"axis": axis}, {}, (True,), name=self.named(f"{name}/{result}"))
        self.ran(one, tuple(values), (target,), values)

    def _scan(self, node: Any, name: str, scope: Scope) -> None:
        if self.opsets.get("", 9) < 9:
            raise Untranslated("of before operator set 9")
        attributes = {each.name: [*each.ints] for each in node.attribute}
        count = next((int(each.i) for each in node.attribute if each.name == "num_scan_inputs"), 0)
        if not 0 < count <= len(node.input):
            raise Untranslated(f"num_scan_inputs is {count}, and it has {len(node.input)} operands")
        graph = repeated_graph(node, len(node.input), len(node.input) - count)
        states = [scope.of(each) for each in node.input[: len(node.input) - count]]
        scanned = [scope.of(each) for each in node.input[len(states) :]]
        operands = [self.value(each, scope) for each in node.input[len(states) :]]
        axes: list[int] = attributes.get("scan_input_axes", [0] * count)
        directions: list[int] = attributes.get("scan_input_directions", [0] * count)
        if not all(-each.dim() <= axis < each.dim() for each, axis in zip(operands, axes, strict=True)):
            raise Untranslated("what it scans lacks an axis")
        if len({operand.shape[axis] for operand, axis in zip(operands, axes, strict=True)}) != 1:
            raise Untranslated("what it scans has no common length")
        length = int(operands[0].shape[axes[0]])
        if length > _ITERATIONS:
            raise MissingTranslation(f"more than {_ITERATIONS} iterations")
        collected: list[list[str]] = [[] for _ in graph.output[len(states) :]]
        for index in range(length):
            inner = self._initialised(graph, scope.inner(f"{name}#{index}"))
            for given, value in zip(graph.input[: len(states)], states, strict=True):
                inner.names[given.name] = value
            for place, (given, value) in enumerate(zip(graph.input[len(states) :], scanned, strict=True)):
                at = length - 1 - index if directions[place] else index
                self._select(value, inner.bind(given.name), at, axes[place])
            self.run(graph.node, inner)
            outputs_inside = [inner.of(each.name) for each in graph.output]
            states = outputs_inside[: len(states)]
            for values, each in zip(collected, outputs_inside[len(states) :], strict=True):
                values.append(each)
        for value, result in zip(states, node.output, strict=False):
            if result:
                self.alias(value, result, scope)
        results = len(graph.output) - len(states)
        turned: list[int] = attributes.get("scan_output_directions", [0] * results)
        along: list[int] = attributes.get("scan_output_axes", [0] * results)
        for place, (values, result) in enumerate(zip(collected, node.output[len(states) :], strict=False)):
            if result:
                self._stack(values[:: -1 if turned[place] else 1], result, name, scope, along[place])

    def _select(self, value: str, target: str, index: int, axis: int) -> None:
        one = OnnxNode("mindgap.Select", {"index": index, "axis": axis}, {}, (True,), name=self.named(target))
        self.ran(one, (value,), (target,), (value,))
