"""torchvision's models as programs: what a detector finds, and that its parts compute what torchvision's do."""

import sys

import pytest
import torch

from mindgap.sources.opening import capture_program, open_source
from mindgap.sources.source import SourceError, parse
from mindgap_zoo.zoos import torchvision_models as torchvision_zoo

try:
    torchvision_zoo.names()
except SourceError:
    pytest.skip("torchvision is not installed", allow_module_level=True)


def test_names_are_sorted_and_hold_every_kind():
    names = torchvision_zoo.names()
    assert names == sorted(names) and len(names) == len(set(names))
    assert {"resnet18", "raft_small", "ssd300_vgg16", "maskrcnn_resnet50_fpn"} <= set(names)


def test_parameters_are_those_that_torchvision_publishes():
    assert torchvision_zoo.parameters(parse("torchvision:resnet18")) == 11_689_512
    assert torchvision_zoo.parameters(parse("torchvision:ssdlite320_mobilenet_v3_large")) == 3_440_060


def test_a_name_that_is_wrong_is_corrected():
    with pytest.raises(SourceError, match=r"did you mean .*resnet18"):
        open_source("torchvision:resnet81")


@pytest.mark.parametrize(
    "name",
    ["ssdlite320_mobilenet_v3_large", pytest.param("fasterrcnn_mobilenet_v3_large_320_fpn", marks=pytest.mark.nightly)],
)
def test_a_detector_becomes_a_graph_of_boxes_inside_the_picture(name):
    program = open_source(f"torchvision:{name}")[0]
    built = program.make()
    with torch.no_grad():
        (found,) = built.program(*built.args)
    assert found["boxes"].shape == (100, 4) and found["boxes"].min() >= 0 and found["boxes"].max() <= 320
    assert found["scores"].unique().numel() == 100, "ties: the choice would be by chance"
    assert (found["scores"].diff() <= 0).all() and found["labels"].min() >= 1
    graph = capture_program(program)
    called = {node.op for node in graph.nodes}
    assert "aten.topk.default" in called and not any(op.startswith("torchvision") for op in called)
    assert graph.labels.outputs[0].endswith("boxes")


def test_alignment_of_regions_is_that_of_torchvision():
    from mindgap_zoo.zoos.torchvision_detectors import _sampled

    torchvision_zoo._models()
    import torchvision.ops

    theirs = sys.modules["torchvision.ops.roi_align"]._roi_align
    theirs = getattr(theirs, "__wrapped__", theirs)
    level = torch.randn(1, 5, 20, 24)
    corners = torch.rand(7, 2) * torch.tensor([10.0, 8.0])
    boxes = torch.cat([corners, corners + 0.2 + torch.rand(7, 2) * 9], 1)
    rois = torch.cat([torch.zeros(7, 1), boxes * 8], 1)
    expected = theirs(level, rois, 1 / 8, 7, 6, 2, False)
    assert torchvision.ops is not None
    torch.testing.assert_close(_sampled(level, boxes, 7, 6, 2), expected, rtol=1e-4, atol=1e-5)


def test_rows_of_anchors_and_clipping_are_those_of_torchvision():
    from mindgap_zoo.zoos.torchvision_detectors import _clipped, _rows

    torchvision_zoo._models()
    from torchvision.models.detection.rpn import concat_box_prediction_layers
    from torchvision.ops.boxes import clip_boxes_to_image

    scores = [torch.randn(2, 3, 4, 5), torch.randn(2, 3, 2, 2)]
    offsets = [torch.randn(2, 12, 4, 5), torch.randn(2, 12, 2, 2)]
    flat_scores, flat_offsets = concat_box_prediction_layers(scores, offsets)
    assert torch.equal(torch.cat([_rows(one, 1) for one in scores], 1).reshape(-1, 1), flat_scores)
    assert torch.equal(torch.cat([_rows(one, 4) for one in offsets], 1).reshape(-1, 4), flat_offsets)
    boxes = torch.randn(50, 4) * 100
    assert torch.equal(_clipped(boxes, (40, 60)), clip_boxes_to_image(boxes, (40, 60)))


def test_each_box_is_looked_up_in_the_level_that_torchvision_takes():
    from mindgap_zoo.zoos.torchvision_detectors import _aligned

    torchvision_zoo._models()
    from torchvision.ops.poolers import LevelMapper, MultiScaleRoIAlign

    pooler = MultiScaleRoIAlign(["0", "1", "2", "3"], 2, 2)
    # Every cell of a map holds the number of its level, and a fifth one is not for boxes.
    maps = [torch.full((1, 1, 256 >> level, 256 >> level), float(level)) for level in range(5)]
    corners = torch.rand(40, 2) * 100
    boxes = torch.cat([corners, corners + torch.logspace(0.5, 2.95, 40)[:, None]], 1)
    taken = _aligned(pooler, maps, boxes, (1024, 1024))[:, 0, 0, 0].round().to(torch.int64)
    assert torch.equal(taken, LevelMapper(2, 5)([boxes])) and taken.unique().tolist() == [0, 1, 2, 3]


def test_quantised_names_are_their_floating_models():
    built = open_source("torchvision:quantized_shufflenet_v2_x0_5")[0].make()
    with torch.no_grad():
        output = built.program(*built.args)
    assert output.dtype == torch.float32 and output.std() > 1e-3
