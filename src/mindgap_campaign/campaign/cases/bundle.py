"""Reads bundles: the cases, plan and reference outcomes of a campaign in one file, for a machine without network.

```
mindgap-pack.json      format, version, number of cases; hashes of the other members
campaign.toml          the plan, with the platforms to run
blocks/00000.json      name, digest, description … of each case, and where its bytes are in
blocks/00000.graphs    the graphs' bytes, one after the other
reference.parquet      the outcomes of the reference at home, with digests of its outputs
```

The reference runs on the other machine as well, so that its results are complete by themselves. They come back as a run
of their own, and the outcomes of both references can be compared.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph, GraphError, MindgapError, digest_of_bytes
from mindgap.graph.archive import opened, read_member, read_object
from mindgap_campaign.campaign.cases.case import Case, graphs_of
from mindgap_campaign.campaign.plan import Plan, parse_plan

#: File names in a campaign's directory: the plan, which a bundle holds too, and a copy of the bundle.
PLAN: Final = "campaign.toml"
BUNDLE: Final = "pack.zip"
#: Members of a bundle.
ABOUT: Final = "mindgap-pack.json"
REFERENCE: Final = "reference.parquet"
FORMAT: Final = "mindgap-pack"
VERSION: Final = 1


class BundleError(MindgapError):
    """Raised for a bundle that cannot be read or written. The message names the file."""


def is_bundle(path: str | Path) -> bool:
    """Tells a bundle from a plan by the first bytes of the file."""
    return zipfile.is_zipfile(path)


def plan_of(path: str | Path) -> tuple[Plan, str]:
    """Returns the plan in a bundle, and its text. Raises `BundleError`."""
    text = BundleFile(Path(path)).text(PLAN)
    return parse_plan(text, f"{path}/{PLAN}"), text


@dataclass(frozen=True)
class BundleSourceFactory:
    """Opens a bundle as the case source of a campaign. The campaign's directory keeps a copy of it."""

    path: Path

    @property
    def files(self) -> Sequence[str]:
        return (BUNDLE,)

    def begin(self, plan: Plan, directory: Path) -> BundleSource:
        try:
            shutil.copyfile(self.path, directory / BUNDLE)
        except OSError as error:
            raise BundleError(f"{self.path} cannot be copied to {directory}: {error.strerror}") from None
        return BundleSource(directory / BUNDLE)

    def reopen(self, plan: Plan, directory: Path) -> BundleSource:
        return BundleSource(directory / BUNDLE)


class BundleSource:
    """Reads cases from a bundle and checks their digests."""

    def __init__(self, path: Path) -> None:
        """Raises `BundleError` if the file is not a bundle or has another version."""
        self._file = BundleFile(path)

    @property
    def identity(self) -> str:
        """Returns a digest of all members."""
        return hashlib.sha256(json.dumps(self._file.about["sha256"], sort_keys=True).encode()).hexdigest()

    def block(self, number: int) -> list[Case]:
        """Raises `BundleError` for a damaged bundle."""
        if number not in self._file.blocks:
            return []
        name = f"blocks/{number:05d}.json"
        data = self._file.read(f"blocks/{number:05d}.graphs")
        try:
            listed: list[dict[str, Any]] = json.loads(self._file.read(name))
            return [self._case(entry, data) for entry in listed]
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise BundleError(f"{self._file.path} is damaged at {name} ({error}): copy it again") from None

    def samples(self, blocks: Sequence[int]) -> Iterator[Graph]:
        """Returns the graphs of the cases. Raises `BundleError` for a damaged bundle."""
        return graphs_of(self, blocks)

    def _case(self, entry: Mapping[str, Any], data: bytes) -> Case:
        graph = data[entry["start"] : entry["start"] + entry["size"]]
        try:
            sound = digest_of_bytes(graph) == entry["digest"]
        except GraphError as error:
            raise BundleError(f"{self._file.path}: case {entry['name']}: {error}") from None
        if not sound:
            raise BundleError(f"{self._file.path}: case {entry['name']} is another graph than its digest says")
        return Case(
            entry["index"], entry["name"], graph, entry["digest"], entry["description"], tuple(entry["features"]),
            entry["nodes"], entry["base"],
        )  # fmt: skip


class BundleFile:
    """Reads members of the zip file and checks them against its list of hashes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with opened(path) as file:
                self.about = read_object(file, ABOUT)
            known = (self.about["format"], self.about["version"])
            self._hashes = dict(self.about["sha256"])
            self.blocks = frozenset(map(int, self.about["blocks"]))
        except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile) as error:
            raise BundleError(
                f"{path} is no bundle, or damaged ({error}): make it again with campaign export"
            ) from None
        if known != (FORMAT, VERSION):
            raise BundleError(f"{path} is a bundle of version {known[1]}, this mindgap reads {VERSION}")

    def read(self, name: str) -> bytes:
        """Returns a member's bytes. Raises `BundleError` if its hash differs."""
        try:
            with opened(self.path) as file:
                data = read_member(file, name)
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise BundleError(f"{self.path} is damaged at {name} ({error}): copy it again") from None
        if hashlib.sha256(data).hexdigest() != self._hashes.get(name):
            raise BundleError(f"{self.path} is damaged at {name}: copy it again")
        return data

    def text(self, name: str) -> str:
        try:
            return self.read(name).decode()
        except UnicodeDecodeError as error:
            raise BundleError(f"{self.path} is damaged at {name} ({error}): copy it again") from None
