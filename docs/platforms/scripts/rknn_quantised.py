"""Quantises an ONNX model as RKNN-Toolkit2 does, writes it with `QuantizeLinear` and `DequantizeLinear`, and compares
the integers that the toolkit's simulator gives for each layer with the exact quotient of what it gave before that:

    mindgap env list    # the path of the Python of the environment `rknn`
    PYTHON docs/platforms/scripts/rknn_quantised.py MODEL.onnx LIST.txt OUT.onnx [CHIP]

LIST.txt: a list of .npy files, one line for each set of inputs; the comparison is on the first line. The exit status is
1 where a layer differs, 2 where the model cannot be written or no layer compared. LIST.txt has absolute paths.

Scales and zero points are those of `hybrid_quantization_step1`, the maker's function, which also writes the graph after
its passes as ONNX. `accuracy_analysis` writes what the simulator gives for each layer.
"""

from __future__ import annotations

import os
import pickle
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from rknn.api import RKNN

#: Of a step: what float32 may move an exact quotient by.
NEAR_TIE = 1e-3
KINDS = {"int8": np.int8, "int32": np.int32}


class NotWritten(Exception):
    """The model cannot be written, or nothing of it be compared."""


class QuantisedModel:
    """Writes the toolkit's graph with its quantisation spelled out.

    table: what the toolkit knows of each tensor. given: what the simulator gives for each layer. A result that is not
    a multiple of its scale there is not quantised: the toolkit computes it and the operator behind it at once.
    """

    def __init__(self, model: onnx.ModelProto, table: Mapping[str, Any], given: Mapping[str, Any]) -> None:
        self.table, self.given, self.nodes, self.initializers = table, given, [], []
        self.integers: dict[str, str] = {}  # of a layer's result, the name of its integers
        self.left_out: list[str] = []  # int8 to the toolkit, and no multiples of their scale
        graph = model.graph
        weights = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        for name, array in weights.items():
            self._weight(name, array)
        readers = {name: [node.op_type for node in graph.node if name in node.input] for name in table}
        for node in graph.node:
            self._node(node, readers.get(node.output[0], []))
        inputs = [each for each in graph.input if each.name not in weights]
        made = helper.make_graph(self.nodes, "quantised", inputs, graph.output, self.initializers)
        self.proto = helper.make_model(made, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        onnx.checker.check_model(self.proto)

    def _kind(self, name: str) -> str:
        return self.table[name]["dtype"] if name in self.table else ""

    def _parameters(self, name: str) -> tuple[list[str], Any, Any]:
        """The names of scale and zero point, and their values: numbers, or one for each channel."""
        of = self.table[name]
        scale, zero = np.array(of["scale"], np.float32), np.array(of["zero_point"], KINDS[of["dtype"]])
        if scale.size == 1:
            scale, zero = scale.reshape(()), zero.reshape(())
        names = [f"{name}.scale", f"{name}.zero_point"]
        self.initializers += [numpy_helper.from_array(a, n) for a, n in zip((scale, zero), names, strict=True)]
        return names, scale, zero

    def scale_and_zero(self, name: str) -> tuple[float, int]:
        """The scale and the zero point of a layer's result."""
        of = self.table[name]
        return float(np.float32(of["scale"][0])), int(of["zero_point"][0])

    def integers_of(self, name: str) -> Any:
        """What the simulator gives for a layer, over its scale, with the zero point."""
        scale, zero = self.scale_and_zero(name)
        return self.given[name].astype(np.float64) / scale + zero

    def _is_multiple(self, name: str) -> bool:
        moved = self.integers_of(name)
        return bool(np.abs(moved - np.rint(moved)).max() < NEAR_TIE)

    def _weight(self, name: str, array: Any) -> None:
        if self._kind(name) not in KINDS:
            self.initializers.append(numpy_helper.from_array(array, name))
            return
        names, scale, zero = self._parameters(name)
        shape = (-1, *[1] * (array.ndim - 1)) if scale.ndim else ()
        limits = np.iinfo(zero.dtype)
        # The shape of the quotient is the array's: one scale for each row.
        moved = np.rint(array / scale.reshape(shape)) + zero.reshape(shape).astype(np.int64)
        whole = np.clip(moved, limits.min, limits.max).astype(zero.dtype)
        self.initializers.append(numpy_helper.from_array(whole, f"{name}.integers"))
        self.nodes.append(
            helper.make_node("DequantizeLinear", [f"{name}.integers", *names], [name], f"{name}.DQ", axis=0)
        )

    def _node(self, node: onnx.NodeProto, readers: list[str]) -> None:
        result = node.output[0]
        converts = node.op_type == "exDataConvert"
        if node.op_type.startswith("ex") and not converts:
            raise NotWritten(f"ONNX has no {node.op_type}, which the toolkit made (of {result})")
        # The simulator gives the result of a Relu and what is before it at once.
        whole = self._kind(result) == "int8" and readers != ["Relu"]
        quantised = whole and self._is_multiple(result)
        if whole and not quantised:
            self.left_out.append(result)
        given = node.input[0] if converts else f"{result}.float" if quantised else result
        if not converts:
            node.output[0] = given
            self.nodes.append(node)
        elif not quantised:
            self.nodes.append(helper.make_node("Identity", [given], [result], f"{result}.Identity"))
        if quantised:
            names, *_ = self._parameters(result)
            self.integers[result] = f"{result}.integers"
            self.nodes += [
                helper.make_node("QuantizeLinear", [given, *names], [f"{result}.integers"], f"{result}.Q"),
                helper.make_node("DequantizeLinear", [f"{result}.integers", *names], [result], f"{result}.DQ"),
            ]


def main(model: Path, calibration: Path, out: Path, chip: str = "rk3588") -> int:
    """Writes the quantised model, and prints of each layer how many integers are other than expected."""
    files = calibration.read_text().splitlines()[0].split()
    if bad := [file for file in files if not Path(file).is_absolute() or not Path(file).is_file()]:
        raise NotWritten(f"{calibration}: {bad[0]} is not the absolute path of a file")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # the toolkit writes into the working directory
        given = _simulated(model, calibration, chip, files)
        quantised = _quantised(model, calibration, chip, given)
    onnx.save(quantised.proto, out)
    integers = {name: np.rint(quantised.integers_of(name)).astype(np.int8) for name in quantised.integers}
    if not integers:
        raise NotWritten(f"no layer of {model} is of whole steps of its scale: nothing was compared")
    for name in quantised.left_out:
        print(f"{name}: not compared, since its values are no multiples of its scale")
    wrong = 0
    for name, exact in _exact(quantised, integers, files).items():
        scale, zero = quantised.scale_and_zero(name)
        moved = np.clip(exact.astype(np.float64) / scale + zero, -128, 127)
        off = np.abs(moved.reshape(-1) - integers[name].reshape(-1))
        bad = int((off > 0.5 + NEAR_TIE).sum())
        wrong += bad
        steps = int(np.abs(np.rint(moved.reshape(-1)) - integers[name].reshape(-1)).max())
        print(f"{name}: {bad} of {off.size} integers are wrong, {off.max():.3f} from the exact quotient, {steps} steps")
    return 1 if wrong else 0


def _loaded(model: Path, chip: str) -> RKNN:
    rknn = RKNN(verbose=False)
    if rknn.config(target_platform=chip) or rknn.load_onnx(str(model)):
        raise NotWritten(f"RKNN-Toolkit2 does not load {model}")
    return rknn


def _quantised(model: Path, calibration: Path, chip: str, given: Mapping[str, Any]) -> QuantisedModel:
    rknn = _loaded(model, chip)
    if rknn.hybrid_quantization_step1(dataset=str(calibration)):
        raise NotWritten(f"RKNN-Toolkit2 does not quantise {model}")
    # The toolkit has just written this pickle: of numbers, and a Namespace of its settings.
    with Path(f"{model.stem}.data").open("rb") as file:
        table = pickle.load(file)["quant_tab"]
    return QuantisedModel(onnx.load(f"{model.stem}.model"), table, given)


def _simulated(model: Path, calibration: Path, chip: str, files: list[str]) -> dict[str, Any]:
    """What the simulator gives for each layer, where `build` quantises as users have it do."""
    rknn = _loaded(model, chip)
    if rknn.build(do_quantization=True, dataset=str(calibration)):
        raise NotWritten(f"RKNN-Toolkit2 does not build {model}")
    rknn.accuracy_analysis(inputs=files, output_dir="layers")
    return {file.stem: np.load(file) for file in Path("layers/simulator/npy").glob("*.npy")}


def _exact(quantised: QuantisedModel, integers: dict[str, Any], files: list[str]) -> dict[str, Any]:
    """What each layer computes of the integers that the simulator gave before it, before it is quantised."""
    probed = onnx.ModelProto()
    probed.CopyFrom(quantised.proto)
    graph, results = probed.graph, {}
    for node in list(graph.node):
        if node.op_type == "QuantizeLinear":
            results[node.output[0]] = node.input[0]
            graph.input.append(helper.make_tensor_value_info(node.output[0], onnx.TensorProto.INT8, None))
            graph.node.remove(node)
    del graph.output[:]
    graph.output.extend(helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in set(results.values()))
    own = [each.name for each in quantised.proto.graph.input]
    feeds: dict[str, Any] = {name: np.load(file) for name, file in zip(own, files, strict=True)}
    feeds |= {of: integers[name] for name, of in quantised.integers.items()}
    names = [each.name for each in graph.output]
    found = dict(zip(names, ReferenceEvaluator(probed).run(names, feeds), strict=True))
    return {name: found[results[of]] for name, of in quantised.integers.items()}


if __name__ == "__main__":
    paths = [Path(each).resolve() for each in sys.argv[1:4]]
    try:
        sys.exit(main(*paths, *sys.argv[4:]))
    except NotWritten as problem:
        print(problem, file=sys.stderr)
        sys.exit(2)
