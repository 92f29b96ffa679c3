"""A pool survives its file, and a file that is no pool is told apart."""

from pathlib import Path

import pytest

from mindgap.graph import MindgapError
from mindgap_campaign.synth.regions.pool import RegionPool, join_regions, pool_metadata, to_bytes


def test_what_is_read_is_what_was_written(pool: RegionPool, tmp_path: Path) -> None:
    pool.save(tmp_path / "pool.parquet", "from here")
    again = RegionPool.load(tmp_path / "pool.parquet")
    assert again == pool
    assert again.digest == pool.digest
    assert pool_metadata(tmp_path / "pool.parquet")["made_of"] == "from here"
    assert list(join_regions([to_bytes(list(pool))])) == list(pool)


def test_the_pool_has_plain_and_mutated_regions_of_both_passes(pool: RegionPool) -> None:
    assert len(pool) > 40
    assert any(region.origin.kinds for region in pool)
    assert any(not region.origin.kinds for region in pool)
    operators = {node.op for region in pool for node in region.graph.nodes}
    assert "aten.convolution_backward.default" in operators
    assert "aten.scaled_dot_product_attention.default" in operators


def test_like_regions_are_kept_once(pool: RegionPool) -> None:
    assert join_regions([to_bytes(list(pool)), to_bytes(list(pool))]) == pool


def test_parts_with_other_features_are_one_pool(pool: RegionPool) -> None:
    regions = list(pool)
    whole = join_regions([to_bytes(regions[:7]), to_bytes([]), to_bytes(regions[7:])])
    assert list(whole) == regions and sorted(whole.feature_names) == sorted(pool.feature_names)
    for number, region in enumerate(regions):
        assert [whole.feature_names[code] for code in whole.feature_codes(number)] == list(region.features)


def test_the_digest_depends_on_order(pool: RegionPool) -> None:
    assert RegionPool.of(list(pool)[::-1]).digest != pool.digest


def test_files_that_are_no_pool(pool: RegionPool, tmp_path: Path) -> None:
    path = tmp_path / "pool.parquet"
    with pytest.raises(MindgapError, match="cannot be read"):
        RegionPool.load(path)
    path.write_bytes(b"no parquet at all")
    with pytest.raises(MindgapError, match="cannot be read"):
        RegionPool.load(path)
    pool.save(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(MindgapError, match="cannot be read"):
        RegionPool.load(path)


def test_a_place_that_cannot_be_written_is_named(pool: RegionPool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MindgapError, match=r"cannot be written.*name another place"):
        pool.save(tmp_path / "file" / "pool.parquet")
