"""Defines and validates the plan of a campaign, `campaign.toml`.

```toml
seed = 7
catalogue = "out/catalogue"
reference = "cpu/eager"
[variants]                # what is synthesised
count = 20000
sizes = [ {nodes = 20, share = 0.5}, {nodes = 200, share = 0.475}, {nodes = 1000, share = 0.025} ]
mutated = 0.25
large = 0.1
[platforms]
"cpu/eager@isa=avx2" = {}                            # everything
"onnxruntime/cpu" = { variants = 3000 }              # those with most that is new for their size
"cpu/aotinductor" = { cpu_minutes = 60, batch = 50 } # the same, for as long as that lasts
[limits]
deadline_s = 60
[stop]
minutes = 30
[hosts.edge]              # where platforms such as "cpu/eager@host=edge" run; or in a mindgap.toml
command = "ssh edge python3 -m mindgap worker"
```
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mindgap.graph import MindgapError
from mindgap.platforms.environments import HostProblem
from mindgap.platforms.environments.host import parse_hosts
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import canonical
from mindgap.results.settings import RunSettings
from mindgap_campaign.campaign.plan.positions import line_of

#: Cases of a block; the last may have fewer.
BLOCK: Final = 500
#: What may be changed in a campaign that has begun: when it ends and how hosts are reached, not what it does.
CHANGEABLE: Final = frozenset({"stop", "hosts"})
_AT: Final = re.compile(r"\(at line (\d+), column \d+\)")


class PlanError(MindgapError):
    """Raised for an invalid plan. The message names the file, the line and the key."""


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Size(_Part):
    """One size class: the fraction `share` of all variants has about `nodes` nodes."""

    nodes: Annotated[int, Field(ge=1)]
    share: Annotated[float, Field(gt=0, le=1)]


class Variants(_Part):
    """The variants to synthesise: how many, and of which sizes.

    `mutated`: share of mutated regions. `large`: share of regions that may have values of more than 32,768 elements.
    `exceptional`: whether mutated regions may also be given NaN, infinities, signed zeros and extreme values.
    `forward`: share of variants without operators of backward passes, which inference-only platforms do not run.
    """

    count: Annotated[int, Field(ge=1)]
    sizes: Annotated[tuple[Size, ...], Field(strict=False, min_length=1)] = (Size(nodes=60, share=1.0),)
    mutated: Annotated[float, Field(ge=0, le=1)] = 0.25
    large: Annotated[float, Field(ge=0, le=1)] = 0.1
    exceptional: bool = False
    forward: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="after")
    def _whole(self) -> Variants:
        total = sum(size.share for size in self.sizes)
        if abs(total - 1) > 1e-6:
            raise ValueError(f"the shares of sizes add up to {total:g}, not to 1")
        return self


class PlatformPlan(_Part):
    """The variants that one platform runs: all, or `variants` of them, or as many as `cpu_minutes` allow.

    A subset consists of the variants with the most features that are new to the platform, for their cost. `batch`:
    variants compiled at once, if the platform can. `gradients`: whether the platform runs graphs with operators that
    only a backward pass calls; by default it does, unless it is an inference-only platform.
    """

    variants: Annotated[int, Field(ge=1)] | None = None
    cpu_minutes: Annotated[float, Field(gt=0)] | None = None
    batch: Annotated[int, Field(ge=1)] = 1
    gradients: bool | None = None

    @property
    def everything(self) -> bool:
        return self.variants is None and self.cpu_minutes is None


class VariantLimits(_Part):
    """Limits for one variant.

    `deadline_s`: seconds on one platform. `repeat`: runs on one platform. `judge_s`: seconds to judge it against one
    platform (processor seconds of the judge plus seconds of its jobs). `follow_s`: seconds to follow a failure to its
    operator, counted in the same way. `memory_gib`: memory of one worker.

    `coverage_minutes`: minutes of wall time of the support survey of each platform before the campaign begins; 0: no
    survey.
    """

    deadline_s: Annotated[float, Field(gt=0)] = 60.0
    repeat: Annotated[int, Field(ge=1)] = 2
    memory_gib: Annotated[float, Field(gt=0)] = 4.0
    judge_s: Annotated[float, Field(gt=0)] = 20.0
    follow_s: Annotated[float, Field(gt=0)] = 60.0
    trace: bool = True
    coverage_minutes: Annotated[float, Field(ge=0)] = 5.0


class Stop(_Part):
    """Conditions that end a session early; 0 disables one. `minutes` count from `run` or `resume`.

    `variants`: rounded up to whole blocks.

    `saturation`: consecutive blocks without a new feature, failure or culprit.
    """

    minutes: Annotated[float, Field(ge=0)] = 0.0
    variants: Annotated[int, Field(ge=0)] = 0
    saturation: Annotated[int, Field(ge=0)] = 0


class Plan(_Part):
    """The content of `campaign.toml`.

    `skip_unavailable`: skip a platform that is not on this machine, with a warning. `internal`: judge internal outputs
    like any other. `hosts`: the tables of hosts by name, as `platforms.environments.host` reads them.
    """

    seed: int
    catalogue: Annotated[str, Field(min_length=1)]
    reference: PlatformName = CPU_EAGER
    skip_unavailable: bool = False
    internal: bool = False
    variants: Variants
    platforms: Annotated[dict[PlatformName, PlatformPlan], Field(min_length=1)]
    limits: VariantLimits = VariantLimits()
    stop: Stop = Stop()
    hosts: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])

    @property
    def digest(self) -> str:
        """Returns a digest (128 bits, in hex) of the keys that decide the results.

        Not included: the catalogue's path, `skip_unavailable`, the survey's limit, `stop` and `hosts`.
        """
        data = self.model_dump(exclude={"catalogue", "skip_unavailable", *CHANGEABLE})
        del data["limits"]["coverage_minutes"]
        # Keys that are newer than some campaigns: left at their default, they leave a plan's digest as it was.
        if not self.internal:
            del data["internal"]
        for newer in ("exceptional", "forward"):
            if not data["variants"][newer]:
                del data["variants"][newer]
        for platform in data["platforms"].values():
            if platform["gradients"] is None:
                del platform["gradients"]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]

    @property
    def run_settings(self) -> RunSettings:
        """How graphs of the campaign are run and judged."""
        limits = self.limits
        return RunSettings(self.reference, limits.trace, limits.repeat, limits.deadline_s, self.internal)

    @property
    def count(self) -> int:
        """Returns the largest number of variants to run: what `stop` allows, rounded up to whole blocks.

        A block that is cut short would count as finished: a later session with another `stop` would not run the rest.
        """
        return min(self.variants.count, -(-self.stop.variants // BLOCK) * BLOCK or self.variants.count)


def platform_plans(
    names: Sequence[str], *, variants: int | None = None, cpu_minutes: float | None = None, batch: int = 1
) -> dict[PlatformName, PlatformPlan]:
    """Returns the same plan for each of the named platforms. Raises `MindgapError` for an unknown one, or one twice."""
    defaults = PlatformPlan(variants=variants, cpu_minutes=cpu_minutes, batch=batch)
    plans: dict[PlatformName, PlatformPlan] = {}
    for name in map(canonical, names):
        if name in plans:
            raise PlanError(f"{name} is named twice")
        plans[name] = defaults
    return plans


def read_plan(path: str | Path) -> tuple[Plan, str]:
    """Reads the plan in a file. Returns it with the file's text. Raises `PlanError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise PlanError(f"plan {path} cannot be read: {why}") from None
    return parse_plan(text, str(path)), text


