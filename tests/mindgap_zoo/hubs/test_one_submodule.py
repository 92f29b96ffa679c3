"""`hub:` folders that memory does not hold: one submodule, the first blocks; the other files are damaged here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from mindgap.aten.tensors import to_torch
from mindgap.graph import Normal, materialise
from mindgap.graph.tensors import TensorStore
from mindgap.sources import SourceError
from mindgap_zoo.hubs import size_limit
from mindgap_zoo.hubs.one_submodule import OnlySubmodule

from .test_hugging_face import built, captured, checkpoint, run


def damaged_but(at: Path, *kept: str) -> dict[str, torch.Tensor]:
    """Damages all files of safetensors that hold none of the tensors with these prefixes. Returns the tensors."""
    files = json.loads((at / "model.safetensors.index.json").read_text())["weight_map"]
    needed = {file for name, file in files.items() if name.startswith(kept)}
    found: dict[str, torch.Tensor] = {}
    for file in set(files.values()):
        found.update(load_file(at / file))
        if file not in needed:
            (at / file).write_bytes(b"no safetensors")
    assert 0 < len(needed) < len(set(files.values()))
    return found


def weights_of(graph, store: TensorStore) -> dict[str, torch.Tensor]:
    return {
        label: to_torch(materialise(given, store), given.spec)
        for given, label in zip(graph.inputs, graph.labels.inputs, strict=True)
        if given.role == "parameter"
    }


def test_one_layer_of_a_checkpoint_that_memory_does_not_hold(tmp_path, monkeypatch):
    at, store = checkpoint(tmp_path / "gpt"), TensorStore(tmp_path / "store")
    kept = damaged_but(at, "transformer.h.1.")
    monkeypatch.setattr(size_limit, "memory_bytes", lambda: 20_000)
    with pytest.warns(OnlySubmodule, match=r"files \d+ are read, for transformer.h.1 alone; .* drawn"):
        name, graph = captured(f"hub:{at}?length=5&inside=transformer.h.1", store)
    assert name == "gpt/transformer.h.1"
    read = weights_of(graph, store)
    assert len(read) == 12 and all(torch.equal(read[each], kept[f"transformer.h.1.{each}"]) for each in read)
    (hidden,) = [given for given in graph.inputs if given.spec.shape == (1, 5, 16)]
    assert isinstance(hidden.recipe, Normal) and hidden.spec.dtype == "bfloat16"
    assert torch.isfinite(run(graph, store)[0]).all()


def test_the_whole_model_of_such_a_checkpoint_is_refused_and_so_is_a_path_that_it_lacks(tmp_path, monkeypatch):
    at = checkpoint(tmp_path / "gpt")
    monkeypatch.setattr(size_limit, "memory_bytes", lambda: 20_000)
    with pytest.raises(SourceError, match=r"\?layers=2 it is built.*--inside PATH one submodule"):
        built(f"hub:{at}")
    with pytest.raises(SourceError, match=r"no such submodule; did you mean transformer\.h\.1"):
        built(f"hub:{at}?inside=transformer.h.7")
    with pytest.raises(SourceError, match=r"fewer than 2"):
        built(f"hub:{at}?inside=transformer.h.1&call=2")
    with pytest.raises(SourceError, match=r"two layers, and without examples= transformer\.h\.1 is read alone$"):
        built(f"hub:{at}?inside=transformer.h.1&examples=2")
    with pytest.raises(SourceError, match=r"\?layers=2 it is built with two layers$"):
        built(f"hub:{at}?inside=.")
    monkeypatch.setattr(size_limit, "memory_bytes", lambda: 8_000)
    with pytest.raises(SourceError, match=r"transformer\.h\.1 has 3,280 parameters"):
        built(f"hub:{at}?inside=transformer.h.1")


def test_layers_take_the_weights_of_the_first_blocks_and_read_no_others(tmp_path):
    at, store = checkpoint(tmp_path / "gpt"), TensorStore(tmp_path / "store")
    kept = damaged_but(at, "transformer.h.0.", "transformer.w", "transformer.ln_f")
    _, graph = captured(f"hub:{at}?layers=1&length=5", store)
    read = weights_of(graph, store)
    assert len(read) == 16 and all(torch.equal(read[each], kept[each]) for each in read)


@pytest.mark.parametrize(("index", "said"), [
    ('{"weight_map": {"transformer.h.1.ln_1.weight": "../elsewhere"}}', "which is no file of this folder"),
    ('{"weight_map": []}', "no JSON object"),
    ("{", "no index of safetensors files"),
    ('{"weight_map": {}}', "no safetensors file"),
])  # fmt: skip
def test_an_index_that_is_damaged_or_leads_out_of_the_folder(tmp_path, monkeypatch, index, said):
    at = checkpoint(tmp_path / "gpt")
    (at / "model.safetensors.index.json").write_text(index)
    for file in at.glob("model-*.safetensors"):
        file.write_bytes(b"")
    monkeypatch.setattr(size_limit, "memory_bytes", lambda: 20_000)
    with pytest.raises(SourceError, match=said):
        built(f"hub:{at}?inside=transformer.h.1")
