"""Writes and reads the file of one machine's observations: JSON in a zstd frame, a few hundred kilobytes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import zstandard

from mindgap.graph import MindgapError
from mindgap.platforms.name import recorded
from mindgap.sources.type_guards import is_table
from mindgap_studies.equivalence.prefix_digests import LENGTH, Prefixes, digest_count
from mindgap_studies.machines.observations import (
    Deviating,
    Machine,
    MachineObservations,
    Observation,
    ObservedSubject,
    ValueFacts,
)

FORMAT: Final = "mindgap machine observations"
#: From version 2 on there may be no class for a value that a platform does not show. Earlier ones have sketches too.
VERSION: Final = 3
_READ: Final = (1, 2, 3)
#: No file of this format is larger when unpacked.
_LARGEST: Final = 1 << 28
_LEVEL: Final = 19


class CollectedFileError(MindgapError):
    """A file of observations is damaged, or does not fit the others."""


def encode(collected: MachineObservations) -> bytes:
    """Returns the file's bytes: equal for equal observations."""
    numbers = {subject.name: i for i, subject in enumerate(collected.subjects)}
    platforms = list(collected.settings)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "machine": asdict(collected.machine),
        "settings": collected.settings,
        "subjects": [asdict(subject) for subject in collected.subjects],
        "observations": [
            [numbers[o.subject], platforms.index(o.platform), o.status, o.classes, o.message]
            for o in collected.observations
        ],
        "prefixes": [[numbers[s], v, [packed(each) for each in p]] for (s, v), p in collected.prefixes.items()],
        "deviating": [[numbers[d.subject], d.value, d.deviating, d.elements] for d in collected.deviating],
    }
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    return zstandard.ZstdCompressor(level=_LEVEL).compress(text)


def write(path: Path, collected: MachineObservations) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(encode(collected))
        beside.replace(path)
    except OSError as error:
        raise CollectedFileError(f"{path} cannot be written: {error.strerror}") from None
    finally:
        beside.unlink(missing_ok=True)


def read(path: Path) -> MachineObservations:
    """Reads a file. Raises `CollectedFileError`, with the file's name, for any that `write` did not make."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CollectedFileError(f"{path} cannot be read: {error.strerror}") from None
    if not data:
        raise CollectedFileError(f"{path} is empty: collect it again")
    try:
        if not 0 < zstandard.frame_content_size(data) <= _LARGEST:
            raise ValueError("no size, or too large a one")
        text = zstandard.ZstdDecompressor().decompress(data)
        document: Any = json.loads(text)
    except (zstandard.ZstdError, ValueError, MemoryError, RecursionError):
        raise CollectedFileError(f"{path} is damaged, or no file of `study deviations --collect`") from None
    if not is_table(document) or document.get("format") != FORMAT:
        raise CollectedFileError(f"{path} is no file of `study deviations --collect`")
    if document.get("version") not in _READ:
        raise CollectedFileError(
            f"{path} has version {document.get('version')} of the format, this mindgap reads versions "
            f"{', '.join(map(str, _READ))}: collect it again with this one"
        )
    try:
        found = _decoded(document)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CollectedFileError(f"{path} is damaged: {type(error).__name__} {error}") from None
    if not any(each.classes for each in found.observations):
        raise CollectedFileError(f"{path} has no observation: nothing ran on that machine")
    return found


def packed(prefixes: Prefixes) -> str:
    """Returns the digests as text, 8 characters each, so that equal beginnings stay equal."""
    return base64.b64encode(b"".join(prefixes)).decode()


def unpacked(text: str) -> Prefixes:
    """Returns the digests of `packed`. Raises ValueError for other text."""
    data = base64.b64decode(text, validate=True)
    if not data or len(data) % LENGTH:
        raise ValueError("digests of another length")
    return tuple(data[i : i + LENGTH] for i in range(0, len(data), LENGTH))


def content_digest(collected: MachineObservations) -> str:
    """Returns a digest that tells whether two files hold the same observations."""
    return hashlib.sha256(encode(collected)).hexdigest()


def _decoded(document: Mapping[str, Any]) -> MachineObservations:
    subjects = tuple(_made(ObservedSubject, s, values=tuple(map(_value, s["values"]))) for s in document["subjects"])
    names = [str(subject.name) for subject in subjects]
    platforms = list(document["settings"])
    prefixes = _by_value(document["prefixes"], names, lambda each: tuple(unpacked(text) for text in each))
    machine_observations = MachineObservations(
        machine=_made(Machine, document["machine"], flags=tuple(document["machine"]["flags"])),
        subjects=subjects,
        settings=dict(document["settings"]),
        observations=tuple(
            Observation(names[int(s)], recorded(platforms[int(p)]), str(status), tuple(classes), str(message))
            for s, p, status, classes, message in document["observations"]
        ),
        prefixes=prefixes,
        deviating=tuple(
            Deviating(names[int(s)], v, int(some), int(whole)) for s, v, some, whole in document["deviating"]
        ),
    )
    _check_classes(machine_observations)
    return machine_observations


def _check_classes(observations: MachineObservations) -> None:
    """Raises ValueError for an observation whose classes are not in the file."""
    by_name = {subject.name: subject for subject in observations.subjects}
    for each in observations.observations:
        values = by_name[each.subject].values
        if each.classes and len(each.classes) != len(values):
            raise ValueError(f"{each.subject} has {len(values)} values and {len(each.classes)} classes")
        for value, number in zip(values, each.classes, strict=False):
            if number is None:
                if value.output:
                    raise ValueError(f"{each.subject} ran, and has no class of its output {value.number}")
                continue
            classes = observations.prefixes[each.subject, value.number]
            if not 0 <= number < len(classes):
                raise ValueError(f"{each.subject} has no class {number}")
            if len(classes[number]) != digest_count(value.dtype):
                raise ValueError(f"{each.subject} has {len(classes[number])} digests for {value.dtype}")


def _by_value(entries: Sequence[Any], names: Sequence[str], made: Callable[[Any], Any]) -> dict[tuple[str, int], Any]:
    return {(names[int(s)], int(v)): made(each) for s, v, each in entries}


def _made(kind: Callable[..., Any], entry: Mapping[str, Any], **changed: object) -> Any:
    return kind(**{**entry, **changed})


def _value(entry: Mapping[str, Any]) -> ValueFacts:
    return _made(ValueFacts, entry, shape=tuple(entry["shape"]), operands=tuple(entry["operands"]))
