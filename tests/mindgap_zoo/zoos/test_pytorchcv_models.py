"""pytorchcv's networks as programs: pictures, speech, and names that it does not know."""

import pytest
import torch

from mindgap.sources.opening import capture_program, open_source
from mindgap.sources.source import SourceError, parse
from mindgap_zoo.zoos import pytorchcv_models as zoo

try:
    zoo.names()
except SourceError:
    pytest.skip("pytorchcv is not installed", allow_module_level=True)


def test_names_are_sorted():
    names = zoo.names()
    assert names == sorted(names) and len(names) > 800


def test_parameters_are_those_that_pytorchcv_publishes():
    assert zoo.parameters(parse("pytorchcv:resnet18")) == 11_689_512


def test_a_name_that_is_wrong_is_corrected():
    with pytest.raises(SourceError, match=r"pytorchcv has no model 'resnet81'; did you mean .*resnet18"):
        open_source("pytorchcv:resnet81")


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("resnet20_cifar10", [(1, 3, 32, 32)]),
        ("efficientnet_b1", [(1, 3, 240, 240)]),
        ("enet_cityscapes", [(1, 3, 256, 512)]),
        ("quartznet5x5_en_ls", [(1, 64, 160), (1,)]),
        ("voca8flame", [(1, 1, 16, 29), (1,)]),
    ],
)
def test_the_arguments_are_the_networks_own(name, shapes):
    built = open_source(f"pytorchcv:{name}")[0].make()
    assert [tuple(argument.shape) for argument in built.args] == shapes
    with torch.no_grad():
        output = built.program(*built.args)
    first = output if isinstance(output, torch.Tensor) else output[0]
    assert torch.isfinite(first).all() and first.std() > 1e-4


def test_a_size_and_a_batch_can_be_asked_for():
    built = open_source("pytorchcv:resnet20_cifar10?size=40&batch=3")[0].make()
    assert built.args[0].shape == (3, 3, 40, 40)


def test_a_network_is_captured_with_its_recipes():
    graph = capture_program(open_source("pytorchcv:resnet20_cifar10")[0])
    assert {type(given.recipe).__name__ for given in graph.inputs} == {"Normal", "Uniform"}
    assert graph == capture_program(open_source("pytorchcv:resnet20_cifar10")[0], verify=False)
