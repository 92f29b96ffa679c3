"""What a catalogue keeps can be run from what is on disk alone, or is told to be damaged, and captured again."""

import json
import shutil
import textwrap
from collections import Counter

import numpy as np
import pytest

from cli.command_line import mindgap
from mindgap.graph import MindgapError, Stored, TensorStore, digest, materialise_all, tensor_key
from mindgap_campaign.catalogue import Catalogue, build, damaged_graphs, stats_of

MODELS = """
    import torch
    from torch import nn

    class Looked(nn.Module):
        "Two tables that are no weights: positions, and more than a MiB of floats."
        def __init__(self, act, width=4):
            super().__init__()
            self.register_buffer("places", torch.arange(999, -1, -1))
            self.first, self.act = nn.Linear(4, width), act
            self.table = torch.linspace(-1, 1, 1 << 19).reshape(1024, 512)
        def forward(self, x):
            return self.act(self.first(x)), self.table[self.places[:7]] * 2

    X = torch.linspace(-1, 1, 12).reshape(3, 4)
    def relu(): return Looked(nn.ReLU()), (X,)
    def tanh(): return Looked(nn.Tanh()), (X,)
    def relu_again(): return Looked(nn.ReLU(), 6), (X,)
    def plain(): return (lambda x: x.sin() + 1), (X,)
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    file = tmp_path_factory.mktemp("models") / "models.py"
    file.write_text(textwrap.dedent(MODELS))
    return lambda *names: [f"{file}:{name}" for name in names]


@pytest.fixture(scope="module")
def first(models, tmp_path_factory):
    catalogue = Catalogue(tmp_path_factory.mktemp("first") / "catalogue", create=True)
    build(catalogue, models("relu", "relu_again", "tanh", "plain"), ("backward",))
    return catalogue.path


@pytest.fixture
def built(first, tmp_path):
    """A catalogue of its own for each test."""
    return Catalogue(shutil.copytree(first, tmp_path / "catalogue"))


def files(catalogue):
    return {file.stem: file for file in catalogue.tensors.glob("*.safetensors")}


@pytest.mark.nightly
def test_a_graph_refers_to_tensors_by_the_keys_that_are_on_disk(built, models):
    found = {(entry.source.partition(":")[2], entry.of): entry for entry in built.entries()}
    assert Counter(entry.status for entry in found.values()) == {"captured": 6, "duplicate": 1}
    relu = found["relu", "forward"]
    graph = built.graph(relu)
    assert digest(graph) == relu.graph == relu.holder
    keys = [given.recipe.key for given in graph.inputs if isinstance(given.recipe, Stored)]
    assert len(keys) == 2 and set(keys) <= files(built).keys()
    values = {a.tobytes() for a in materialise_all(graph, TensorStore(built.tensors))}
    assert np.arange(999, -1, -1).tobytes() in values
    # What is only compared and not kept has the digest that it would have been kept under.
    alone = Catalogue(built.path.parent / "alone", create=True)
    build(alone, models("relu_again"))
    assert alone.entry(models("relu_again")[0]).graph == found["relu_again", "forward"].graph
    stats = stats_of(built)
    assert stats.damaged == () and stats.verified == 6


@pytest.mark.parametrize(
    "harm", ["missing", *(pytest.param(one, marks=pytest.mark.nightly) for one in ("another", "graph"))]
)
def test_damage_is_found_told_and_captured_again(built, models, harm):
    relu = built.entry(models("relu")[0])
    held = {given.recipe.key for given in built.graph(relu).inputs if isinstance(given.recipe, Stored)}
    (places,) = (key for key in held if files(built)[key].stat().st_size < 100_000)
    file = files(built)[places]
    if harm == "missing":
        file.unlink()
    elif harm == "another":
        other = TensorStore(built.path / "other")
        key = other.put(np.zeros(1000, np.int64))
        (other.path / f"{key}.safetensors").rename(file)
    else:
        file = next((built.path / "graphs").rglob(f"{relu.graph}.graph"))
        file.write_bytes(file.read_bytes()[:-9])
    damaged = damaged_graphs(built)
    # Both passes of both activations share the tables; `plain` has none.
    assert len(damaged) == (1 if harm == "graph" else 4)
    programs = {(source.partition(":")[2], of) for each in damaged for source, of in each.programs}
    assert {("relu", "forward"), ("relu_again", "forward")} <= programs
    assert (("plain", "forward") not in programs and ("tanh", "forward") in programs) or harm == "graph"
    assert build(built, models("plain")) == 0, "what nobody names is not captured again"
    assert len(damaged_graphs(built)) == len(damaged)

    assert build(built, models("relu", "relu_again", "tanh", "plain"), ("backward",)) == (2 if harm == "graph" else 3)
    assert stats_of(built).damaged == ()
    assert Counter(entry.status for entry in built.entries()) == {"captured": 6, "duplicate": 1}
    assert materialise_all(built.graph(built.entry(models("relu")[0])), TensorStore(built.tensors))
    assert build(built, models("relu", "relu_again", "tanh", "plain"), ("backward",)) == 0


@pytest.mark.nightly
def test_what_cannot_be_read_back_does_not_count_as_captured(models, tmp_path):
    catalogue = Catalogue(tmp_path / "catalogue", create=True)
    # A file of the right name and the wrong content, as a disk full at the wrong moment leaves.
    catalogue.tensors.mkdir()
    key = tensor_key(np.arange(999, -1, -1))
    (catalogue.tensors / f"{key}.safetensors").write_bytes(b"half a file")
    build(catalogue, models("relu", "plain"))
    relu = catalogue.entry(models("relu")[0])
    assert relu.status == "failed" and "cannot be made again from the catalogue: input" in relu.reason
    assert key in relu.reason and catalogue.entry(models("plain")[0]).status == "captured"
    with pytest.raises(MindgapError, match="was not captured"):
        catalogue.graph(relu)
    assert build(catalogue, models("relu", "plain"), retry=True) == 1
    assert catalogue.entry(models("relu")[0]).status == "captured" and damaged_graphs(catalogue) == ()


@pytest.mark.nightly
def test_the_commands_say_so_and_write_files_that_can_be_run(built, models, tmp_path):
    (source,) = models("tanh")
    ran = mindgap("corpus", "stats", str(built.path), cwd=tmp_path)
    assert ran.status == 0 and "6 of 6 graphs read back from disk" in " ".join(ran.out.split())
    ran = mindgap("corpus", "show", str(built.path), source, "-o", "tanh.graph", cwd=tmp_path)
    assert ran.status == 0
    ran = mindgap("diff", "graph:tanh.graph", "-p", "cpu/eager", cwd=tmp_path)
    assert ran.status == 0 and "identical" in ran.out

    for file in files(built).values():
        file.unlink()
    ran = mindgap("corpus", "stats", str(built.path), "--json", cwd=tmp_path)
    printed = json.loads(ran.out)
    assert ran.status == 2 and printed["verified"] == 6 and len(printed["damaged"]) == 4
    first = printed["damaged"][0]
    assert "no tensor" in first["reason"] and first["programs"][0][1] in ("forward", "backward")
    (line,) = ran.err.splitlines()
    assert line.startswith("mindgap: DAMAGED: 4 of 6 graphs, which stand for 5 programs, cannot be run")
    elsewhere = {"cwd": tmp_path, "home": tmp_path / "another home"}
    ran = mindgap("corpus", "show", str(built.path), source, "-o", "again.graph", **elsewhere)
    assert ran.status == 2 and "no tensor" in ran.err and not (tmp_path / "again.graph").exists()
    ran = mindgap("corpus", "build", str(built.path), *models("plain"), cwd=tmp_path)
    assert ran.status == 2 and "DAMAGED: 4 of 6" in ran.err
