"""Recipes: pinned bytes, the same on every processor; statistics; what a spec asks for."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from graph import recipe_hashes
from graph.strategies import recipes, specs
from mindgap.graph import (
    DTYPES,
    Constant,
    Exceptional,
    Graph,
    GraphError,
    Input,
    Integers,
    Literal,
    Normal,
    Permutation,
    Recipe,
    Stored,
    TensorSpec,
    TensorStore,
    Uniform,
    draws,
    materialise,
    materialise_all,
    numpy_dtype,
)
from mindgap.graph.draws import special_values

FLOATS = [name for name, (kind, _) in DTYPES.items() if kind == "float"]
INTERVALS = [(0.0, 1.0), (-1.0, 1.0), (0.3, 0.7), (-1e-7, 1e-7), (1.0, 1.3), (-500.0, -3.0), (-1e6, 1e6)]
PINNED = json.loads((Path(__file__).parent / "recipe_hashes.json").read_text())


def made(dtype: str, shape: tuple[int, ...], recipe: Recipe) -> np.ndarray:
    return materialise(Input(TensorSpec.contiguous(dtype, shape), recipe))


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_are_pinned(dtype: str) -> None:
    """A change here breaks every finding anyone has kept: it needs new recipes, not other bytes."""
    assert recipe_hashes.hashes()[dtype] == PINNED[dtype]


@pytest.mark.parametrize(
    "setting",
    [
        {"ATEN_CPU_CAPABILITY": "default", "NPY_DISABLE_CPU_FEATURES": "baseline"},
        {"ATEN_CPU_CAPABILITY": "avx2", "NPY_DISABLE_CPU_FEATURES": "avx512"},
        {"OMP_NUM_THREADS": "3", "PYTHONHASHSEED": "7"},
    ],
    ids=lambda setting: setting.get("ATEN_CPU_CAPABILITY", "threads"),
)
def test_bytes_are_the_same_at_every_capability_level(setting: dict[str, str]) -> None:
    environment = {**os.environ, **setting, "PYTHONPATH": str(Path(__file__).parents[1])}
    if "NPY_DISABLE_CPU_FEATURES" in setting:
        from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

        off = [f for f in __cpu_dispatch__ if __cpu_features__.get(f)]
        if setting["NPY_DISABLE_CPU_FEATURES"] == "avx512":
            off = [f for f in off if f.startswith(("AVX512", "X86_V4"))]
        environment["NPY_DISABLE_CPU_FEATURES"] = " ".join(off)
    program = "import mindgap.graph, runpy; runpy.run_module('graph.recipe_hashes', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert json.loads(done.stdout) == PINNED, done.stderr


@given(st.data())
@settings(max_examples=150)
def test_shape_dtype_and_shared_memory(data: st.DataObject) -> None:
    spec = data.draw(specs())
    recipe = data.draw(recipes(spec, stored=False))
    array = materialise(Input(spec, recipe))
    assert array.shape == spec.shape and array.dtype == numpy_dtype(spec.dtype)
    assert array.flags.c_contiguous and array.flags.writeable
    assert array.tobytes() == materialise(Input(spec, recipe)).tobytes()
    if not isinstance(recipe, Literal | Permutation | Constant):
        positions: dict[int, bytes] = {}
        for index in np.ndindex(spec.shape):
            cell = sum(i * step for i, step in zip(index, spec.stride, strict=True))
            value = array[index].tobytes()
            assert positions.setdefault(cell, value) == value, "two elements of one memory cell differ"
    for axis, step in enumerate(spec.stride):
        if step == 0 and not isinstance(recipe, Literal):
            first = array.take([0] * spec.shape[axis], axis=axis) if spec.shape[axis] else array
            assert array.tobytes() == first.tobytes()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("low", "high"), INTERVALS)
def test_uniform_stays_in_its_interval(dtype: str, low: float, high: float) -> None:
    values = made(dtype, (40_000,), Uniform(5, low, high)).astype(np.float64)
    largest = float(
        special_values(dtype).astype(np.float64)[np.isfinite(special_values(dtype).astype(np.float64))].max()
    )
    inside = [v for v in sorted(set(np.unique(values))) if not low <= v < high]
    assert not inside or (len(inside) == 1 and len(set(values)) == 1), "only where the dtype has no value inside"
    assert not np.signbit(values[values == 0]).any()
    if dtype in ("float16", "float32", "float64", "bfloat16") and high - low > 1e-3 and abs(low) < largest:
        assert abs(values.mean() - (low + high) / 2) < 0.02 * (high - low)
        assert abs(values.std() - (high - low) / math.sqrt(12)) < 0.02 * (high - low)


@pytest.mark.parametrize("extra", [0, 17])
def test_normal_has_mean_zero_and_variance_one_exactly(extra: int) -> None:
    """The sum of eleven bytes, a fine integer and three weighted signs, in integers."""
    weights = draws._WEIGHTS[extra]
    fine = 1 << (32 + extra)
    # Variances of twice each part, times three: of 2·2^(24+E)·byte, of 2·fine, of ±weight.
    three_variances = (
        11 * (1 << (2 * (25 + extra))) * (256**2 - 1) // 4 + (fine**2 - 1) + 3 * sum(w * w for w in weights)
    )
    assert three_variances == 3 * (1 << (2 * (33 + extra)))
    table = draws._SIGNED_WEIGHTS[extra]
    assert int(table.astype(object).sum()) == -8 * (11 * 255 * (1 << (24 + extra)) + fine - 1)
    most = 11 * 255 * (1 << (25 + extra)) + 2 * (fine - 1) + int(table.max())
    assert 5.9 < most / (1 << (33 + extra)) < 6 and most < 1 << 53


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_looks_normal(dtype: str) -> None:
    values = made(dtype, (400_000,), Normal(1)).astype(np.float64)
    assert abs(values.mean()) < 0.005 and abs(values.std() - 1) < 0.005
    assert abs((values**3).mean()) < 0.03 and abs((values**4).mean() - (3 - 1.2 / 12)) < 0.05
    assert abs((np.abs(values) < 1).mean() - 0.6827) < 0.005
    shifted = made(dtype, (400_000,), Normal(1, -2.0, 0.25)).astype(np.float64)
    assert np.allclose(shifted, -2.0 + 0.25 * values, atol=1e-6)


def test_float32_draws_use_the_last_place() -> None:
    """Or sums of inputs would be exact, and the order of summation could not be seen."""
    for recipe in (Uniform(1), Normal(1)):
        bits = made("float32", (4000,), recipe).view(np.uint32)
        assert all(0.4 < (bits >> position & 1).mean() < 0.6 for position in range(8))


@pytest.mark.parametrize("dtype", FLOATS)
def test_exceptional_has_every_special_value(dtype: str) -> None:
    array = made(dtype, (20_000,), Exceptional(3, 0.25))
    carrier = f"u{array.dtype.itemsize}"
    found = set(array.view(carrier).tolist())
    table = special_values(dtype)
    assert set(table.view(carrier).tolist()) <= found
    values = table.astype(np.float64)
    assert np.isnan(values).sum() == 1
    if dtype in ("float16", "bfloat16", "float32", "float64", "float8_e5m2"):
        assert {math.inf, -math.inf} <= set(values.tolist()) and len(table) == 13
    plain = ~np.isin(array.view(carrier), table.view(carrier))
    assert 0.70 < plain.mean() < 0.78
    assert (np.abs(array[plain].astype(np.float64)) <= 1).all()


def test_exceptional_shares() -> None:
    assert np.isfinite(made("float32", (5000,), Exceptional(0, 0.0))).all()
    everything = made("float32", (5000,), Exceptional(0, 1.0))
    assert np.isin(everything.view("u4"), special_values("float32").view("u4")).all()


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 128), ("uint8", 3, 10), ("int64", -(1 << 63), 1 << 63), ("uint64", 5, (1 << 63) + (1 << 61)),
     ("int64", -(1 << 40), 1 << 40), ("bool", 0, 2), ("int32", 7, 8), ("float32", 0, 2), ("float16", -3, 4)],
)  # fmt: skip
def test_integers_are_uniform(dtype: str, low: int, high: int) -> None:
    values = made(dtype, (60_000,), Integers(11, low, high)).astype(object)
    assert low <= min(values) and max(values) < high
    span = high - low
    eighths = np.array([(int(v) - low) * min(8, span) // span for v in values])
    counts = np.bincount(eighths, minlength=min(8, span))
    expected = (
        [sum(k * min(8, span) // span == e for k in range(span)) / span for e in range(min(8, span))]
        if span < 300
        else [1 / 8] * 8
    )
    assert np.allclose(counts / 60_000, expected, atol=0.01)


def exact_integers(seed: int, count: int, low: int, high: int) -> list[int]:
    """The slow obvious version: floor(k · span / 2ⁿ) in Python's integers."""
    span = high - low
    wide = span > 1 << 32
    words = [int(word) for word in np.random.Philox(key=seed).random_raw(count * (2 if wide else 1))]
    if not wide:
        return [low + (word * span >> 64) for word in words]
    return [low + ((words[2 * i] << 64 | words[2 * i + 1]) * span >> 128) for i in range(count)]


