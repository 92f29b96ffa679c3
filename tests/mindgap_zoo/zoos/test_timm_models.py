"""timm's models as programs: native sizes, counts, and names that it does not know."""

import pytest
import torch

from mindgap.sources.opening import capture_program, open_source
from mindgap.sources.source import SourceError, parse
from mindgap_zoo.zoos import timm_models as zoo

try:
    zoo.names()
except SourceError:
    pytest.skip("timm is not installed", allow_module_level=True)


def test_names_are_sorted_and_all_there():
    names = zoo.names()
    assert names == sorted(names) and len(names) > 1200 and "resnet18" in names


def test_parameters_are_counted_for_the_largest_too():
    assert zoo.parameters(parse("timm:resnet18")) == 11_689_512
    assert zoo.parameters(parse("timm:vit_giant_patch14_224")) == 1_012_611_432


def test_a_name_that_is_wrong_is_corrected():
    with pytest.raises(SourceError, match="timm has no model 'resnet81'; did you mean"):
        open_source("timm:resnet81")
    with pytest.raises(SourceError, match="timm has no model 'resnet81'"):
        zoo.parameters(parse("timm:resnet81"))


@pytest.mark.parametrize(
    ("source", "edge"), [("timm:lcnet_035", 224), ("timm:lcnet_035?size=96", 96), ("timm:levit_128s", 224)]
)
def test_pictures_have_the_models_own_size_or_the_one_asked_for(source, edge):
    built = open_source(source)[0].make()
    assert built.args[0].shape == (1, 3, edge, edge)
    with torch.no_grad():
        first, other = built.program(*built.args), built.program(torch.randn(1, 3, edge, edge))
    assert torch.isfinite(first).all() and first.std() > 1e-3
    assert (first - other).std() > 1e-3 * first.std(), "the output hardly depends on the picture"


def test_a_model_is_captured_both_ways():
    program = open_source("timm:lcnet_035?size=64")[0]
    forward, both = capture_program(program), capture_program(program, backward=True)
    assert len(both.nodes) > 2 * len(forward.nodes)
    assert any(name.startswith("grad:") for name in both.labels.outputs)
