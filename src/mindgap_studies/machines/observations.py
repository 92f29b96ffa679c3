"""What was observed on one machine: outputs and values of subjects on its platforms, as classes with prefix digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mindgap.platforms.name import PlatformName
from mindgap_studies.equivalence.prefix_digests import Prefixes

#: A fact of a subject, as text, number or None: its architecture, the number of a sample, the size of a kernel.
Fact = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """A value of a subject's graph that is kept.

    `number`: of the value in the graph. `op`: the operator that makes it. `where`: the module, empty if unknown.
    `operands`: numbers of the values that the operator reads, weights left out. `output`: whether it is the result.
    """

    number: int
    op: str
    where: str
    shape: tuple[int, ...]
    dtype: str
    operands: tuple[int, ...]
    output: bool


@dataclass(frozen=True, slots=True)
class ObservedSubject:
    """A graph that is run on many platforms. `digest`: of the graph, weights and inputs included.

    `experiment`: what it is for (`models`, `casts`, `operators`, `convolutions`, `distributions`).
    """

    name: str
    experiment: str
    digest: str
    facts: Mapping[str, Fact]
    values: tuple[ValueFacts, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """A subject on a platform. `classes`: for each value of the subject, the number of its class on this machine.

    `status`: as of an outcome. Any but `ok` and `nondeterministic` has no classes, and `message` is the reason. A class
    is None where the platform does not show an inner value; `message` then says why. Outputs are always there.
    """

    subject: str
    platform: PlatformName
    status: str
    classes: tuple[int | None, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Deviating:
    """Elements of a value that are not the same on all float32 platforms of one machine.

    They are counted over platforms that show every value before and after an activation.
    """

    subject: str
    value: int
    deviating: int
    elements: int


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine, without names of hosts, users or paths.

    `name`: made of processor and cores (`amd-epyc-25-17-2-cores`). `collected`: the day, ISO 8601.
    """

    name: str
    processor: str
    vendor: str
    flags: tuple[str, ...]
    cores: int
    memory_gib: int
    versions: Mapping[str, str]
    collected: str


@dataclass(frozen=True)
class MachineObservations:
    """All observations of one machine.

    `settings`: facts of each platform as its worker reported them (levels in force, threads, versions), or the reason
    `unavailable`. `prefixes`: the classes of each (subject, value): entry n has the digests of class n.
    """

    machine: Machine
    subjects: tuple[ObservedSubject, ...]
    settings: Mapping[str, Mapping[str, Any]]
    observations: tuple[Observation, ...]
    prefixes: Mapping[tuple[str, int], tuple[Prefixes, ...]]
    deviating: tuple[Deviating, ...]
