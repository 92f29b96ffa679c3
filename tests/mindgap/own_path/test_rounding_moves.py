"""How far eager mode moves where each result is a unit in the last place off."""

from typing import Any

import pytest
import torch

from mindgap.own_path.dynamic import rounding_moves
from mindgap.own_path.program_run import FlatProgram, run_eagerly


class Program(torch.nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def moves(function: Any, x: torch.Tensor) -> float:
    program = FlatProgram(Program(function), (x,), {})
    return rounding_moves(program, [x], run_eagerly(program, [x]))


X = torch.linspace(-1, 1, 32).reshape(4, 8)


def test_it_is_of_the_coarsest_dtype_that_computes() -> None:
    assert 1e-8 < moves(torch.sin, X) < 1e-6
    assert 1e-4 < moves(lambda x: x.half().float(), X) < 1e-2


@pytest.mark.parametrize(
    "function", [lambda x: x.view(8, 4), lambda x: x.unsafe_chunk(2)[0], lambda x: x > 0, lambda x: x.clone().fill_(1)]
)
def test_arguments_stay_as_they_are(function: Any) -> None:
    given = X.clone()
    moves(function, given)
    assert torch.equal(given, X)


def test_float8_and_operators_of_higher_order_run() -> None:
    assert moves(lambda x: x.to(torch.float8_e4m3fn).float(), X) < 1e-6
    assert moves(lambda x: torch.cond(x.sum() > 9, torch.sin, torch.cos, (x,)), X) < 1e-5
