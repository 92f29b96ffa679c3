"""NumPy as a framework with targets that port well, in part, wrongly, not at all, and not to their end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mindgap.graph import Array
from mindgap_studies.porting_runs.framework_modes import SpecialCall
from mindgap_studies.porting_runs.function_calls import FunctionCall


def noisy(x: Any) -> Any:
    return np.random.default_rng().standard_normal(x.shape)


def ends_the_process(x: Any) -> Any:
    os._exit(7)


class NumpyModes:
    source = "cpu/numpy"
    packages = ("numpy",)

    def targets(self) -> Mapping[str, Callable[[FunctionCall], Callable[[], Any]]]:
        def narrow(call: FunctionCall) -> Callable[[], Any]:
            return lambda: np.asarray(call(), np.float16)

        def wrong(call: FunctionCall) -> Callable[[], Any]:
            return lambda: call() * np.float32(1.001)

        def vectors(call: FunctionCall) -> Callable[[], Any]:
            if any(each.ndim != 1 for each in call.arrays):
                raise NotImplementedError("vectors only")
            return lambda: call()

        def ends(call: FunctionCall) -> Callable[[], Any]:
            return (lambda: os._exit(5)) if call.arrays[0].ndim == 1 else lambda: call()

        def negative(call: FunctionCall) -> Callable[[], Any]:
            return lambda: -call()

        def slow(call: FunctionCall) -> Callable[[], Any]:
            return lambda: (time.sleep(0.01), call())[1]

        def rounded(call: FunctionCall) -> Callable[[], Any]:
            return lambda: np.nextafter(call(), np.float32(np.inf), dtype=np.float32)

        return {
            "same": lambda call: lambda: call(), "narrow": narrow, "wrong": wrong, "vectors": vectors, "ends": ends,
            "negative": negative, "slow": slow, "rounded": rounded,
        }  # fmt: skip

    def missing(self, target: str) -> str:
        return "no device" if target == "narrow" else ""

    def public(self) -> Mapping[str, Callable[..., Any]]:
        return {
            "np.tanh": lambda x: np.tanh(x), "np.noisy": noisy, "np.ends": ends_the_process,
            "np.svd": lambda x: np.linalg.svd(x)[0], "np.text": lambda x: "text",
            "np.refuses": lambda x, y, z: np.linalg.inv(y)[z],
        }  # fmt: skip

    def special(self) -> Mapping[str, Sequence[SpecialCall]]:
        return {}

    def make(self, array: Array, dtype: str) -> Any:
        if dtype not in ("float32",):
            raise TypeError(f"no {dtype}")
        return array

    def key(self) -> Any:
        return 0

    def is_array(self, value: Any) -> bool:
        return isinstance(value, np.ndarray)

    def is_random(self, name: str) -> bool:
        return False

    def run_exact(self, call: FunctionCall) -> Any:
        return call.function(*(each.astype(np.float64) for each in call.arrays))

    def run_source(self, call: Callable[[], Any]) -> Any:
        return call()

    def wait(self, output: Any) -> Any:
        return output

    def leaves(self, output: Any) -> list[Any]:
        return [output]
