"""Makes the matrix of platforms × models from stored outputs: classes, determinism, and cells of another input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from mindgap.graph import Array
from mindgap.graph.compare.digest import digest_array
from mindgap_studies.deviations.definitions import Mode, most_frequent, numbers
from mindgap_studies.deviations.published.parquet import BadData
from mindgap_studies.deviations.published.platforms import PublishedPlatform, platform_of
from mindgap_studies.deviations.published.records import Output

#: The published models by the paper's sizes. The data hold a fourth model, cifar10_large, which the paper does
#: not use.
MODELS: Final[Mapping[str, str]] = {"cifar10_small": "small", "cifar10_medium": "medium", "deep_weeds": "large"}
#: The paper's names of the models, by size.
TITLES: Final[Mapping[str, str]] = {"small": "Cifar10-small", "medium": "Cifar10-R18", "large": "DeepWeeds-R50v2"}
SAMPLES: Final = (0, 1, 6)
#: Columns of Tables SUP-1 and SUP-2.
COLUMNS: Final = tuple(f"{size}_{sample}" for size in MODELS.values() for sample in SAMPLES)
#: Two softmax vectors of one model and sample that are nearer than this in every element saw the same input. In the
#: published data, rounding moves an element by less than 0.003, and another input one by more than 0.04.
SAME_INPUT: Final = 0.01


@dataclass(frozen=True, slots=True)
class Cell:
    """A platform's output of one model and sample.

    `paper`: its class in Table SUP-1 or SUP-2, under the paper's definitions. `ours`: its class over all platforms that
    saw the same input, under ours; None for a cell of another input. `mode`: of repeated runs. `nearest`: of a cell of
    another input, the smallest distance (largest difference of an element) from a cell of the common input. `values`:
    the output, of the mode; `tied`: the outputs of its ties.
    """

    paper: int
    ours: int | None
    mode: Mode
    nearest: float | None
    values: Array
    tied: tuple[Array, ...]

    @property
    def other_input(self) -> bool:
        """Tells whether the platform evidently saw another input than most."""
        return self.nearest is not None

    @property
    def text(self) -> str:
        return f"{self.paper}{'' if self.mode.deterministic else '*'}"


@dataclass(frozen=True, slots=True)
class ClassMatrix:
    """Classes of platforms × models. `cells`: by platform, then as `COLUMNS`. Platforms stand in the printed order."""

    platforms: tuple[PublishedPlatform, ...]
    cells: tuple[tuple[Cell, ...], ...]

    def part(self, *, gpu: bool) -> ClassMatrix:
        kept = [i for i, platform in enumerate(self.platforms) if platform.is_gpu == gpu]
        return ClassMatrix(tuple(self.platforms[i] for i in kept), tuple(self.cells[i] for i in kept))

    def column(self, name: str) -> tuple[Cell, ...]:
        index = COLUMNS.index(name)
        return tuple(row[index] for row in self.cells)


#: By platform and column: the repetitions of an output, one for a CPU.
Runs = dict[PublishedPlatform, dict[str, list[Array]]]


def class_matrix(path: Path, outputs: Iterable[Output]) -> ClassMatrix:
    """Makes the matrix of all platforms. `path`: the outputs' file, for errors.

    Raises `BadData` for a platform without one of the nine outputs, or of an unknown generation.
    """
    runs = _merged(_runs_by_platform(path, outputs))
    platforms = sorted(runs, key=lambda platform: platform.order)
    columns = [_column([runs[platform][name] for platform in platforms], platforms) for name in COLUMNS]
    return ClassMatrix(tuple(platforms), tuple(zip(*columns, strict=True)))


def _runs_by_platform(path: Path, outputs: Iterable[Output]) -> Runs:
    found: dict[tuple[str, str, str, str | None], dict[str, list[Array]]] = {}
    first: dict[tuple[str, str, str, str | None], Output] = {}
    for output in outputs:
        # A representative is what the authors chose from the runs; we choose ourselves.
        if output.experiment == "equivalence_classes" and output.model in MODELS and output.role != "representative":
            column = f"{MODELS[output.model]}_{output.sample_index}"
            first.setdefault(output.instance, output)
            found.setdefault(output.instance, {}).setdefault(column, []).append(output.values)
    if not found:
        raise BadData(path, "no row is of equivalence_classes and one of the paper's models", column="experiment")
    for instance, columns in found.items():
        missing = [name for name in COLUMNS if name not in columns]
        if missing:
            what = f"{instance[1]} ({instance[3] or instance[2]}) has no output of {', '.join(missing)}"
            raise BadData(path, what, column="model", row=first[instance].at)
    return {platform_of(path, first[instance]): columns for instance, columns in found.items()}


def _merged(runs: Runs) -> Runs:
    """Makes one platform of instances with the same description and the same outputs, as the paper's tables do."""
    merged: Runs = {}
    known: dict[tuple[PublishedPlatform, tuple[str, ...]], PublishedPlatform] = {}
    for platform in sorted(runs, key=lambda each: each.order):
        columns = runs[platform]
        outputs = tuple(digest_array(run) for name in COLUMNS for run in columns[name])
        key = (replace(platform, instances=(), flags=frozenset()), outputs)
        if key in known:
            before = known[key]
            del merged[before]
            platform = replace(before, instances=(*before.instances, *platform.instances))
        merged[platform] = columns
        known[key] = platform
    return merged


def _column(runs: Sequence[Sequence[Array]], platforms: Sequence[PublishedPlatform]) -> list[Cell]:
    modes = [most_frequent(each) for each in runs]
    values = [each[mode.index] for each, mode in zip(runs, modes, strict=True)]
    nearest = _distances_of_other_inputs(values)
    paper = [0] * len(runs)
    for gpu in (False, True):
        rows = [i for i, platform in enumerate(platforms) if platform.is_gpu == gpu]
        for i, number in zip(rows, numbers([values[i] for i in rows]), strict=True):
            paper[i] = number
    common = [i for i in range(len(runs)) if nearest[i] is None]
    ours = dict(zip(common, numbers([values[i] for i in common], largest_first=True), strict=True))
    tied = [tuple(each[i] for i in mode.ties) for each, mode in zip(runs, modes, strict=True)]
    return [Cell(paper[i], ours.get(i), modes[i], nearest[i], values[i], tied[i]) for i in range(len(runs))]


def near(a: Array, b: Array) -> bool:
    """Tells whether two softmax vectors are so near that they saw the same input."""
    return bool(np.abs(a.astype(np.float64) - b.astype(np.float64)).max() < SAME_INPUT)


def _distances_of_other_inputs(values: Sequence[Array]) -> list[float | None]:
    """Returns for each output of another input the distance from the nearest one of the common input, otherwise None.

    Outputs of one input are those that a chain of steps shorter than `SAME_INPUT` connects. The common input is that of
    the largest group.
    """
    stack = np.stack(values).astype(np.float64)
    distances = np.abs(stack[:, None, :] - stack[None, :, :]).max(axis=2)
    group = list(range(len(values)))
    for i in range(len(values)):
        for j in np.flatnonzero(distances[i] < SAME_INPUT):
            old, new = group[j], group[i]
            group = [new if each == old else each for each in group]
    common = max(group, key=group.count)
    rows = [i for i, each in enumerate(group) if each == common]
    return [None if each == common else float(distances[i, rows].min()) for i, each in enumerate(group)]
