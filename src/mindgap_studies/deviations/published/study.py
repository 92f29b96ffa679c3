"""Runs the study of published data: all tables, figures and checks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindgap.graph import MindgapError
from mindgap_studies.deviations.feature_clusters import FlagClusters
from mindgap_studies.deviations.published import claims, figures, tables
from mindgap_studies.deviations.published.ablation import Convolution, read_ablation
from mindgap_studies.deviations.published.claims import Claim
from mindgap_studies.deviations.published.figures import NamedDendrogram
from mindgap_studies.deviations.published.matrix import ClassMatrix, class_matrix
from mindgap_studies.deviations.published.parquet import BadData
from mindgap_studies.deviations.published.printed import disagreements
from mindgap_studies.deviations.published.records import read_outputs
from mindgap_surveys.table import StudyTables

_OUTPUTS: Final = "outputs_e2e.parquet"
_LAYERS: Final = "outputs_layers.parquet"
_ABLATION: Final = "multiplications.parquet"


@dataclass(frozen=True, slots=True)
class PublishedStudy(StudyTables):
    """The study of published data. `by_cores`: Figure 2; `by_cast`: Figures 6, SUP-2 and SUP-3."""

    claims: tuple[Claim, ...]
    matrix: ClassMatrix
    flags: FlagClusters
    by_cores: tuple[NamedDendrogram, ...]
    by_cast: tuple[NamedDendrogram, ...]
    ablation: tuple[Convolution, ...]


def published_study(directory: Path) -> PublishedStudy:
    """Runs the study of the published data in a directory.

    Raises `BadData` for a missing or damaged file, and `MindgapError` for a directory that does not exist.
    """
    if not directory.is_dir():
        raise MindgapError(f"--published {directory}: there is no such directory")
    path = directory / _OUTPUTS
    outputs = read_outputs(path)
    ablation = read_ablation(directory / _ABLATION)
    layers = read_outputs(directory / _LAYERS)
    matrix = class_matrix(path, outputs)
    for gpu in (False, True):
        if not matrix.part(gpu=gpu).platforms:
            raise BadData(path, f"no row is of a {'GPU' if gpu else 'CPU'}", column="device_type")
    flags = tables.clusters_of_table_1(matrix)
    by_cores = figures.dendrograms_by_cores(matrix)
    by_cast = figures.dendrograms_by_cast(path, outputs)
    found = (
        *claims.claims_of_classes(matrix), *claims.claims_of_runs(outputs),
        *claims.claims_of_flags(matrix, len(flags.flags)), *claims.claims_of_cores(by_cores),
        *claims.claims_of_ablation(ablation), *claims.claims_of_casts(by_cast), *claims.claims_of_layers(layers),
    )  # fmt: skip
    paper = (
        tables.table_1(matrix, flags), tables.table_sup1(matrix), tables.table_sup2(matrix), tables.table_sup3(flags),
        figures.figure_1(matrix), figures.figure_2(by_cores), figures.figure_4(ablation), figures.figure_6(by_cast),
    )  # fmt: skip
    ours = (tables.classes(matrix), tables.other_inputs(matrix), tables.ties(matrix))
    every = (claims.claims_table(found), disagreements(paper), *paper, *ours)
    return PublishedStudy(every, found, matrix, flags, by_cores, by_cast, ablation)
