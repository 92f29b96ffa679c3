"""TensorFlow on a CPU: eager, as a graph (`tf.function`), by XLA (`jit_compile=True`), by LiteRT; and on devices."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (tensorflow is in another environment)

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mindgap.graph import Array
from mindgap_studies.porting_runs.framework_modes import (
    NoArrays,
    SpecialCall,
    example_row,
    example_square,
    functions_of,
    inner_modules,
    one_call,
    widened,
)
from mindgap_studies.porting_runs.function_calls import Drawn, FunctionCall

#: Parts of the package that hold no functions of TensorFlow 2 for users, are Keras's, the operators below functions, or
#: write records and give nothing.
_LEFT_OUT: Final = ("compat", "python", "core", "keras", "tools", "lite", "security", "raw_ops", "summary")


class TensorFlowModes:
    source = "cpu/eager"
    packages = ("tensorflow-cpu", "tensorflow", "ai-edge-litert", "keras")

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        self._tf: Any = importlib.import_module("tensorflow")
        # What a device runs on the CPU instead is lost there, as in the paper.
        self._tf.config.set_soft_device_placement(False)

    def targets(self) -> Mapping[str, Callable[[FunctionCall], Callable[[], Any]]]:
        return {
            "cpu/graph": functools.partial(self._as_graph, False), "cpu/xla": functools.partial(self._as_graph, True),
            "cpu/litert": self._litert, "cuda/eager": self._on_gpu, "tpu/xla": self._on_tpu,
        }  # fmt: skip

    def missing(self, target: str) -> str:
        if target.startswith("cuda"):
            if self._tf.config.list_physical_devices("GPU"):
                return ""
            built = "finds no GPU" if self._tf.test.is_built_with_cuda() else "is built without CUDA"
            return f"TensorFlow {self._tf.__version__} {built}"
        if target.startswith("tpu"):
            return "" if self._tf.config.list_physical_devices("TPU") else "TensorFlow finds no TPU system"
        if target == "cpu/litert":
            try:
                importlib.import_module("ai_edge_litert.interpreter")
            except ImportError as error:
                return f"{error}: pip install ai-edge-litert"
        return ""

    def public(self) -> Mapping[str, Callable[..., Any]]:
        return functions_of(dict(inner_modules("tensorflow", self._tf, _LEFT_OUT)))

    def special(self) -> Mapping[str, Sequence[SpecialCall]]:
        return _special(self._tf)

    def make(self, array: Array, dtype: str) -> Any:
        return self._tf.cast(self._tf.constant(array), dtype)

    def key(self) -> Any:
        return (1, 2)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self._tf.Tensor)

    def is_random(self, name: str) -> bool:
        """Functions with seeds take the generator that suits the device (`alg="auto_select"`)."""
        return name.startswith("tensorflow.random.")

    def run_exact(self, call: FunctionCall) -> Any:
        wide = tuple(self._tf.constant(widened(each.numpy())) for each in call.arrays)
        return self.run_source(replace(call, arrays=wide))

    def run_source(self, call: Callable[[], Any]) -> Any:
        return self.wait(call())

    def wait(self, output: Any) -> Any:
        for each in self._tf.nest.flatten(output):
            if self.is_array(each) and hasattr(each, "numpy"):
                each.numpy()
        return output

    def leaves(self, output: Any) -> list[Any]:
        flat, kinds = self._tf.nest.flatten(output, expand_composites=True), (self._tf.Tensor, self._tf.Variable)
        return [each.numpy() if isinstance(each, kinds) and hasattr(each, "numpy") else each for each in flat]

    def _as_graph(self, compiled: bool, call: FunctionCall) -> Callable[[], Any]:
        function = self._tf.function(call.function, jit_compile=compiled or None, autograph=False)
        return lambda: self.wait(function(*call.arrays))

    def _litert(self, call: FunctionCall) -> Callable[[], Any]:
        """Converts with LiteRT's own operators only: a kernel of TensorFlow in the model would be a fallback."""
        tf = self._tf
        interpreter: Any = importlib.import_module("ai_edge_litert.interpreter")

        def flat(*given: Any) -> Any:
            # A signature orders the fields of a named tuple by their names.
            outputs = tf.nest.flatten(call.function(*given), expand_composites=True)
            if not any(map(self.is_array, outputs)):
                raise NoArrays("it gives no array")
            return outputs

        @functools.cache
        def loaded() -> tuple[Any, list[int], list[int]]:
            specs = [tf.TensorSpec(each.shape, each.dtype) for each in call.arrays]
            concrete = tf.function(flat, autograph=False).get_concrete_function(*specs)
            model = tf.lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module()).convert()
            model_of_file = interpreter.Interpreter(model_content=model, num_threads=1)
            model_of_file.allocate_tensors()
            signature = model_of_file.get_signature_runner()
            given = _in_order({name: each["index"] for name, each in signature.get_input_details().items()})
            if len(given) != len(call.arrays):
                raise ValueError(f"the model has {len(given)} inputs, and the call {len(call.arrays)}")
            outputs = {name: each["index"] for name, each in signature.get_output_details().items()}
            return model_of_file, given, _in_order(outputs)

        def run() -> Any:
            model_of_file, given, outputs = loaded()
            for index, array in zip(given, call.arrays, strict=True):
                model_of_file.set_tensor(index, array.numpy())
            model_of_file.invoke()
            return [model_of_file.get_tensor(index) for index in outputs]

        return run

    def _on_gpu(self, call: FunctionCall) -> Callable[[], Any]:
        tf = self._tf
        with tf.device("/GPU:0"):
            moved = call.bind([tf.identity(each) for each in call.arrays])

        def run() -> Any:
            with tf.device("/GPU:0"):
                return self.wait(moved())

        return run

    def _on_tpu(self, call: FunctionCall) -> Callable[[], Any]:
        tf = self._tf
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver("local")
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
        function = tf.function(lambda *arrays: strategy.run(call.function, args=arrays), autograph=False)
        return lambda: self.wait(strategy.experimental_local_results(function(*call.arrays))[0])


