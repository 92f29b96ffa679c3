"""Smoke tests of the lists of native functions."""

from __future__ import annotations

import torch

from mindgap.aten.torch_private.native_functions import (
    AUTOCAST_SWITCHES,
    NATIVE_MODULES,
    VMAP_STEPS,
    dispatcher_operators,
    is_native,
)


def test_native_modules_hold_functions() -> None:
    x = torch.ones(2)
    assert torch.equal(NATIVE_MODULES["torch._C._nn"].gelu(x), torch.nn.functional.gelu(x))
    assert callable(NATIVE_MODULES["torch._C._fft"].fft_fft)
    assert callable(NATIVE_MODULES["torch._C._linalg"].linalg_det)
    assert callable(NATIVE_MODULES["torch._C._special"].special_erf)


def test_native_names_and_operators() -> None:
    assert is_native("add")
    assert not is_native("compile")
    assert "aten::add" in dispatcher_operators()
    assert not any("." in name for name in dispatcher_operators())


def test_autocast_is_entered_and_left() -> None:
    enter = AUTOCAST_SWITCHES["torch.amp.autocast_mode._enter_autocast"]
    leave = AUTOCAST_SWITCHES["torch.amp.autocast_mode._exit_autocast"]
    mode = enter("cpu", torch.bfloat16, True, None)
    inside = torch.is_autocast_enabled("cpu")
    leave(mode)
    assert (inside, torch.is_autocast_enabled("cpu")) == (True, False)


def test_vmap_runs_by_its_steps() -> None:
    level = VMAP_STEPS["_vmap_increment_nesting"](3, "error")
    try:
        row = VMAP_STEPS["_add_batch_dim"](torch.arange(6.0).reshape(3, 2), 0, level)
        assert tuple(row.shape) == (2,)
        total = VMAP_STEPS["_remove_batch_dim"](row.sum(), level, 3, 0)
    finally:
        VMAP_STEPS["_vmap_decrement_nesting"]()
    assert total.tolist() == [1, 5, 9]
