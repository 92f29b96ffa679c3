"""JAX on a CPU: operation by operation (`jax.disable_jit`), compiled (`jax.jit`), exported (`jax.export`), and on
devices."""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false
# (jax is in another environment)

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from mindgap.graph import Array
from mindgap_studies.porting_runs.framework_modes import (
    SpecialCall,
    example_row,
    example_square,
    functions_of,
    one_call,
    widened,
)
from mindgap_studies.porting_runs.function_calls import Drawn, FunctionCall

#: Public modules with functions of arrays. Of several names of a function, that in the first of these counts.
_MODULES: Final = (
    "jax.numpy", "jax.lax", "jax.nn", "jax.random", "jax.numpy.linalg", "jax.numpy.fft", "jax.lax.linalg",
    "jax.scipy.special", "jax.scipy.linalg", "jax.scipy.signal", "jax.scipy.stats.norm", "jax.scipy.ndimage",
    "jax.scipy.fft", "jax.scipy.integrate", "jax.scipy.optimize", "jax.scipy.sparse.linalg", "jax.nn.initializers",
    "jax.image", "jax.ops", "jax.tree", "jax.tree_util", "jax.dlpack", "jax.dtypes", "jax.experimental.sparse", "jax",
)  # fmt: skip


class JaxModes:
    source = "cpu/disable_jit"
    packages = ("jax", "jaxlib")

    def __init__(self) -> None:
        self._jax: Any = importlib.import_module("jax")
        self._export: Any = importlib.import_module("jax.export")

    def targets(self) -> Mapping[str, Callable[[FunctionCall], Callable[[], Any]]]:
        on = functools.partial(functools.partial, self._on_device)
        return {"cpu/jit": self._jitted, "cpu/export": self._exported, "cuda/jit": on("cuda"), "tpu/jit": on("tpu")}

    def missing(self, target: str) -> str:
        device = target.partition("/")[0]
        try:
            return "" if self._jax.devices(device) else f"JAX finds no {device} device"
        except RuntimeError as error:
            return str(error).splitlines()[0]

    def public(self) -> Mapping[str, Callable[..., Any]]:
        return functions_of({name: importlib.import_module(name) for name in _MODULES})

    def special(self) -> Mapping[str, Sequence[SpecialCall]]:
        return _special(self._jax)

    def make(self, array: Array, dtype: str) -> Any:
        return self._jax.numpy.asarray(array, dtype)

    def key(self) -> Any:
        return self._jax.random.PRNGKey(0)

    def is_array(self, value: Any) -> bool:
        return isinstance(value, self._jax.Array)

    def is_random(self, name: str) -> bool:
        """A key gives the same numbers everywhere."""
        return False

    def run_exact(self, call: FunctionCall) -> Any:
        with self._jax.enable_x64(True):
            wide = tuple(self._jax.numpy.asarray(widened(np.asarray(each))) for each in call.arrays)
            return self.run_source(replace(call, arrays=wide))

    def run_source(self, call: Callable[[], Any]) -> Any:
        with self._jax.disable_jit():
            return self.wait(call())

    def wait(self, output: Any) -> Any:
        return self._jax.block_until_ready(output)

    def leaves(self, output: Any) -> list[Any]:
        return [np.asarray(each) if self.is_array(each) else each for each in self._jax.tree.leaves(output)]

    def _jitted(self, call: FunctionCall) -> Callable[[], Any]:
        compiled = self._jax.jit(call.function)
        return lambda: self.wait(compiled(*call.arrays))

    def _exported(self, call: FunctionCall) -> Callable[[], Any]:
        """Writes the function as StableHLO, reads it again, and compiles what was read."""

        @functools.cache
        def loaded() -> Any:
            shapes = [self._jax.ShapeDtypeStruct(each.shape, each.dtype) for each in call.arrays]
            written = self._export.export(self._jax.jit(call.function))(*shapes).serialize()
            return self._jax.jit(self._export.deserialize(written).call)

        return lambda: self.wait(loaded()(*call.arrays))

    def _on_device(self, device: str, call: FunctionCall) -> Callable[[], Any]:
        place = self._jax.devices(device)[0]
        arrays = [self._jax.device_put(each, place) for each in call.arrays]
        compiled = self._jax.jit(call.function)

        def run() -> Any:
            with self._jax.default_device(place):
                return self.wait(compiled(*arrays))

        return run


