"""What a custom operator declares wrongly is told with the operator and the line."""

from __future__ import annotations

import re
import warnings

import pytest
import torch

from mindgap.graph import TensorStore
from mindgap.graph_capture import capture
from mindgap.graph_capture.errors import WrongDeclaration

X = torch.arange(24.0).reshape(3, 8)


@torch.library.custom_op("declared::halves", mutates_args=())
def halves(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.shape[0], -1, 2).mean(-1).double()


@halves.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[0], x.shape[1] // 2)


@torch.library.custom_op("declared::turned", mutates_args=())
def turned(x: torch.Tensor) -> torch.Tensor:
    return x.flip(-1).contiguous()


@turned.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape[1], x.shape[0])


@torch.library.custom_op("declared::bumped", mutates_args=())
def bumped(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


@bumped.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("declared::right", mutates_args=())
def right(x: torch.Tensor, size: int) -> torch.Tensor:
    return x[:size].clone()


@right.register_fake
def _(x: torch.Tensor, size: int) -> torch.Tensor:
    return x.new_empty(size, x.shape[1])


@pytest.mark.parametrize(
    ("operator", "words"),
    [
        (halves, "its fake kernel gives float32 [3, 4], and the operator float64 [3, 4]"),
        (turned, "its fake kernel gives float32 [8, 3], and the operator float32 [3, 8]"),
        (bumped, "it writes to its argument x, and its schema says that it does not"),
        (lambda x: right(x, 2), ""),
    ],
)
def test_a_wrong_declaration_is_named(operator: object, words: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return operator(x * 1.5) + 1  # type: ignore[operator]

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", WrongDeclaration)
        capture(program, (X,), tensors=TensorStore(tmp_path_factory.mktemp("tensors")))
    told = [str(each.message) for each in caught if each.category is WrongDeclaration]
    assert len(told) == bool(words)
    assert all(
        re.match(r"custom operator declared::\w+ \(test_operator_declarations.py:\d+\): ", text) for text in told
    )
    assert all(words in text for text in told)
