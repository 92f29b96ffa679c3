"""Smoke tests of Inductor's private parts."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.aten.torch_private.inductor import (
    PARTIAL_BACKENDS,
    SWITCHED_OFF,
    default_cache_dir,
    inductor_config,
    list_backends,
    pick_vec_isa,
)


def test_a_setting_of_the_configuration_holds_within_its_block() -> None:
    before = inductor_config.freezing
    with inductor_config.patch({"freezing": not before, "cpp.simdlen": 1}):
        assert inductor_config.freezing is not before
        assert not pick_vec_isa()
    assert inductor_config.freezing is before


def test_the_cache_has_a_directory() -> None:
    assert Path(default_cache_dir()).is_absolute()


@pytest.mark.parametrize("name", SWITCHED_OFF)
def test_each_part_has_settings_that_exist_and_change(name: str) -> None:
    before = {key: inductor_config._config[key].default for key in SWITCHED_OFF[name]}
    with inductor_config.patch(dict(SWITCHED_OFF[name])):
        assert all(value != SWITCHED_OFF[name][key] for key, value in before.items())


def test_partial_backends_are_registered() -> None:
    assert set(PARTIAL_BACKENDS.values()) <= set(list_backends())
