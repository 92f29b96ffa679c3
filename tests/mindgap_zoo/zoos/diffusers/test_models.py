"""Networks of diffusers: made small by rules, given what they take, the same each time."""

from importlib.util import find_spec

import pytest

from mindgap.graph.codec import digest
from mindgap.graph_capture import CaptureError
from mindgap.sources.opening import capture_program, open_source
from mindgap.sources.source import SourceError
from mindgap_zoo.zoos.diffusers import models as diffusers_zoo
from mindgap_zoo.zoos.diffusers.shrinking import shrink_arguments

pytestmark = pytest.mark.skipif(find_spec("diffusers") is None, reason="diffusers is not installed")


def _program(name):
    (program,) = open_source(f"diffusers:{name}")
    return program


def test_names_are_networks_without_their_bases():
    names = diffusers_zoo.names()
    assert len(names) > 140
    assert {"UNet2DConditionModel", "AutoencoderKL", "FluxTransformer2DModel", "MultiControlNetUnionModel"} <= {*names}
    assert not {"ModelMixin", "AutoModel"} & {*names}


@pytest.mark.parametrize(
    "name",
    ["VQModel", "WanTransformer3DModel", "SD3MultiControlNetModel", "UVit2DModel", "Lumina2Transformer2DModel"],
)
def test_a_network_is_captured_and_proven(name):
    graph = capture_program(_program(name))
    assert len(graph.nodes) > 50
    assert any(given.role == "input" for given in graph.inputs)


def test_a_graph_is_the_same_each_time_and_another_with_another_seed():
    first, again = (digest(capture_program(_program("DiTTransformer2DModel"))) for _ in range(2))
    assert first == again
    assert digest(capture_program(_program("DiTTransformer2DModel?seed=1"))) != first


@pytest.mark.nightly
def test_random_numbers_inside_become_inputs():
    graph = capture_program(_program("ConsistencyDecoderVAE"))
    assert any(given.role == "random" for given in graph.inputs)


@pytest.mark.parametrize("name", ["T2IAdapter", "CogView3PlusTransformer2DModel"])
def test_gradients_are_captured_too(name):
    graph = capture_program(_program(name), backward=True)
    assert sum(label.startswith("grad") for label in graph.labels.outputs) >= 10


def test_options_change_depth_batch_and_size():
    shallow, deep = (_program(f"FluxTransformer2DModel?layers={n}").make() for n in (1, 3))
    assert len(shallow.program.transformer_blocks) == 1 and len(deep.program.transformer_blocks) == 3
    built = _program("UNet2DModel?batch=2&size=64").make()
    assert built.kwargs["sample"].shape == (2, 3, 64, 64)


def test_rules_keep_ratios_and_heads():
    class Network:
        def __init__(
            self, num_attention_heads=24, attention_head_dim=128, caption_projection_dim=3072, joint_attention_dim=4096,
            num_layers=19, block_out_channels=(320, 640, 1280, 1280), in_channels=64, flag=True,
        ):  # fmt: skip
            pass

    made = shrink_arguments(Network, {"in_channels": 16}, layers=2)
    assert made["num_attention_heads"] == 2 and made["attention_head_dim"] == 128
    assert made["caption_projection_dim"] == 256
    assert made["joint_attention_dim"] == 64
    assert made["num_layers"] == 2
    assert made["block_out_channels"] == (32, 64, 128, 128)
    assert made["in_channels"] == 16 and made["flag"] is True


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("ControlNetXSAdapter", SourceError, "no telling what its input args takes"),
        ("MotionAdapter", CaptureError, "returns no tensor"),
    ],
)
def test_what_cannot_be_captured_says_why(name, kind, said):
    with pytest.raises(kind, match=said) as caught:
        capture_program(_program(name))
    assert "\n" not in str(caught.value)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(SourceError, match="did you mean UNet2DModel"):
        open_source("diffusers:UNet2DModle")
