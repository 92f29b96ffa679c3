"""Which failures of a block are followed to their operator."""

from __future__ import annotations

from mindgap_campaign.campaign.schedule.block import OpenBlock
from mindgap_campaign.campaign.schedule.selection import BlockSelection


def block() -> OpenBlock:
    return OpenBlock(0, 0, [], BlockSelection(), {})


def followed(asked: OpenBlock, signature: str, op: str | None, times: int = 5) -> int:
    return sum(asked.follows("p", signature, op) for _ in range(times))


def test_three_failures_with_one_signature_are_followed() -> None:
    assert followed(block(), "no room", None) == 3


def test_failures_with_one_signature_in_different_operators_are_followed_apart() -> None:
    asked = block()
    assert [followed(asked, "no room", op) for op in ("aten.tile.default", "aten.topk.default", None)] == [3, 3, 3]
    assert followed(asked, "no room", "aten.tile.default") == 0


def test_platforms_are_counted_apart() -> None:
    asked = block()
    assert followed(asked, "no room", None) == 3
    assert asked.follows("other", "no room", None)
