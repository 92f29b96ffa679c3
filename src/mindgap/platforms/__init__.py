"""Runs graphs on platforms. One module or package per backend; third parties add one by entry point.

Comes in: a `Graph` and its inputs as numpy arrays. Goes out: outputs as numpy arrays, or a typed
failure. A platform knows no other platform, and nothing of stores or verdicts.
"""

from mindgap.platforms.listing import PlatformInfo, list_platforms
from mindgap.platforms.name import PlatformName, parse
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import backends, find

__all__ = ["PlatformError", "PlatformInfo", "PlatformName", "backends", "find", "list_platforms", "parse"]
