"""Creates and opens a campaign's directory: a store, the plan, and the identity of the case source.

```
campaign.toml          the plan, as it was given; `stop` may be changed, nothing else
campaign.json          the same as data, the name of the run, and platforms added later; written first
pack.zip               only for a campaign from a bundle: its cases
mindgap-store.json, tables/, graphs/    the store, unless it is elsewhere: `store` in campaign.json
```
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mindgap.graph import MindgapError
from mindgap.platforms.environments.host import use_hosts_of_plan
from mindgap.platforms.name import PlatformName, recorded
from mindgap.results.store import Store
from mindgap_campaign.campaign.cases.bundle import BUNDLE, PLAN
from mindgap_campaign.campaign.cases.case import Shard
from mindgap_campaign.campaign.plan import CHANGEABLE, Plan, PlanError, PlatformPlan, changed, read_plan

_ABOUT: Final = "campaign.json"
_FORMAT: Final = "mindgap-campaign"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SupportOptions:
    """Options of the support survey before a campaign. `support`: the store of known answers; None: no survey.
    `minutes`: processor minutes of the survey of each platform."""

    support: str | None = None
    minutes: float = 0.0


@dataclass(frozen=True)
class CampaignDirectory:
    """An opened campaign. `identity`: of its case source. `run`: the name of its rows in the store. `store_url`: the
    URL of a store that several machines share; empty for a store in this directory.

    `plan`: with the platforms that were added later, which `added` names. `support_options`: kept because the first
    session may be killed during the survey.
    """

    path: Path
    plan: Plan
    shard: Shard
    identity: str
    run: str
    support_options: SupportOptions = SupportOptions()
    added: Mapping[PlatformName, PlatformPlan] = field(default_factory=dict[PlatformName, PlatformPlan])
    store_url: str = ""

    @property
    def store(self) -> Store:
        """Opens the store, anew each time. Raises `StoreError`."""
        return Store(self.store_url or self.path, create=False)

    @property
    def numbers(self) -> list[int]:
        """Returns the numbers of this shard's blocks."""
        return list(self.shard.blocks(self.plan.count))

    @property
    def bundle(self) -> Path | None:
        """Returns the path of the bundle that the cases come from; None without a bundle."""
        bundle = self.path / BUNDLE
        return bundle if bundle.exists() else None


def run_name(plan: Plan, identity: str, machine: str = "") -> str:
    """Returns the run's name, equal for all shards of a campaign on any machine, so that they can be merged.

    `machine`: for a campaign from a bundle, the machine that runs it; its run is separate from the original one.
    """
    name = hashlib.sha256(f"{plan.digest} {identity}".encode()).hexdigest()[:16]
    return "-".join(filter(None, ("campaign", name, machine)))


def create_directory(
    path: str | Path, plan: Plan, text: str, shard: Shard, identity: str, where: str = "",
    support_options: SupportOptions | None = None, store_url: str = "",
) -> CampaignDirectory:  # fmt: skip
    """Creates a campaign in a new or empty directory. Raises `MindgapError` for any other directory."""
    path = Path(path)
    directory = CampaignDirectory(
        path, plan, shard, identity, run_name(plan, identity, where), support_options or SupportOptions(),
        store_url=store_url,
    )  # fmt: skip
    refuse_begun(path)
    Store(store_url or path)
    write_whole(path / PLAN, text.encode())
    about = {"format": _FORMAT, "version": _VERSION, "run": directory.run, "shard": str(shard), "identity": identity,
             "beforehand": dataclasses.asdict(directory.support_options), "store": store_url}  # fmt: skip
    write_whole(path / _ABOUT, json.dumps({**about, "plan": plan.model_dump()}, indent=1).encode())
    return directory


def begun(path: str | Path) -> bool:
    """Tells whether the directory holds a campaign."""
    return (Path(path) / _ABOUT).exists()


def refuse_begun(path: str | Path) -> None:
    """Raises `MindgapError` if the directory holds a campaign."""
    if begun(path):
        raise MindgapError(
            f"{path} holds a campaign already: go on with `mindgap campaign resume {path}`, or use --out"
        )


