"""Collects the facts about a report's platforms before anything runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from mindgap.platforms.listing import PlatformInfo, list_platforms, platform_info
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import canonical, is_import_path, parse
from mindgap.results.rows import PlatformFacts


def spelled(platform: str) -> str:
    """Gives the canonical name of a platform. `package.module:attribute` stays as it is.

    Raises `PlatformError` for a platform, option or value that is not known.
    """
    return platform if is_import_path(platform) else canonical(platform)


def facts_of(platforms: Sequence[str], *, reference: str, skip_unavailable: bool) -> tuple[PlatformFacts, ...]:
    """The platforms asked for, in order and once each, then what is registered and not on this machine.

    Raises `PlatformError` where one asked for is not available, the reference in any case.
    """
    names = {parse(platform).device_mode for platform in platforms if not is_import_path(platform)}
    registered = {info.platform: info for info in list_platforms(names)}
    asked = [_fact(platform, registered) for platform in dict.fromkeys(platforms)]
    for fact in asked:
        if not fact.available and (fact.platform == reference or not skip_unavailable):
            raise PlatformError(f"platform {fact.platform} is not available here: {fact.reason}")
    absent = [_plain(info) for info in registered.values() if not info.available and info.platform not in names]
    return (*asked, *absent)


def _fact(platform: str, registered: dict[str, PlatformInfo]) -> PlatformFacts:
    if is_import_path(platform):
        return PlatformFacts(platform, platform.partition("@")[0], available=True)
    name = parse(platform)
    if name.environment:
        return _plain(platform_info(platform))
    return dataclasses.replace(_plain(registered[name.device_mode]), platform=platform)


def _plain(info: PlatformInfo) -> PlatformFacts:
    return PlatformFacts(
        info.platform, info.backend, info.available, info.reason, info.hardware, info.versions, info.options
    )