@given(st.integers(0, (1 << 128) - 1), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_integers_are_exact(seed: int, one: int, other: int) -> None:
    low, high = min(one, other), max(one, other) + 1
    assert made("int64", (9,), Integers(seed, low, high)).tolist() == exact_integers(seed, 9, low, high)


@pytest.mark.parametrize("dtype", DTYPES)
def test_overlapping_elements_are_one_cell(dtype: str) -> None:
    found = materialise(Input(TensorSpec(dtype, (2, 2), (1, 1)), Integers(3, 0, 2)))
    cells = materialise(Input(TensorSpec.contiguous(dtype, (3,)), Integers(3, 0, 2)))
    assert found.dtype == cells.dtype and found.reshape(-1).tolist() == cells[[0, 1, 1, 2]].tolist()


def test_permutations_hold_each_number_once() -> None:
    rows = made("int32", (50, 3, 17), Permutation(2))
    assert (np.sort(rows, axis=-1) == np.arange(17)).all()
    assert len({row.tobytes() for row in rows.reshape(-1, 17)}) == 150
    assert made("int64", (0,), Permutation(2)).shape == (0,) and made("int64", (), Permutation(2)) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_draws_begin_like_small_ones(dtype: str) -> None:
    for name, recipe in recipe_hashes.recipes(dtype).items():
        if name != "permutation":
            large, small = made(dtype, (70_001,), recipe), made(dtype, (1000,), recipe)
            assert large[:1000].tobytes() == small.tobytes(), name


def test_constants() -> None:
    assert made("float32", (2,), Constant(math.pi)).tolist() == [np.float32(math.pi)] * 2
    assert np.signbit(made("bfloat16", (1,), Constant(-0.0)).astype(np.float64)).all()
    assert math.isinf(made("float16", (1,), Constant(1e6))[0])
    assert made("float8_e5m2", (1,), Constant(math.nan)).astype(np.float64) != 0
    assert made("complex64", (1,), Constant(1 - 2j)).tolist() == [1 - 2j]
    assert made("uint64", (1,), Constant((1 << 64) - 1)).tolist() == [(1 << 64) - 1]
    # One above the tie between two float32: rounding through float64 must not lose that.
    assert made("float32", (1,), Constant((1 << 54) + (1 << 30) + 1)).tolist() == [float((1 << 54) + (1 << 31))]


def test_literals_are_the_bytes() -> None:
    assert made("int16", (2,), Literal(b"\1\0\xff\xff")).tolist() == [1, -1]


def test_stored_tensors(tmp_path: Path) -> None:
    store = TensorStore(tmp_path)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    key = store.put(array)
    spec = TensorSpec.contiguous("float32", (2, 3))
    assert materialise(Input(spec, Stored(key)), store).tolist() == array.tolist()
    for wrong in (TensorSpec.contiguous("float32", (3, 2)), TensorSpec.contiguous("int32", (2, 3))):
        with pytest.raises(GraphError, match=r"is float32\[2, 3\], where .* is wanted"):
            materialise(Input(wrong, Stored(key)), store)
    with pytest.raises(GraphError, match="input 1: no tensor 0000"):
        materialise_all(Graph((Input(spec, Stored(key)), Input(spec, Stored("0" * 64))), (), ()), store)


def test_the_default_store_serves_where_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path))
    key = TensorStore(tmp_path / "tensors").put(np.zeros(3, np.int8))
    assert materialise(Input(TensorSpec.contiguous("int8", (3,)), Stored(key))).tolist() == [0, 0, 0]


def test_a_recipe_that_does_not_fit_is_refused() -> None:
    with pytest.raises(GraphError, match="input 0: Uniform makes floats"):
        materialise_all(Graph((Input(TensorSpec.contiguous("int8", (3,)), Uniform(0)),), (), ()))


def test_draws_are_philox_with_the_seed_for_its_key() -> None:
    for seed in (0, 7, 1 << 70, (1 << 128) - 1):
        assert (draws.generator(seed).random_raw(9) == np.random.Philox(key=seed).random_raw(9)).all()
