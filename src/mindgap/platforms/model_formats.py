"""Defines what is known of a format of model files, and finds the formats that packages register.

Importing this module imports no framework, and `formats` imports the module of each format's description alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from mindgap.graph import MindgapError
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registered_objects import registered_objects

#: The entry-point group in which a package registers formats (name: the suffix without its dot, object: `ModelFormat`).
GROUP: Final = "mindgap.formats"


@dataclass(frozen=True, slots=True)
class QuantisationRule:
    """What a format leaves open of its integers.

    within, beyond: the word for integers that it allows, and of others. even_ties: whether a tie goes to the even
    integer where every operator is exact. rescales: whether kernels of all operators may multiply integers by a factor
    of 31 bits, or those of sums of products alone. factor: the relative error of such a factor, by dtype of the
    integers whose sums have 64 bits.
    """

    within: str = "one that the definition allows"
    beyond: str = "other integers than the definition allows"
    even_ties: bool = True
    rescales: bool = False
    factor: Mapping[str, float] = field(default_factory=dict[str, float])


#: Of a graph that is of no file.
DEFINED: Final = QuantisationRule()


@dataclass(frozen=True, slots=True)
class Referee:
    """A platform that runs a file independently, and decides which side of it is wrong.

    words: what it is called. shared: a device or mode of other platforms that have its kernels, as a provider.
    """

    platform: PlatformName
    words: str
    shared: str = ""

    def is_independent(self, other: PlatformName) -> bool:
        """Whether the other platform has other kernels."""
        return self.platform.device_mode != other.device_mode and self.shared not in other.device_mode.split("/")


@dataclass(frozen=True, slots=True)
class ModelFormat:
    """A format of model files, which runtimes read byte for byte (`protocol.RunsFiles`).

    suffix: of its files, such as `.onnx`.
    scheme: of the sources that its files are (`mindgap.sources`); it translates them to PyTorch.
    probe: MODULE:FUNCTION, which takes a file and a folder, and writes the file there with its integers as further
        outputs: it returns a `mindgap.sources.translated_model.ProbedModel`, None for a file without integers.
    shows_results: the probe shows results of nodes of all kinds, by `result_key`, and not those that a node quantises,
        by the node's name.
    referees: the first computes operators as the makers of the format define them. The others are runtimes: they decide
        where the first does not run the file, or gives a third result.
    reference_defines: nothing decides about the first referee. Otherwise other kernels decide about its integers.
    rule: what the format leaves open of quantised values.
    checks: returns the platforms that check which integers are expected of a file on the platform that it is given.
    checks_words: what these do, as in `other implementations give`.
    quantising: the operators that stand between those of a quantised file.
    """

    suffix: str
    scheme: str
    probe: str
    shows_results: bool
    referees: tuple[Referee, ...]
    reference_defines: bool
    rule: QuantisationRule
    checks: Callable[[PlatformName], Sequence[PlatformName]]
    checks_words: str
    quantising: tuple[str, ...]


@cache
def formats() -> Mapping[str, ModelFormat]:
    """Returns the formats by suffix. Warns of an entry point that cannot be loaded, and leaves it out.

    Raises `MindgapError` where there is none: mindgap has two.
    """
    by_suffix: dict[str, ModelFormat] = {}
    for _, each in registered_objects(GROUP, ModelFormat):
        by_suffix.setdefault(each.suffix, each)
    if not by_suffix:
        raise MindgapError(
            f"the installed mindgap is older than its code: no {GROUP}; pip install -e . installs it again"
        )
    return by_suffix
