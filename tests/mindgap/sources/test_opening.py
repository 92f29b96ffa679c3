"""Every kind of source from its text to a graph that runs, and the demonstration's list."""

import pickle
import zipfile

import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_torch
from mindgap.graph import Stored, materialise_all, save
from mindgap.sources import Captured, CaptureFailure, SourceError, capture_source, open_source
from mindgap_campaign.catalogue.patterns import expand
from mindgap_campaign.demo import DATA, DEMO_MODELS, DEMO_OPERATORS


def run(graph):
    inputs = [to_torch(array, given.spec) for array, given in zip(materialise_all(graph), graph.inputs, strict=True)]
    return Tape(graph).run(inputs)


def says_something(outputs):
    floats = [value for value in outputs if value.is_floating_point() and value.numel() > 1]
    return bool(floats) and all(torch.isfinite(v).all() for v in floats) and all(v.std() > 0 for v in floats)


@pytest.mark.parametrize(
    "text",
    [
        "timm:test_vit?seed=3",
        "timm:test_convnext?size=64&dtype=bfloat16",
        "torchvision:squeezenet1_1?size=64",
        "torchvision:ssdlite320_mobilenet_v3_large?size=64",
        "transformers:bert?length=5&batch=2",
        "transformers:ViTModel",
        "transformers:WhisperModel",
    ],
)
def test_zoo_models_become_self_contained_graphs_that_say_something(text):
    ((_, graph),) = capture_source(text)
    assert not isinstance(graph, CaptureFailure), graph
    assert not any(isinstance(given.recipe, Stored) for given in graph.inputs)
    assert says_something(run(graph))


def test_options_reach_the_model():
    ((_, graph),) = capture_source("transformers:bert?length=5&batch=2")
    assert graph.inputs[0].spec.shape == (2, 5)
    ((_, half),) = capture_source("timm:test_vit?dtype=bfloat16&batch=3")
    assert half.inputs[0].spec.dtype == "bfloat16" and half.inputs[0].spec.shape[0] == 3
    ((_, trained),) = capture_source("timm:test_convnext?size=64&train=1")
    ((_, evaluated),) = capture_source("timm:test_convnext?size=64")
    assert trained.inputs[0].spec.shape[0] == 2 and evaluated.inputs[0].spec.shape[0] == 1


def test_two_openings_of_one_source_give_equal_graphs():
    first, second = (next(iter(capture_source("timm:test_vit")))[1] for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("timm:resnet19", "timm has no model 'resnet19'; did you mean resnet1"),
        ("torchvision:resnet19", "torchvision has no model 'resnet19'; did you mean resnet1"),
        ("transformers:BertModle", "did you mean BertModel"),
        ("transformers:AutoModel", "transformers has no model 'AutoModel'"),
        ("pt2:nowhere.pt2", "no such file"),
        ("graph:nowhere.graph", "no such file"),
    ],
)
def test_unknown_names_are_answered_with_near_ones(text, says):
    with pytest.raises(SourceError, match=says) as refused:
        open_source(text)
    assert "\n" not in str(refused.value)


def test_an_exported_program(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU()).eval()
    x = torch.rand(2, 3)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    ((name, graph),) = capture_source(f"pt2:{tmp_path}/model.pt2")
    assert name == "model"
    with torch.no_grad():
        assert torch.equal(run(graph)[0], model(x))


class Explodes:
    """A pickle that creates a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_an_exported_program_with_code_in_a_pickle_is_refused(tmp_path):
    path, mark = tmp_path / "model.pt2", tmp_path / "ran"
    torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.rand(2),)), path)
    with zipfile.ZipFile(path) as archive:
        prefix = archive.namelist()[0].split("/")[0]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"{prefix}/data/constants/evil", pickle.dumps(Explodes(str(mark))))
    ((_, failure),) = capture_source(f"pt2:{path}")
    assert isinstance(failure, CaptureFailure) and "evil" in failure.reason
    assert not mark.exists()


def test_a_graph_file(tmp_path):
    ((_, graph),) = capture_source("timm:test_vit")
    save(graph, tmp_path / "vit.graph")
    (opened,) = open_source(f"graph:{tmp_path}/vit.graph")
    assert isinstance(opened, Captured) and opened.name == "vit" and opened.graph == graph


def test_the_demonstration_opens_what_it_lists() -> None:
    for source in DEMO_MODELS:
        assert open_source(source)
    for pattern in DEMO_OPERATORS:
        assert expand(pattern)


def test_the_graphs_that_come_with_the_package_run():
    files = sorted(DATA.glob("*.graph"))
    assert len(files) == 2
    for file in files:
        ((_, graph),) = capture_source(f"graph:{file}")
        assert says_something(run(graph))
