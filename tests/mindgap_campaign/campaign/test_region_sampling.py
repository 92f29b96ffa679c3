"""Making a pool: which graphs gave no region is counted with the reason, kept with the pool, and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap_campaign.campaign.cases.region_sampling import PoolYield, sample_catalogue
from mindgap_campaign.campaign.cases.variants import EXCEPTIONAL_POOL, POOL, load_pool, pool_yield
from mindgap_campaign.campaign.plan import Plan, Variants
from mindgap_campaign.campaign.variant_source_factory import VariantSourceFactory
from mindgap_campaign.catalogue import Catalogue, build
from mindgap_campaign.synth.regions.sampler import SamplerOptions

MODELS = """
import torch

PLACES = torch.arange(999, -1, -1)
X = torch.linspace(-1, 1, 12).reshape(3, 4)

def sine(): return (lambda x: x.sin() + 1), (X,)
def looked(): return (lambda x: x.reshape(-1)[PLACES[-7:]] * 2), (X,)
def empty(): return (lambda x: torch.zeros_like(x)), (X,)
"""


@pytest.mark.nightly
def test_graphs_that_give_no_region_are_counted_and_said(tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.write_text(MODELS)
    catalogue = Catalogue(tmp_path / "catalogue", create=True)
    build(catalogue, [f"{file}:{name}" for name in ("sine", "looked", "empty")])
    kept = {entry.source.rpartition(":")[2]: entry.graph for entry in catalogue.entries("status = 'captured'")}
    assert len(kept) == 3

    pool, tried = sample_catalogue(catalogue, sorted(kept.values()), 0, SamplerOptions(plain=1, mutated=0), jobs=1)
    assert {region.origin.base for region in pool} == {kept["sine"], kept["looked"]}
    assert tried.barren == {"useless": 1}, "zeros everywhere say nothing"

    # With its table gone the graph gives nothing, instead of regions whose table was made up.
    for tensor in catalogue.tensors.iterdir():
        tensor.unlink()
    said: list[str] = []
    plan = Plan(seed=1, catalogue=str(catalogue.path), variants=Variants(count=1), platforms={"cpu/jit": {}})  # type: ignore[dict-item]
    VariantSourceFactory(1, notify=said.append).begin(plan, tmp_path)
    made = pool_yield(catalogue.path / POOL)
    assert made is not None and made.bases == 3 and sum(made.barren.values()) == 2 and made.barren["useless"] == 1
    (damaged,) = made.barren.keys() - {"useless"}
    assert damaged.startswith("damaged: input N: no tensor …")
    assert len(said) == 1 and " regions of 3 graphs, of which 2 GAVE NONE: 1 damaged: input N: no tensor" in said[0]
    # A pool that is there already says it again; one of an earlier mindgap, which did not keep it, says nothing.
    VariantSourceFactory(1, notify=said.append).begin(plan, tmp_path)
    assert said[1] == said[0]
    pool.save(tmp_path / "older.parquet")
    assert pool_yield(tmp_path / "older.parquet") is None


@pytest.mark.nightly
def test_a_plan_with_exceptional_values_gets_a_pool_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "models.py"
    file.write_text(MODELS)
    catalogue = Catalogue(tmp_path / "catalogue", create=True)
    build(catalogue, [f"{file}:sine"])
    kinds = {}
    for exceptional in (False, True):
        wanted = Variants(count=1, exceptional=exceptional)
        plan = Plan(seed=1, catalogue=str(catalogue.path), variants=wanted, platforms={"cpu/jit": {}})  # type: ignore[dict-item]
        VariantSourceFactory(1).begin(plan, tmp_path)
        kinds[exceptional] = {kind for region in load_pool(tmp_path / POOL) for kind in region.origin.kinds}
    assert "value" in kinds[True] - kinds[False]
    assert (catalogue.path / POOL).exists() and (catalogue.path / EXCEPTIONAL_POOL).exists()


def test_a_yield_in_words() -> None:
    assert PoolYield(7, {}).line() == "7 graphs, each of which gave some"
    lost = PoolYield(4170, {"useless": 20, "too big": 9, "a": 3, "b": 2, "c": 1, "d": 1})
    assert lost.line() == ("4,170 graphs, of which 36 GAVE NONE: 20 useless; 9 too big; 3 a; 2 b; 2 for other reasons")
    assert PoolYield.from_json(lost.to_json()) == lost
