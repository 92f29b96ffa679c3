"""Cuts an ONNX model into parts that run alone, and evaluates nodes with ONNX's reference evaluator.

A part keeps the operator sets, the functions, the names and the weights of the model: a runtime takes the kernels for
it that it takes for the same nodes of the whole. Its other operands are inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Array
from mindgap.onnx_files.model_proto import initial_value, node_name, op_of, used_names
from mindgap.onnx_files.node import ConstantResults
from mindgap.onnx_files.reference_check import FAULTY_BEFORE, is_faulty
from mindgap.onnx_files.translation import bakeable, translated
from mindgap.sources.source import one_line
from mindgap.sources.translated_model import Untranslated

#: Operators that draw random numbers, or may: each run gives others.
_RANDOM: Final = frozenset({
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
})  # fmt: skip


@dataclass
class CutModel:
    """A completed model, and the values that are known so far, by name: inputs, weights, results of nodes."""

    model: Any
    folder: Path
    values: dict[str, Array]
    _weights: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self._weights = {each.name: each for each in self.model.graph.initializer}
        for name, each in self._weights.items():
            if name not in self.values:
                self.values[name] = to_numpy(initial_value(each, self.folder))

    def name(self, place: int) -> str:
        return node_name(self.model.graph.node[place], place)

    def op(self, place: int) -> str:
        return op_of(self.model.graph.node[place])

    def results(self, place: int) -> list[str]:
        return [name for name in self.model.graph.node[place].output if name]

    def operands(self, places: Sequence[int]) -> list[str]:
        """Returns the names of the values that nodes use and do not make."""
        nodes = [self.model.graph.node[place] for place in places]
        made = {name for node in nodes for name in node.output}
        used = dict.fromkeys(name for node in nodes for name in used_names(node) if name and name not in made)
        return [name for name in used if name in self.values]

    def part(self, places: Sequence[int], outputs: Sequence[str]) -> Any:
        """Returns a model of these nodes, which has these outputs. All operands are known."""
        import onnx

        helper: Any = onnx.helper  # typed in parts
        names = self.operands(places)
        weights = [self._stored(name) for name in names if name in self._weights]
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in self.fed(places).items()
        ]
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        graph = helper.make_graph([self.model.graph.node[place] for place in places], "part", inputs, results, weights)
        made = helper.make_model(graph, opset_imports=self.model.opset_import, functions=self.model.functions)
        made.ir_version = self.model.ir_version
        return made

    def fed(self, places: Sequence[int]) -> dict[str, Array]:
        return {name: self.values[name] for name in self.operands(places) if name not in self._weights}

    def _stored(self, name: str) -> Any:
        from onnx import TensorProto, external_data_helper, numpy_helper

        tensor = self._weights[name]
        if not external_data_helper.uses_external_data(tensor):
            return tensor
        loaded = TensorProto()
        loaded.CopyFrom(tensor)
        array = numpy_helper.to_array(loaded, str(self.folder))
        return numpy_helper.from_array(array, name)

    def evaluated(self, place: int, wide: bool = False) -> dict[str, Array] | str:
        """Returns the results of a node by the reference evaluator, or else by its translation; or why there are none.
        `wide`: of float32 operands in float64, by the evaluator."""
        values = self._evaluator_results(place, wide)
        if isinstance(values, str) and not wide and self.op(place) not in _RANDOM:
            return self.by_translation(place) or values
        return values

    def by_translation(self, place: int) -> dict[str, Array]:
        """Returns the results of a node by its translation; none where it has none for these operands."""
        from mindgap.onnx_files.file import expanded

        part, names = self.part([place], self.results(place)), self.results(place)
        fed = self.fed([place])
        try:
            tensors = {name: to_torch(array) for name, array in fed.items()}
            with torch.no_grad():
                program = translated(expanded(part), tensors, baked=bakeable(part, tensors))
                results: Mapping[str, torch.Tensor] = program(*[tensors[name] for name in program.argument_names])
        except ConstantResults as constant:
            results = constant.values
        except (Untranslated, TypeError, KeyError):  # of texts and sequences there are no tensors
            return {}
        return {name: to_numpy(results[name]) for name in names}

    def _evaluator_results(self, place: int, wide: bool) -> dict[str, Array] | str:
        from onnx import reference

        node = self.model.graph.node[place]
        versions = [each.version for each in self.model.opset_import if not each.domain]
        if op_of(node) in _RANDOM:
            return "it may draw random numbers"
        if is_faulty(node) or max(versions, default=0) < FAULTY_BEFORE.get(op_of(node), 0):
            return "the evaluator computes it wrongly"
        part = self.part([place], self.results(place))
        feeds = {name: self.values[name] for name in self.operands([place])}
        if wide:
            feeds = {
                name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in feeds.items()
            }
            del part.graph.initializer[:]
        try:
            with np.errstate(all="ignore"):
                evaluator: Any = reference.ReferenceEvaluator(part)  # typed in parts
                values = evaluator.run(self.results(place), feeds)
        except Exception as error:  # of any type, by operator
            return f"the evaluator fails: {one_line(error)[:80]}"
        return {name: np.asarray(array) for name, array in zip(self.results(place), values, strict=True)}


def cut_model(path: Path, given: Mapping[str, Array]) -> CutModel | str:
    """Opens a model to cut it, or returns why it is not cut. `given`: its inputs."""
    from mindgap.onnx_files.file import load_model

    try:
        held = {name: each.astype(object) if each.dtype.kind in "SU" else each for name, each in given.items()}
        return CutModel(load_model(path), path.resolve().parent, held)
    except Untranslated as error:
        return str(error)
