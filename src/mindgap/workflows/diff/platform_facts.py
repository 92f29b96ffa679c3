"""Collects the facts about a report's platforms before anything runs."""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.platforms.listing import PlatformInfo, list_platforms, platform_info
from mindgap.platforms.name import PlatformName, recorded
from mindgap.platforms.protocol import PlatformError
from mindgap.results.rows import PlatformFacts


def facts_of(
    platforms: Sequence[PlatformName], *, reference: PlatformName, skip_unavailable: bool
) -> tuple[PlatformFacts, ...]:
    """The requested platforms, in order and once each, then what is registered and not on this machine.

    Raises `PlatformError` where a requested one is not available, the reference in any case.
    """
    names = {platform.device_mode for platform in platforms if not platform.is_import_path}
    registered = {info.platform: info for info in list_platforms(names)}
    facts = [_fact(platform, registered) for platform in dict.fromkeys(platforms)]
    for fact in facts:
        if not fact.available and (fact.platform == reference or not skip_unavailable):
            raise PlatformError(f"platform {fact.platform} is not available here: {fact.reason}")
    absent = [_plain(info) for info in registered.values() if not info.available and info.platform not in names]
    return (*facts, *absent)


def _fact(platform: PlatformName, registered: dict[str, PlatformInfo]) -> PlatformFacts:
    if platform.is_import_path:
        return PlatformFacts(platform, platform.device_mode, available=True)
    if not platform.is_here:
        return _plain(platform_info(platform))
    return _plain(registered[platform.device_mode].with_options(platform))


def _plain(info: PlatformInfo) -> PlatformFacts:
    return PlatformFacts(
        recorded(info.platform), info.backend, info.available, info.reason, info.hardware, info.versions, info.options,
        info.execution, info.arithmetic,
    )  # fmt: skip