def open_directory(path: str | Path) -> CampaignDirectory:
    """Opens the campaign in a directory, and makes the hosts of its plan known. Raises `MindgapError` if there is none,
    or its plan was changed."""
    path = Path(path)
    about = _about(path)
    try:
        planned = Plan.model_validate(about["plan"])
        support_options = SupportOptions(**about.get("beforehand", {}))
        added = {recorded(name): PlatformPlan(**given) for name, given in about.get("added", {}).items()}
        directory = CampaignDirectory(
            path, planned, Shard.parse(about["shard"]), about["identity"], about["run"], support_options,
            store_url=about.get("store", ""),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise MindgapError(f"{path / _ABOUT} is damaged ({str(error).splitlines()[0]}): copy it again") from None
    now, _ = read_plan(path / PLAN)
    keys = [key for key in changed(planned.model_dump(), now.model_dump()) if _matters(key)]
    if keys:
        raise PlanError(
            f"{path / PLAN} was changed since the campaign began ({', '.join(keys)}): put it back, "
            "or start another campaign with `mindgap campaign run … --out OTHER`"
            + (f"; `mindgap campaign add {path} PLATFORM` adds a platform" if _are_platforms(keys) else "")
        )
    use_hosts_of_plan(now.hosts)
    stops = planned.model_copy(update={key: getattr(now, key) for key in CHANGEABLE})
    return with_platforms(dataclasses.replace(directory, plan=stops), added)


def with_platforms(directory: CampaignDirectory, added: Mapping[PlatformName, PlatformPlan]) -> CampaignDirectory:
    """Returns the campaign with further platforms in its plan. Writes nothing: `write_added` does."""
    plan = directory.plan.model_copy(update={"platforms": {**directory.plan.platforms, **added}})
    return dataclasses.replace(directory, plan=plan, added={**directory.added, **added})


def write_added(directory: CampaignDirectory) -> None:
    """Writes the added platforms into the campaign's directory. Raises `MindgapError`."""
    added = {str(name): settings.model_dump() for name, settings in directory.added.items()}
    about = {**_about(directory.path), "added": added}
    write_whole(directory.path / _ABOUT, json.dumps(about, indent=1).encode())


def check_identity(directory: CampaignDirectory, identity: str) -> None:
    """Raises `MindgapError` if the case source has changed since the campaign began."""
    if identity != directory.identity:
        raise MindgapError(
            f"{directory.path}: what its cases are made of has changed since it began ({directory.identity[:12]}, now "
            f"{identity[:12]}): bring back the catalogue or pool of then, or start another campaign"
        )


def write_whole(path: Path, data: bytes) -> None:
    """Writes a file atomically. Raises `MindgapError`."""
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise MindgapError(f"{path} cannot be written: {error.strerror}") from None


def _about(path: Path) -> Mapping[str, Any]:
    try:
        about: Any = json.loads((path / _ABOUT).read_bytes())
    except FileNotFoundError:
        if (path / PLAN).exists():
            raise MindgapError(f"{path / _ABOUT} is gone: copy it again") from None
        raise MindgapError(f"{path} holds no campaign (`mindgap campaign run PLAN --out {path}` starts one)") from None
    except (OSError, ValueError) as error:
        raise MindgapError(f"{path / _ABOUT} cannot be read: {error}") from None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:  # pyright: ignore[reportUnknownMemberType] # any JSON
        raise MindgapError(f"{path / _ABOUT} is damaged: copy it again")
    if about.get("version") != _VERSION:  # pyright: ignore[reportUnknownMemberType] # any JSON
        raise MindgapError(
            f"{path / _ABOUT} is of version {about.get('version')}, this mindgap knows {_VERSION}"  # pyright: ignore[reportUnknownMemberType] # any JSON
        )
    return about  # pyright: ignore[reportUnknownVariableType] # any JSON


def _are_platforms(keys: Sequence[str]) -> bool:
    return all(key.startswith("platforms.") for key in keys)


def _matters(key: str) -> bool:
    return key.partition(".")[0] not in CHANGEABLE | {"catalogue"}
