"""Translates a LiteRT model to a PyTorch module; what is known before it runs is computed once."""

from __future__ import annotations

import functools
import importlib
from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from mindgap.aten.tensors import to_numpy, to_torch, torch_dtype_name
from mindgap.sources.translated_model import TranslatedModel, TranslatedNode, Untranslated
from mindgap_runtimes.litert_files.model import Operator, TfliteModel
from mindgap_runtimes.litert_files.node import TRANSLATIONS, TfliteNode

for _family in ("pointwise", "layers", "shapes"):
    importlib.import_module(f"mindgap_runtimes.litert_files.{_family}")  # each registers its translations


def untranslated(model: TfliteModel) -> str:
    """Returns why a model has no translation: its operators without one, with the first node of each, or a tensor that
    graphs do not hold; empty if it has one."""
    counts = Counter(each.op for each in model.operators if each.op not in TRANSLATIONS)
    first = {each.op: name_of(model, each) for each in reversed(model.operators)}
    if not counts:
        return next((each.unheld for each in model.tensors if each.unheld), "")
    return "no translation of " + ", ".join(
        f"{op if op.startswith(('custom ', 'operator ')) else f'operator {op}'} "
        f"(node {first[op]}{f' and {count - 1} more' if count > 1 else ''})"
        for op, count in counts.items()
    )


def name_of(model: TfliteModel, operator: Operator) -> str:
    """Returns the name of a node: that of its first result."""
    return model.tensors[operator.outputs[0]].name if operator.outputs else "(no result)"


def translated(model: TfliteModel, given: Mapping[str, torch.Tensor]) -> TranslatedModel:
    """Returns the program of a model that was run on these inputs.

    `given`: a tensor for each input. Raises `Untranslated`, with the node's name, for an operator or an option without
    an equivalent, for a result that is not what the file declares, and if nothing depends on an input.
    """
    work = _Translation(model, given)
    for operator in model.operators:
        name = name_of(model, operator)
        try:
            work.run(operator, name)
        except Untranslated as error:
            raise error.at(name, operator.op) from error
    outputs = [model.tensors[i].name for i in model.outputs]
    if missing := [name for name in outputs if name not in work.values]:
        raise Untranslated(f"output {missing[0]} is given by no node")
    if len(set(outputs)) < len(outputs):
        raise Untranslated(f"output {next(name for name, n in Counter(outputs).items() if n > 1)} is given twice")
    if not work.steps:
        raise Untranslated("nothing in it depends on an input: constants decide the result")
    return work.module(outputs)


class _Translation:
    """What is known while a model is translated. `values`: of all names so far; `known`: those that no input
    changes."""

    def __init__(self, model: TfliteModel, given: Mapping[str, torch.Tensor]) -> None:
        self.model, self.given = model, given
        self.constants = {each.name: to_torch(each.data).clone() for each in model.tensors if each.data is not None}
        self.values: dict[str, torch.Tensor] = {**self.constants, **given}
        self.known = set(self.constants) - set(given)
        self.steps: list[TranslatedNode] = []

    def module(self, outputs: Sequence[str]) -> TranslatedModel:
        """Returns the program."""
        known = {name: value for name, value in self.values.items() if name in self.known}
        return TranslatedModel([*self.given], {}, known, set(self.constants), self.steps, outputs)

    def run(self, operator: Operator, name: str) -> None:
        """Runs a node and keeps it as a step. What a node makes of known integers, and shapes, are constants."""
        tensors = self.model.tensors
        read = ["" if i < 0 else tensors[i].name for i in operator.inputs]
        for each in read:
            if each and each not in self.values:
                raise Untranslated(f"operand {each} is given by no node before it")
        positions = TRANSLATIONS[operator.op].structural
        structural = {i: each for i, each in enumerate(read) if i in positions and each}
        for i, each in structural.items():
            if each not in self.known:
                raise Untranslated(f"operand {i} is computed from the inputs")
        node = TfliteNode(
            operator.op, name, tuple(None if i < 0 else tensors[i] for i in operator.inputs),
            tuple(tensors[i] for i in operator.outputs), operator.options,
            {i: to_numpy(self.values[each]) for i, each in structural.items()},
        )  # fmt: skip
        operands = ["" if i in positions else each for i, each in enumerate(read)]
        outputs = [each.name for each in node.outputs]
        function = functools.partial(TRANSLATIONS[operator.op].function, node)
        step = TranslatedNode(name, operator.op, function, operands, outputs)
        results = self._ran(node, step)
        self.values.update(results)
        known = operator.op == "SHAPE" or all(each in self.known for each in read if each)
        if known:
            self.known.update(results)
        if not known or any(each.is_floating_point() for each in results.values()):
            self.steps.append(step)

    def _ran(self, node: TfliteNode, step: TranslatedNode) -> dict[str, torch.Tensor]:
        found = step.run(self.values)
        if len(found) != len(step.outputs):
            raise Untranslated(f"it gives {len(found)} results, and the file declares {len(step.outputs)}")
        for declared, tensor in zip(node.outputs, found, strict=True):
            kind, shape = torch_dtype_name(tensor.dtype), tuple(tensor.shape)
            fits = len(shape) == len(declared.shape) and all(
                axis in declared.open_axes or a == b
                for axis, (a, b) in enumerate(zip(shape, declared.shape, strict=True))
            )
            if not fits or kind != declared.dtype:
                raise Untranslated(
                    f"{declared.name} is declared {declared.dtype}{list(declared.shape)}, and its node gives "
                    f"{kind}{list(shape)}"
                )
        return dict(zip(step.outputs, found, strict=True))