def parse_plan(text: str, where: str) -> Plan:
    """Parses a plan. Raises `PlanError`: one line that names `where`, the line and the key."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = _AT.search(str(error))
        line = int(at[1]) if at else text.count("\n") + 1
        raise PlanError(f"{where}:{line}: this is no TOML: {_AT.sub('', str(error)).strip()}") from None
    try:
        plan = Plan.model_validate(data)
    except ValidationError as error:
        wrong = sorted(((line_of(text, e["loc"]), e["loc"], e) for e in error.errors()), key=_by_line)
        line, key_path, first = wrong[0]
        more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
        raise PlanError(f"{where}:{line}: {_message(key_path, first)}{more}") from None
    return _canonical(plan, where, text)


def changed(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> list[str]:
    """Returns the dotted keys at which two plans differ, sorted."""
    names: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        was, now = old.get(key), new.get(key)
        name = f"{path}.{key}" if path else key
        if isinstance(was, dict) and isinstance(now, dict):
            names += changed(cast("dict[str, Any]", was), cast("dict[str, Any]", now), name)
        elif was != now:
            names.append(name)
    return names


def _canonical(plan: Plan, where: str, text: str) -> Plan:
    """Replaces the names of platforms by their canonical names."""
    platforms: dict[PlatformName, PlatformPlan] = {}
    for name, platform in plan.platforms.items():
        key_path = ("platforms", name)
        try:
            known = canonical(str(name))
        except PlatformError as error:
            raise PlanError(f"{where}:{line_of(text, key_path)}: platforms.{_quoted(name)}: {error}") from None
        if known in platforms:
            raise PlanError(f"{where}:{line_of(text, key_path)}: platforms.{_quoted(name)}: {known} is there already")
        platforms[known] = platform
    try:
        reference = canonical(str(plan.reference))
    except PlatformError as error:
        raise PlanError(f"{where}:{line_of(text, ('reference',))}: reference: {error}") from None
    try:
        parse_hosts(plan.hosts, where)
    except HostProblem as error:
        raise PlanError(f"{error}") from None
    return plan.model_copy(update={"platforms": platforms, "reference": reference})


def _by_line(wrong: tuple[int, tuple[str | int, ...], Any]) -> tuple[bool, int, str]:
    """Sorts errors by line. Missing keys come last: an unknown key may be a missing one, misspelt."""
    return wrong[2]["type"] == "missing", wrong[0], str(wrong[1])


def _message(key_path: tuple[str | int, ...], error: Any) -> str:
    key = ".".join(_quoted(part) for part in key_path)
    if error["type"] == "extra_forbidden":
        return f"{key}: there is no such key; known are {', '.join(_known(key_path[:-1]))}"
    if error["type"] == "missing":
        return f"{key} is missing"
    given = error.get("input")
    shown = f", not {given!r}" if isinstance(given, (str, int, float, bool)) else ""
    return f"{key}: {error['msg'].removeprefix('Value error, ')}{shown}" if key else str(error["msg"])


def _known(key_path: tuple[str | int, ...]) -> list[str]:
    """Returns the keys that the table at `key_path` may have."""
    parts: dict[str, type[BaseModel]] = {
        "variants": Variants,
        "limits": VariantLimits,
        "stop": Stop,
        "platforms": PlatformPlan,
    }
    model: type[BaseModel] = parts.get(str(key_path[0]), Plan) if key_path else Plan
    return list(Size.model_fields if "sizes" in key_path else model.model_fields)


def _quoted(part: str | int) -> str:
    text = str(part)
    return text if re.fullmatch(r"[A-Za-z0-9_-]+", text) else f'"{text}"'
