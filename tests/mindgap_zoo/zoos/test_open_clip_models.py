"""Pairs of towers from OpenCLIP's configurations: no downloads, bounded size, the same each time."""

from importlib.util import find_spec

import pytest

from mindgap.graph.codec import digest
from mindgap.sources.opening import capture_program, open_source
from mindgap.sources.source import SourceError
from mindgap_zoo.zoos import open_clip_models as open_clip_zoo

pytestmark = pytest.mark.skipif(find_spec("open_clip") is None, reason="open_clip is not installed")


def _program(name):
    (program,) = open_source(f"open_clip:{name}")
    return program


def _parameters(module):
    return sum(p.numel() for p in module.parameters())


def test_every_configuration_has_a_name():
    names = open_clip_zoo.names()
    assert len(names) > 140
    assert {"ViT-B-32", "RN50", "coca_ViT-B-32", "roberta-ViT-B-32"} <= {*names}


@pytest.mark.nightly
def test_a_pair_of_towers_is_captured_at_its_native_size_and_is_the_same_each_time():
    first, again = (capture_program(_program("ViT-S-32-alt")) for _ in range(2))
    assert digest(first) == digest(again)
    shapes = {label: given.spec.shape for label, given in zip(first.labels.inputs, first.inputs, strict=True)}
    assert shapes["image"] == (1, 3, 224, 224)
    assert shapes["text"] == (1, 77)


def test_a_giant_keeps_its_width_and_loses_depth():
    built = _program("ViT-H-14").make()
    assert _parameters(built.program) < 60_000_000
    blocks = built.program.visual.transformer.resblocks
    assert len(blocks) == 2 and blocks[0].attn.embed_dim == 1280


def test_towers_of_timm_are_cut_as_they_are_made():
    library = open_clip_zoo._open_clip()
    from open_clip import timm_model

    whole = timm_model.timm
    model = open_clip_zoo._create("EVA02-L-14", None)
    assert len(model.visual.trunk.blocks) == 2
    assert timm_model.timm is whole and library.list_models()


def test_text_towers_of_transformers_need_no_hub():
    built = _program("mt5-base-ViT-B-32").make()
    image, text, scale = built.program(**built.kwargs)
    assert image.shape == text.shape == (1, 512)
    assert bool(image.isfinite().all()) and bool(text.isfinite().all()) and float(scale.detach()) > 1


def test_an_unknown_text_tower_is_refused_with_its_name():
    with pytest.raises(SourceError, match="some/model is on a hub"):
        open_clip_zoo._text_config("some/model")


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(SourceError, match="did you mean"):
        open_source("open_clip:ViT-B-33")
