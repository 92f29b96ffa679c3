"""The commands over a catalogue, as a shell sees them."""

import json

import pytest

from mindgap.cli import main


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("catalogue")
    (folder / "m.py").write_text(
        "import torch\n"
        "def soft(): return torch.nn.Softmax(-1), (torch.ones(2, 3),)\n"
        "def bad(): raise RuntimeError('out of yarn')\n"
    )
    sources = [f"{folder / 'm.py'}:soft", f"{folder / 'm.py'}:bad"]
    assert main(["corpus", "build", str(folder / "c"), *sources, "-j", "1"]) == 0
    return folder / "c", sources


@pytest.mark.nightly
def test_list_show_and_stats(built, capfd, tmp_path):
    catalogue, sources = built
    assert main(["corpus", "list", str(catalogue)]) == 0
    assert "1 nodes" in capfd.readouterr().out
    assert main(["corpus", "list", str(catalogue), "--failed", "--json"]) == 0
    assert "out of yarn" in json.loads(capfd.readouterr().out)[0]["reason"]
    file = tmp_path / "soft.graph"
    assert main(["corpus", "show", str(catalogue), sources[0], "-o", str(file)]) == 0
    assert "%1: float32[2,3] = aten.softmax.int(%0, -1)  # Softmax" in capfd.readouterr().out
    assert main(["diff", f"graph:{file}", "-p", "cpu/eager"]) == 0
    assert "identical" in capfd.readouterr().out
    assert main(["corpus", "stats", str(catalogue), "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert [(z["tried"], z["captured"], z["failed"]) for z in printed["zoos"]] == [(2, 1, 1)]
    assert printed["union"] == 1 and printed["nbytes"] == sum(printed["bytes_by_folder"].values()) > 0
    assert main(["corpus", "stats", str(catalogue)]) == 0
    assert "out of yarn" in capfd.readouterr().out


def test_what_is_not_there_is_one_line(built, capfd, tmp_path):
    catalogue, sources = built
    wrong = {
        ("show", str(catalogue), "timm:resnet18"): "no forward pass of it",
        ("show", str(catalogue), sources[0], "--pass", "sideways"): "there are forward",
        ("show", str(catalogue), sources[1], "-o", str(tmp_path / "x")): "was not captured",
        ("stats", str(tmp_path / "none")): "no store",
        ("list", str(catalogue), "--scheme", "timm"): "no entry",
        ("build", str(tmp_path / "new"), "timm:nonesuch*"): "nothing to build",
    }
    for argv, says in wrong.items():
        assert main(["corpus", *argv]) == 2
        *progress, printed = capfd.readouterr().err.strip().splitlines()
        # A slow machine tells that it has begun.
        assert says in printed and all(line.strip().endswith("starting") for line in progress), (
            argv,
            progress,
            printed,
        )


@pytest.mark.nightly
def test_a_build_that_captures_nothing_is_an_error(built, capfd, tmp_path):
    _, sources = built
    assert main(["corpus", "build", str(tmp_path / "c"), sources[1], "-j", "1"]) == 2
    assert "NOTHING WAS CAPTURED" in capfd.readouterr().err


@pytest.mark.nightly
def test_the_graphs_and_variants_of_a_catalogue_are_sources(tmp_path, capfd):
    (tmp_path / "m.py").write_text(
        "import torch\n"
        "def net():\n"
        "    torch.manual_seed(0)\n"
        "    n = torch.nn\n"
        "    layers = n.Linear(8, 8), n.GELU(), n.LayerNorm(8), n.Linear(8, 4), n.Tanh()\n"
        "    return n.Sequential(*layers).eval(), (torch.randn(2, 8),)\n"
    )
    source, catalogue = f"{tmp_path / 'm.py'}:net", tmp_path / "c"
    assert main(["corpus", "build", str(catalogue), source, "-j", "1"]) == 0
    asked = [f"catalogue:{catalogue}?limit=5", f"variants:{catalogue}?count=2&nodes=3&seed=4"]
    capfd.readouterr()
    assert main(["diff", *asked, "-p", "cpu/jit", "--json"]) == 0
    printed = json.loads(capfd.readouterr().out)
    assert [row["model"] for row in printed["rows"]] == [source, "v000000", "v000001"]


def test_a_source_of_a_catalogue_that_is_wrong_is_one_line(built, capfd, tmp_path):
    catalogue, _ = built
    wrong = {
        f"catalogue:{catalogue}?size=3": "catalogue has no option size; it takes limit, pass",
        f"catalogue:{catalogue}?limit=few": "limit=few is not a whole number",
        f"catalogue:{catalogue}?pass=sgd": "has no graph of the pass sgd",
        f"variants:{catalogue}?count=-1": "count=-1 is not a whole number",
        f"variants:{catalogue}?count=0": "ask for one variant at least",
        f"catalogue:{tmp_path}/none": "no store",
    }
    for source, says in wrong.items():
        assert main(["diff", source, "-p", "cpu/jit"]) == 2
        assert says in capfd.readouterr().err, source
