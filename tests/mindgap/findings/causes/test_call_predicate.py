"""A condition reads one call, and can do nothing else."""

from __future__ import annotations

import pytest

from mindgap.findings.causes.call_predicate import OperatorCall, call_predicate
from mindgap.graph import MindgapError

POOL = OperatorCall(
    "aten.avg_pool2d.default",
    {"kernel_size": [2, 2], "divisor_override": 3, "ceil_mode": False},
    ("self",),
    ("bfloat16",),
    ([2, 0, 4, 4],),
)
UNKNOWN = OperatorCall("aten.add.Tensor", {"alpha": 1}, ("self", "other"), (None, "float32"), (None, []))


@pytest.mark.parametrize(
    ("text", "of_pool", "of_unknown"),
    [
        ("", True, True),
        ('args.get("divisor_override") is not None', True, False),
        ("args.get('alpha', 1) != 1", False, False),
        ("len(shapes[0]) == 0", False, False),
        ("len(shapes[1]) == 0", False, True),
        ("0 in shapes[0]", True, False),
        ("any(s is not None and len(s) == 0 for s in shapes)", False, True),
        ('"bfloat16" in dtypes', True, False),
        ("args['kernel_size'] == [2, 2] and not args['ceil_mode']", True, False),
        ("shapes[0][-1] % 4 == 0 and max(shapes[0]) - 2 > -3", True, False),
        ('"other" not in tensors', True, False),
        ("dtypes[0].startswith('bfloat')", True, False),
        ("len([n for n in shapes[0][1:] if n in (4, 8)]) == 2", True, False),
        ("args['no_such'] == 1", False, False),
        ("op.startswith('aten.add.')", False, True),
    ],
)
def test_a_condition_is_met_or_not_and_what_is_not_known_does_not_meet_it(
    text: str, of_pool: bool, of_unknown: bool
) -> None:
    assert (call_predicate(text)(POOL), call_predicate(text)(UNKNOWN)) == (of_pool, of_unknown)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "open('x')",
        "args.__class__",
        "args.pop('x')",
        "().__class__.__bases__",
        "lambda: 1",
        "[x for x in shapes if (y := x)]",
        "f'{args}'",
        "'%999999999d' % 1",
        "2 ** 99999999",
        "'a' * 999999999",
        "sorted(dtypes)",
        "[args for args in shapes]",
        "[len for len in shapes]",
        "shape[0]",
        "args.get('x') is",
        "(lambda: args)()",
        "[].append(1)",
        "await args",
    ],
)
def test_what_does_more_than_read_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(MindgapError, match="condition ") as raised:
        call_predicate(text)
    assert "\n" not in str(raised.value)


def test_a_condition_names_the_arguments_that_it_reads() -> None:
    text = "args['dim'] == 1 or args.get('keepdim') or 'out' in args or dtypes[0] == 'x'"
    assert call_predicate(text).arguments == {"dim", "keepdim", "out"}
