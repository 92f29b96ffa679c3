"""`torchhub:`: repositories with a hubconf.py, made here; nothing is fetched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_torch
from mindgap.graph import Stored, materialise_all
from mindgap.sources import CaptureFailure, SourceError, capture_source, open_source

HUBCONF = """
dependencies = ["torch"]
from layers import Net

def net(pretrained=True, width=4):
    print("making a net")
    assert not pretrained
    return Net(width)

def text(weights="trained"):
    assert weights is None
    import torch
    return torch.nn.Sequential(torch.nn.Embedding(40, 8), torch.nn.Linear(8, 3))

def insists():
    import torch
    torch.hub.load_state_dict_from_url("https://nowhere.invalid/net.pt")

def leaves():
    raise SystemExit(3)

def breaks():
    raise ValueError("no such\\nthing")

def table():
    return {}

def hungry():
    import torch
    return torch.nn.Bilinear(2, 2, 2)
"""
LAYERS = """
from torch import nn

class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.convolution = nn.Conv2d(3, width, 3)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, picture):
        print("running")
        return self.norm(self.convolution(picture)).mean((2, 3))
"""


@pytest.fixture(autouse=True)
def offline(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "kept"))


def repository(at: Path, layers: str = LAYERS) -> Path:
    at.mkdir(parents=True)
    (at / "hubconf.py").write_text(HUBCONF)
    (at / "layers.py").write_text(layers)
    return at


def captured(text: str):
    ((name, graph),) = capture_source(text)
    assert not isinstance(graph, CaptureFailure), graph
    return name, graph


def run(graph):
    inputs = [to_torch(array, one.spec) for array, one in zip(materialise_all(graph), graph.inputs, strict=True)]
    return Tape(graph).run(inputs)


def test_a_model_of_a_local_repository_is_the_same_each_time(tmp_path, capfd):
    at = repository(tmp_path / "repo")
    path = list(sys.path)
    name, one = captured(f"torchhub:{at}:net?size=32")
    _, other = captured(f"torchhub:{at}:net?size=32")
    assert name == "repo:net" and one == other
    assert not any(isinstance(given.recipe, Stored) for given in one.inputs)
    assert one.inputs[0].spec.shape == (1, 3, 32, 32)
    (found,) = run(one)
    assert torch.isfinite(found).all() and found.std() > 0
    assert sys.path == path and "layers" not in sys.modules and "hubconf" not in sys.modules


def test_two_repositories_may_name_their_modules_alike(tmp_path):
    one = repository(tmp_path / "one")
    two = repository(tmp_path / "two", LAYERS.replace(".mean((2, 3))", ".amax((2, 3))"))
    ops = [{node.op for node in captured(f"torchhub:{at}:net?size=16")[1].nodes} for at in (one, two)]
    assert "aten.mean.dim" in ops[0] and "aten.amax.default" in ops[1] and "aten.mean.dim" not in ops[1]


def test_tokens_are_found_where_pictures_do_not_do(tmp_path):
    _, graph = captured(f"torchhub:{repository(tmp_path / 'repo')}:text?batch=2")
    assert (graph.inputs[0].spec.dtype, graph.inputs[0].spec.shape) == ("int64", (2, 12))


def test_train_and_dtype_reach_the_model(tmp_path):
    at = repository(tmp_path / "repo")
    _, graph = captured(f"torchhub:{at}:net?size=16&dtype=bfloat16&train=1")
    assert graph.inputs[0].spec.dtype == "bfloat16" and graph.inputs[0].spec.shape[0] == 2


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("insists", r"wants to download https://nowhere\.invalid/net\.pt"),
        ("leaves", r"called sys\.exit\(3\)"),
        ("breaks", "its constructor raised ValueError: no such$"),
        ("table", "returned a dict, and no model"),
        ("hungry", "it raised TypeError"),
        ("nets", "no entry point 'nets'; did you mean net"),
    ],
)
def test_what_a_repository_does_wrong_is_said_in_one_line(tmp_path, entry, said):
    before = torch.hub.load_state_dict_from_url
    (program,) = open_source(f"torchhub:{repository(tmp_path / 'repo')}:{entry}")
    with pytest.raises(SourceError, match=said) as refused:
        program.make()
    assert "\n" not in str(refused.value)
    assert torch.hub.load_state_dict_from_url is before


def test_a_missing_dependency_is_named(tmp_path):
    at = repository(tmp_path / "repo")
    (at / "hubconf.py").write_text('dependencies = ["no_such_package_at_all"]\n' + HUBCONF.partition("\n\n")[2])
    (program,) = open_source(f"torchhub:{at}:text")
    with pytest.raises(SourceError, match="no_such_package_at_all"):
        program.make()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("someone/no-such-repository:net", "mindgap downloads nothing: clone it"),
        ("./nowhere:net", "no such folder"),
        ("nowhere", "write torchhub:FOLDER:ENTRYPOINT"),
        ("some/where:not-a-name", "write torchhub:FOLDER:ENTRYPOINT"),
    ],
)
def test_what_is_not_here_is_said_with_what_to_do(target, said):
    with pytest.raises(SourceError, match=said):
        open_source(f"torchhub:{target}")


def test_a_folder_without_a_hubconf(tmp_path):
    with pytest.raises(SourceError, match=r"has no hubconf\.py"):
        open_source(f"torchhub:{tmp_path}:net")


def test_a_repository_that_torch_hub_keeps_is_found_by_its_name(tmp_path):
    repository(tmp_path / "kept" / "someone_things_main")
    name, _ = captured("torchhub:someone/things:net?size=16")
    assert name == "someone_things_main:net"


def test_no_pattern_stands_for_a_repository(tmp_path):
    from mindgap_campaign.catalogue.patterns import EVERYTHING, expand

    assert not any("hub:" in pattern for pattern in EVERYTHING)
    assert expand("torchhub:someone/*:net") == ["torchhub:someone/*:net"]
    with pytest.raises(SourceError, match="no such folder"):
        open_source("torchhub:someone/*:net")
