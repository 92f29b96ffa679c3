"""Creates and opens a campaign's directory: a store, the plan, and the identity of the case source.

```
campaign.toml          the plan, as it was given; `stop` may be changed, nothing else
campaign.json          the same as data, and the name of the run; written first
pack.zip               only where the campaign came from a pack: its cases
mindgap-store.json, tables/, graphs/    the store
```
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.campaign.cases.bundle import BUNDLE, PLAN
from mindgap.campaign.cases.case import Shard
from mindgap.campaign.plan import CHANGEABLE, Plan, PlanError, changed, read_plan
from mindgap.graph import MindgapError
from mindgap.store import Store

_ABOUT: Final = "campaign.json"
_FORMAT: Final = "mindgap-campaign"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class SupportOptions:
    """What platforms lack, as far as it is known when a campaign begins. `support`: the store that knows it, none where
    it is not wanted; `minutes`: of a processor's time to ask each platform for what is not known."""

    support: str | None = None
    minutes: float = 0.0


@dataclass(frozen=True)
class CampaignDirectory:
    """An opened campaign. `identity`: of what its cases are made; `run`: what its rows in the store are called.

    `beforehand`: kept, since the first session may be killed before it is done with it.
    """

    path: Path
    plan: Plan
    shard: Shard
    identity: str
    run: str
    beforehand: SupportOptions = SupportOptions()

    @property
    def store(self) -> Store:
        """Opened anew each time. Raises `StoreError`."""
        return Store(self.path, create=False)

    @property
    def bundle(self) -> Path | None:
        """The bundle that the cases come from; None where they do not come from one."""
        bundle = self.path / BUNDLE
        return bundle if bundle.exists() else None


def run_name(plan: Plan, identity: str, where: str = "") -> str:
    """Equal for all shards of a campaign, whichever machine runs them, so that merging puts them together.

    `where`: for a run of a pack, which machine it was, as it is a run besides the one at home.
    """
    name = hashlib.sha256(f"{plan.digest} {identity}".encode()).hexdigest()[:16]
    return "-".join(filter(None, ("campaign", name, where)))


def create_directory(
    path: str | Path, plan: Plan, text: str, shard: Shard, identity: str, where: str = "",
    beforehand: SupportOptions | None = None,
) -> CampaignDirectory:  # fmt: skip
    """Begins a campaign in a new or empty directory. Raises `MindgapError` for one that holds something."""
    path = Path(path)
    folder = CampaignDirectory(
        path, plan, shard, identity, run_name(plan, identity, where), beforehand or SupportOptions()
    )
    refuse_begun(path)
    Store(path)
    write_whole(path / PLAN, text.encode())
    about = {"format": _FORMAT, "version": _VERSION, "run": folder.run, "shard": str(shard), "identity": identity,
             "beforehand": dataclasses.asdict(folder.beforehand)}  # fmt: skip
    write_whole(path / _ABOUT, json.dumps({**about, "plan": plan.model_dump()}, indent=1).encode())
    return folder


def begun(path: str | Path) -> bool:
    """Whether the directory holds a campaign."""
    return (Path(path) / _ABOUT).exists()


def refuse_begun(path: str | Path) -> None:
    """Raises `MindgapError` where a campaign has been begun already."""
    if begun(path):
        raise MindgapError(
            f"{path} holds a campaign already: go on with `mindgap campaign resume {path}`, or use --out"
        )


def open_directory(path: str | Path) -> CampaignDirectory:
    """The campaign in a directory. Raises `MindgapError`: none there, of another version, a plan that was changed."""
    path = Path(path)
    about = _about(path)
    try:
        planned = Plan.model_validate(about["plan"])
        beforehand = SupportOptions(**about.get("beforehand", {}))
        folder = CampaignDirectory(
            path, planned, Shard.parse(about["shard"]), about["identity"], about["run"], beforehand
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MindgapError(f"{path / _ABOUT} is damaged ({str(error).splitlines()[0]}): copy it again") from None
    now, _ = read_plan(path / PLAN)
    keys = [key for key in changed(planned.model_dump(), now.model_dump()) if _matters(key)]
    if keys:
        raise PlanError(
            f"{path / PLAN} was changed since the campaign began ({', '.join(keys)}): put it back, "
            "or start another campaign with `mindgap campaign run … --out OTHER`"
        )
    return dataclasses.replace(folder, plan=planned.model_copy(update={key: getattr(now, key) for key in CHANGEABLE}))


def check_identity(folder: CampaignDirectory, identity: str) -> None:
    """Raises `MindgapError` where the cases are made of something else than when the campaign began."""
    if identity != folder.identity:
        raise MindgapError(
            f"{folder.path}: what its cases are made of has changed since it began ({folder.identity[:12]}, now "
            f"{identity[:12]}): bring back the catalogue or pool of then, or start another campaign"
        )


def write_whole(path: Path, data: bytes) -> None:
    """The whole file or none of it. Raises `MindgapError`."""
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
        raise MindgapError(f"{path} holds no campaign (`mindgap campaign run PLAN --out {path}` starts one)") from None
    except (OSError, ValueError) as error:
        raise MindgapError(f"{path / _ABOUT} cannot be read: {error}") from None
    if not isinstance(about, dict) or about.get("format") != _FORMAT:  # pyright: ignore[reportUnknownMemberType] # any JSON
        raise MindgapError(f"{path / _ABOUT} is damaged: copy it again")
    if about["version"] != _VERSION:
        raise MindgapError(f"{path} holds a campaign of version {about['version']}, this mindgap knows {_VERSION}")
    return about  # pyright: ignore[reportUnknownVariableType] # any JSON


def _matters(key: str) -> bool:
    return key.partition(".")[0] not in CHANGEABLE | {"catalogue"}