def _special(jax: Any) -> Mapping[str, Sequence[SpecialCall]]:
    """Functions of functions, and those whose arguments must fit each other."""
    jnp, lax = jax.numpy, jax.lax
    of, row, square = one_call, example_row, example_square

    def images(draw: Drawn) -> Any:
        return draw.array(np.linspace(-1.0, 1.0, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8))

    def kernel(draw: Drawn) -> Any:
        return draw.array(np.linspace(-1.0, 1.0, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3))

    def total(x: Any) -> Any:
        return (x * x).sum()

    return {
        "jax.vmap": of(lambda x: jax.vmap(jnp.sin)(x), square),
        "jax.jit": of(lambda x: jax.jit(jnp.sin)(x), square),
        "jax.grad": of(lambda x: jax.grad(total)(x), row),
        "jax.value_and_grad": of(lambda x: jax.value_and_grad(total)(x), row),
        "jax.vjp": of(lambda x: jax.vjp(jnp.sin, x)[1](x), row),
        "jax.jvp": of(lambda x: jax.jvp(jnp.sin, (x,), (x,)), row),
        "jax.linearize": of(lambda x: jax.linearize(jnp.sin, x)[1](x), row),
        "jax.linear_transpose": of(lambda x: jax.linear_transpose(lambda y: 2 * y, x)(x), row),
        "jax.hessian": of(lambda x: jax.hessian(total)(x), row),
        "jax.jacfwd": of(lambda x: jax.jacfwd(jnp.sin)(x), row),
        "jax.jacrev": of(lambda x: jax.jacrev(jnp.sin)(x), row),
        "jax.checkpoint": of(lambda x: jax.checkpoint(jnp.sin)(x), row),
        "jax.named_call": of(lambda x: jax.named_call(jnp.sin)(x), row),
        "jax.pure_callback": of(
            lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x), row),
        "jax.tree.map": of(lambda x: jax.tree.map(jnp.sin, {"a": x}), row),
        "jax.tree_util.tree_map": of(lambda x: jax.tree_util.tree_map(jnp.sin, {"a": x}), row),
        "jax.lax.scan": of(lambda x: lax.scan(lambda c, a: (c + a, c * a), x[0], x), row),
        "jax.lax.map": of(lambda x: lax.map(jnp.sin, x), row),
        "jax.lax.cond": of(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), row),
        "jax.lax.switch": of(lambda x: lax.switch(1, (jnp.sin, jnp.cos), x), row),
        "jax.lax.while_loop": of(lambda x: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, x), row),
        "jax.lax.fori_loop": of(lambda x: lax.fori_loop(0, 5, lambda i, c: c + i, x), row),
        "jax.lax.associative_scan": of(lambda x: lax.associative_scan(jnp.add, x), row),
        "jax.lax.reduce": of(lambda x: lax.reduce(x, np.float32(0), lax.add, (0,)), square),
        "jax.lax.reduce_window": of(
            lambda x: lax.reduce_window(x, np.float32(0), lax.add, (2, 2), (1, 1), "SAME"), square),
        "jax.lax.dot_general": of(lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ()))), square, square),
        "jax.lax.conv": of(lambda x, w: lax.conv(x, w, (1, 1), "SAME"), images, kernel),
        "jax.lax.conv_general_dilated": of(
            lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"), images, kernel),
        "jax.lax.conv_transpose": of(
            lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW")),
            images, lambda d: kernel(d)),
        "jax.lax.dynamic_slice": of(lambda x: lax.dynamic_slice(x, (1, 1), (2, 2)), square),
        "jax.lax.dynamic_update_slice": of(lambda x: lax.dynamic_update_slice(x, x[:2, :2], (1, 1)), square),
        "jax.lax.dynamic_slice_in_dim": of(lambda x: lax.dynamic_slice_in_dim(x, 1, 2), square),
        "jax.lax.dynamic_index_in_dim": of(lambda x: lax.dynamic_index_in_dim(x, 1), square),
        "jax.lax.pad": of(lambda x: lax.pad(x, np.float32(0), ((1, 1, 0), (1, 1, 0))), square),
        "jax.lax.select": of(lambda x: lax.select(x > 0.5, x, -x), square),
        "jax.lax.select_n": of(lambda x: lax.select_n(x > 0.5, x, -x), square),
        "jax.lax.clamp": of(lambda x: lax.clamp(0.2, x, 0.8), square),
        "jax.lax.iota": of(lambda: lax.iota(np.float32, 8)),
        "jax.lax.broadcasted_iota": of(lambda: lax.broadcasted_iota(np.int32, (3, 4), 1)),
        "jax.lax.broadcast_in_dim": of(lambda x: lax.broadcast_in_dim(x, (3, 8), (1,)), row),
        "jax.lax.gather": of(
            lambda x: lax.gather(x, np.array([[0], [2]], np.int32), lax.GatherDimensionNumbers((1,), (0,), (0,)),
                                 (1, 4)), square),
        "jax.lax.sort": of(lambda x: lax.sort(x), square),
        "jax.lax.top_k": of(lambda x: lax.top_k(x, 2), square),
        "jax.lax.reshape": of(lambda x: lax.reshape(x, (2, 8)), square),
        "jax.numpy.where": (
            *of(lambda x: jnp.where(x > 0.5, x, -x), square), *of(lambda x: jnp.where(x > 0.5), square)),
        "jax.numpy.arange": of(lambda: jnp.arange(8)),
        "jax.numpy.einsum": of(lambda a, b: jnp.einsum("ij,jk->ik", a, b), square, square),
        "jax.numpy.tensordot": of(lambda a, b: jnp.tensordot(a, b, 1), square, square),
        "jax.numpy.piecewise": of(lambda x: jnp.piecewise(x, [x < 0, x >= 0], [-1.0, 1.0]), row),
        "jax.numpy.select": of(lambda x: jnp.select([x < 0, x >= 0], [x, -x]), row),
        "jax.numpy.apply_along_axis": of(lambda x: jnp.apply_along_axis(jnp.sum, 0, x), square),
        "jax.numpy.vectorize": of(lambda x: jnp.vectorize(jnp.sin)(x), row),
        "jax.numpy.array": of(lambda x: jnp.array([x, x]), row),
        "jax.image.resize": of(lambda x: jax.image.resize(x, (8, 8), "linear"), square),
        "jax.random.split": of(lambda k: jax.random.split(k), lambda d: d.key),
        "jax.random.categorical": of(lambda k, x: jax.random.categorical(k, x), lambda d: d.key, row),
        "jax.nn.dot_product_attention": of(
            lambda x: jax.nn.dot_product_attention(x, x, x),
            lambda d: d.array(np.linspace(-1, 1, 128, dtype=np.float32).reshape(2, 4, 4, 4))),
    }  # fmt: skip