def _in_order(indices: Mapping[str, int]) -> list[int]:
    """Returns the tensors of a signature by the numbers in their names: `given`, `given_1`, …; `output_0`, …"""

    def number(name: str) -> int:
        digits = re.search(r"_(\d+)$", name)
        return int(digits[1]) if digits else 0

    return [indices[name] for name in sorted(indices, key=number)]


def _special(tf: Any) -> Mapping[str, Sequence[SpecialCall]]:
    """Functions of functions, and those whose arguments must fit each other."""
    of, row, square = one_call, example_row, example_square

    def images(draw: Drawn) -> Any:
        return draw.array(np.linspace(-1.0, 1.0, 2 * 8 * 8 * 3, dtype=np.float32).reshape(2, 8, 8, 3))

    def kernel(draw: Drawn) -> Any:
        return draw.array(np.linspace(-1.0, 1.0, 3 * 3 * 3 * 4, dtype=np.float32).reshape(3, 3, 3, 4))

    return {
        "tensorflow.function": of(lambda x: tf.function(tf.sin)(x), row),
        "tensorflow.cond": of(lambda x: tf.cond(x[0] > 0, lambda: tf.sin(x), lambda: tf.cos(x)), row),
        "tensorflow.while_loop": of(
            lambda x: tf.while_loop(lambda c: tf.reduce_sum(c) < 9, lambda c: (c + 1,), (x,)), row),
        "tensorflow.map_fn": of(lambda x: tf.map_fn(tf.sin, x), row),
        "tensorflow.vectorized_map": of(lambda x: tf.vectorized_map(tf.sin, x), row),
        "tensorflow.scan": of(lambda x: tf.scan(lambda a, b: a + b, x), row),
        "tensorflow.foldl": of(lambda x: tf.foldl(lambda a, b: a + b, x), row),
        "tensorflow.case": of(
            lambda x: tf.case([(x[0] > 0, lambda: tf.sin(x))], default=lambda: tf.cos(x)), row),
        "tensorflow.switch_case": of(lambda x: tf.switch_case(1, [lambda: tf.sin(x), lambda: tf.cos(x)]), row),
        "tensorflow.nest.map_structure": of(lambda x: tf.nest.map_structure(tf.sin, {"a": x}), row),
        "tensorflow.add_n": of(lambda a, b: tf.add_n([a, b]), square, square),
        "tensorflow.identity_n": of(lambda a, b: tf.identity_n([a, b]), row, square),
        "tensorflow.shape_n": of(lambda a, b: tf.shape_n([a, b]), row, square),
        "tensorflow.dynamic_stitch": of(lambda a, b: tf.dynamic_stitch([[0, 2], [1, 3]], [a[:2], b[:2]]), row, row),
        "tensorflow.ragged.constant": of(lambda: tf.ragged.constant([[1.0], [2.0, 3.0]]).flat_values),
        "tensorflow.constant": of(lambda: tf.constant([[1.0, 2.0], [3.0, 4.0]])),
        "tensorflow.where": (
            *of(lambda x: tf.where(x > 0.5, x, -x), square), *of(lambda x: tf.where(x > 0.5), square)),
        "tensorflow.range": of(lambda: tf.range(8)),
        "tensorflow.fill": of(lambda: tf.fill((3, 4), 0.5)),
        "tensorflow.einsum": of(lambda a, b: tf.einsum("ij,jk->ik", a, b), square, square),
        "tensorflow.tensordot": of(lambda a, b: tf.tensordot(a, b, 1), square, square),
        "tensorflow.split": of(lambda x: tf.split(x, 2), square),
        "tensorflow.slice": of(lambda x: tf.slice(x, (0, 1), (2, 2)), square),
        "tensorflow.strided_slice": of(lambda x: tf.strided_slice(x, (0, 0), (4, 4), (2, 2)), square),
        "tensorflow.gather_nd": of(lambda x: tf.gather_nd(x, [[0, 1], [2, 3]]), square),
        "tensorflow.tile": of(lambda x: tf.tile(x, (2, 1)), square),
        "tensorflow.reshape": of(lambda x: tf.reshape(x, (2, 8)), square),
        "tensorflow.broadcast_to": of(lambda x: tf.broadcast_to(x, (3, 8)), row),
        "tensorflow.scatter_nd": of(lambda x: tf.scatter_nd([[0], [2]], x[:2], (4, 4)), square),
        "tensorflow.tensor_scatter_nd_update": of(
            lambda x: tf.tensor_scatter_nd_update(x, [[0], [2]], x[2:]), square),
        "tensorflow.tensor_scatter_nd_add": of(lambda x: tf.tensor_scatter_nd_add(x, [[0], [2]], x[2:]), square),
        "tensorflow.clip_by_value": of(lambda x: tf.clip_by_value(x, 0.2, 0.8), square),
        "tensorflow.linspace": of(lambda: tf.linspace(0.0, 1.0, 8)),
        "tensorflow.one_hot": of(lambda: tf.one_hot([0, 2, 1], 4)),
        "tensorflow.sequence_mask": of(lambda: tf.sequence_mask([1, 3, 2], 4)),
        "tensorflow.reverse": of(lambda x: tf.reverse(x, [0]), square),
        "tensorflow.roll": of(lambda x: tf.roll(x, 1, 0), square),
        "tensorflow.squeeze": of(lambda x: tf.squeeze(x[None]), square),
        "tensorflow.numpy_function": of(lambda x: tf.numpy_function(np.sin, [x], tf.float32), row),
        "tensorflow.py_function": of(lambda x: tf.py_function(tf.sin, [x], tf.float32), row),
        "tensorflow.custom_gradient": of(lambda x: tf.custom_gradient(lambda y: (tf.sin(y), lambda g: g))(x), row),
        "tensorflow.recompute_grad": of(lambda x: tf.recompute_grad(tf.sin)(x), row),
        "tensorflow.stop_gradient": of(lambda x: tf.stop_gradient(x), square),
        "tensorflow.nn.conv2d": of(lambda x, w: tf.nn.conv2d(x, w, 1, "SAME"), images, kernel),
        "tensorflow.nn.convolution": of(lambda x, w: tf.nn.convolution(x, w, 1, "SAME"), images, kernel),
        "tensorflow.nn.depthwise_conv2d": of(
            lambda x, w: tf.nn.depthwise_conv2d(x, w, (1, 1, 1, 1), "SAME"), images, kernel),
        "tensorflow.nn.max_pool": of(lambda x: tf.nn.max_pool(x, 2, 2, "VALID"), images),
        "tensorflow.nn.avg_pool": of(lambda x: tf.nn.avg_pool(x, 2, 2, "VALID"), images),
        "tensorflow.nn.max_pool2d": of(lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), images),
        "tensorflow.nn.avg_pool2d": of(lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), images),
        "tensorflow.nn.bias_add": of(lambda x: tf.nn.bias_add(x, x[0]), square),
        "tensorflow.nn.moments": of(lambda x: tf.nn.moments(x, (0,)), square),
        "tensorflow.nn.batch_normalization": of(
            lambda x: tf.nn.batch_normalization(x, x[0], x[1], x[2], x[3], 1e-3), square),
        "tensorflow.nn.softmax_cross_entropy_with_logits": of(
            lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(x), x), square),
        "tensorflow.nn.sparse_softmax_cross_entropy_with_logits": of(
            lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits([0, 1, 2, 3], x), square),
        "tensorflow.nn.embedding_lookup": of(lambda x: tf.nn.embedding_lookup(x, [0, 2]), square),
        "tensorflow.nn.top_k": of(lambda x: tf.nn.top_k(x, 2), square),
        "tensorflow.image.resize": of(lambda x: tf.image.resize(x, (4, 4)), images),
        "tensorflow.image.crop_and_resize": of(
            lambda x: tf.image.crop_and_resize(x, [[0.0, 0.0, 0.5, 0.5]], [0], (4, 4)), images),
        "tensorflow.linalg.band_part": of(lambda x: tf.linalg.band_part(x, 1, 1), square),
        "tensorflow.signal.stft": of(
            lambda x: tf.signal.stft(x, 8, 4), lambda d: d.array(np.linspace(-1, 1, 64, dtype=np.float32))),
    }  # fmt: skip
