"""The check of an emulator's arithmetic: exact results are exact, and what is wrong by one bit is found."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from mindgap.platforms.arithmetic_check import OPERATIONS, Operation, draw, judged
from mindgap.platforms.environments.emulated_arithmetic import run

FEW = 1 << 12


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: f"{each.words} {each.result}")
def test_this_machine_is_exact_and_one_wrong_bit_is_found(operation: Operation) -> None:
    operands = draw(operation, FEW)
    found = run(operation.name, operands, operation.result)
    if found is None:
        pytest.skip("this processor has no fused product and sum, or mindgap has no code of one for it")
    assert judged(operation, operands, found).wrong == 0
    # The operands near 1 are in the second quarter: their results are neither NaN nor zero.
    place = next(index for index in range(FEW // 4, FEW) if np.isfinite(found[index]) and found[index] != 0)
    found[place : place + 1].view(np.uint8)[0] ^= 1
    result = judged(operation, operands, found)
    assert (result.wrong, result.values) == (1, FEW)
    assert result.example.startswith(f"{operation.name}(")


def test_fused_products_and_sums_are_those_of_exact_fractions() -> None:
    for operation in (each for each in OPERATIONS if each.name == "fma"):
        operands = draw(operation, FEW)
        part = slice(FEW // 4, FEW // 2)
        a, b, c = (each[part] for each in operands)
        exact = operation.exact(a, b, c).astype(operation.result)
        kind = np.dtype(operation.dtype).type
        for index in range(64):
            right = Fraction(float(a[index])) * Fraction(float(b[index])) + Fraction(float(c[index]))
            apart = abs(Fraction(float(exact[index])) - right)
            for neighbour in (np.nextafter(exact[index], kind(-np.inf)), np.nextafter(exact[index], kind(np.inf))):
                assert apart <= abs(Fraction(float(neighbour)) - right)


def test_the_nan_of_a_processor_has_a_sign_and_keeps_an_operands_payload() -> None:
    add = next(each for each in OPERATIONS if each.words == "float32 add")
    signalling = np.array([0x7F812345], np.uint32).view(np.float32)
    quiet = np.array([0x7FC12345], np.uint32).view(np.float32)
    one = np.ones(1, np.float32)
    assert judged(add, [signalling, one], quiet, "positive").wrong == 0
    assert judged(add, [signalling, one], -quiet, "positive").wrong == 1
    infinity = np.full(1, np.inf, np.float32)
    default = np.array([0xFFC00000], np.uint32).view(np.float32)
    assert judged(add, [infinity, -infinity], default, "negative").wrong == 0
    assert judged(add, [infinity, -infinity], default, "positive").wrong == 1
    assert judged(add, [infinity, -infinity], default).wrong == 0
    assert judged(add, [infinity, -infinity], one).wrong == 1


def test_results_of_another_dtype_are_all_wrong() -> None:
    add = next(each for each in OPERATIONS if each.words == "float32 add")
    operands = draw(add, FEW)
    result = judged(add, operands, np.zeros(FEW))
    assert result.wrong == FEW and result.example == f"float64[{FEW}] instead of float32[{FEW}]"
