"""Smoke tests of pytrees."""

from __future__ import annotations

import torch

from mindgap.aten.torch_private import modules


def test_containers_are_flattened_and_mapped() -> None:
    tree = {"a": [1, (2.0, "x")]}
    leaves, _ = modules.tree_flatten(tree)
    assert leaves == modules.tree_leaves(tree) == [1, 2.0, "x"]
    assert modules.tree_map(str, tree) == {"a": ["1", ("2.0", "x")]}
    assert modules.tree_map_only(int, lambda number: -number, tree) == {"a": [-1, (2.0, "x")]}


def test_each_leaf_has_a_path() -> None:
    paths = modules.tree_map_with_path(
        lambda path, leaf: "".join(modules.keystr((key,)) for key in path), {"a": [1, 2]}
    )
    assert paths == {"a": ["['a'][0]", "['a'][1]"]}
    kept = modules.tree_map_with_path(lambda path, leaf: path, [torch.ones(1)], is_leaf=torch.is_tensor)
    assert len(kept) == 1
