"""PyTorch's own results of many operators, on ordinary and on nasty operands, raise no alarm."""

from __future__ import annotations

import pytest
import torch

from oracle.applied import applied
from oracle.nasty import calls, nasty

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
KINDS = [name for name, _ in nasty(torch.float32, (16, 16))]
#: What PyTorch refuses on such operands.
REFUSED = ("not implemented", "should be between 0 and 1", "did not converge", "failed to converge")
#: True deviations of PyTorch's CPU kernels that an alarm is right about: the vectorised float32 gelu of +Inf is NaN,
#: kernels of narrower formats make other infinities of infinite operands (0·Inf) than float64 ones.
#: C99 settles pow(x, ±½) at -0 and -Inf, and float16 and float64 kernels part there.
TRUE = {
    ("sub", "aten.pow.Tensor_Scalar"),
    ("wide", "aten.pow.Tensor_Scalar"),
    ("special", "aten.pow.Tensor_Scalar"),
    ("special", "aten.grid_sampler_2d.default"),
    ("special", "aten.gelu.default"),
    ("wide", "aten.conv_transpose2d.input"),
    ("wide", "aten.grid_sampler_2d.default"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_eager_is_calm(dtype: str, kind: str) -> None:
    x = dict(nasty(DTYPES[dtype], (16, 16)))[kind]
    alarms: list[str] = []
    checked = 0
    for op, args, kwargs in calls(x):
        try:
            one = applied(op, *args, **kwargs)
        except RuntimeError as error:
            assert any(words in str(error) for words in REFUSED), f"{op}: {error}"
            continue
        checked += 1
        found = [k for k in one.kinds() if k is not None]
        if found and (kind, op) not in TRUE:
            alarms.append(f"{op} {[a for a in args if not isinstance(a, torch.Tensor)]} {found}")
    assert not alarms
    assert checked > 150
