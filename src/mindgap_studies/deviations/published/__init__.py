"""Runs the study on the paper's published results.

Input: a directory of Parquet files with stored outputs. Output: the paper's tables and figures, recomputed from the
stored bytes, compared with the printed tables and with the paper's statements.
"""

from mindgap_studies.deviations.published.figures import NamedDendrogram
from mindgap_studies.deviations.published.matrix import COLUMNS
from mindgap_studies.deviations.published.parquet import BadData
from mindgap_studies.deviations.published.study import PublishedStudy, published_study

__all__ = ["COLUMNS", "BadData", "NamedDendrogram", "PublishedStudy", "published_study"]
