"""Classes and dendrograms of one value over platforms, and the columns that describe a subject."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from mindgap_studies.deviations.definitions import class_numbers
from mindgap_studies.equivalence.prefix_digests import Prefixes, dendrogram_of
from mindgap_studies.machines.merging import MergedMachines, SubjectColumn

#: The model whose classes the tables of flags and options show, if it is there: the paper's Cifar10-R18, first sample.
MAIN: Final = "resnet18-relu-max-trained/0"
#: Facts of a model, as columns.
MODEL_COLUMNS: Final = ("model", "activation", "pooling", "trained", "sample")


def numbers_of(prefixes: Sequence[Prefixes]) -> tuple[int, ...]:
    """Returns class numbers from 1, in the order of first appearance, as in the paper's tables."""
    return class_numbers([each[-1].hex() for each in prefixes])


def classes_and_precision(prefixes: Sequence[Prefixes]) -> tuple[int, int]:
    """Returns the number of classes, and the smallest remaining precision of any two platforms in bits."""
    distinct = tuple(dict.fromkeys(prefixes))
    return len(distinct), dendrogram_of(distinct).minimum


def result(column: SubjectColumn) -> tuple[Prefixes, ...]:
    """Returns the digests of all outputs of a subject (gradients too) together, by platform.

    Number k is equal on two platforms if all outputs share k bits or more there. An output of a dtype with fewer bits
    than the others' shares them all where it shares its own.
    """
    outputs = [column.output(value.number) for value in column.subject.values if value.output]
    by_platform = zip(*outputs, strict=True)
    return tuple(_together(each) for each in by_platform)


def _together(outputs: Sequence[Prefixes]) -> Prefixes:
    length = max(map(len, outputs))
    padded = [(*each, *each[-1:] * (length - len(each))) for each in outputs]
    return tuple(b"".join(cut) for cut in zip(*padded, strict=True))


def title(column: SubjectColumn) -> str:
    """Returns a subject's name for people: `resnet18, relu, max, trained, sample 0`."""
    facts = column.subject.facts
    words = [str(facts[name]) for name in ("model", "activation", "pooling") if facts.get(name) is not None]
    if facts.get("trained") is not None:
        words.append("trained" if facts["trained"] else "untrained")
    dtype = facts.get("dtype")
    if column.subject.experiment == "reduced":
        words.append("float32 or less")
    elif dtype != "float32":
        words.append(str(dtype))
    return ", ".join((*words, f"sample {facts.get('sample')}"))


def model_facts(column: SubjectColumn) -> tuple[Any, ...]:
    return tuple(column.subject.facts.get(name) for name in MODEL_COLUMNS)


def main(merged: MergedMachines) -> SubjectColumn | None:
    """Returns the column of `MAIN`. Where no platform ran it: that of the first sample with the most classes."""
    column = merged.columns.get(MAIN)
    if column is not None and column.platforms:
        return column
    first = [each for each in merged.of("models") if not each.subject.facts.get("sample")]
    return max(first, key=lambda each: len(set(result(each))), default=None)


def threads_of(facts: Mapping[str, Any]) -> int | None:
    """Returns the number of threads that a platform was set to; None where its runtime chose."""
    found = facts.get("threads", facts.get("intra_op_threads"))
    return cast("Mapping[str, int]", found).get("aten") if isinstance(found, Mapping) else found


def versions_of(facts: Mapping[str, Any]) -> str | None:
    """Returns the packages that computed, with their versions; None for files that do not have them."""
    versions: Mapping[str, str] = facts.get("versions", {})
    return " ".join(f"{package} {version}" for package, version in versions.items()) or None
