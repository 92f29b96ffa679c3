"""Smoke tests of Inductor's private parts."""

from __future__ import annotations

from pathlib import Path

from mindgap.torch_private.inductor import default_cache_dir, inductor_config, pick_vec_isa


def test_a_setting_of_the_configuration_holds_within_its_block() -> None:
    before = inductor_config.freezing
    with inductor_config.patch({"freezing": not before, "cpp.simdlen": 1}):
        assert inductor_config.freezing is not before
        assert not pick_vec_isa()
    assert inductor_config.freezing is before


def test_the_cache_has_a_directory() -> None:
    assert Path(default_cache_dir()).is_absolute()
