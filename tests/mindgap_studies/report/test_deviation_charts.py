"""The dendrograms of the deviations study, as lines."""

import numpy as np

from mindgap_studies.equivalence.prefix_digests import dendrogram
from mindgap_studies.report.deviation_charts import segments


def test_the_lines_of_a_dendrogram() -> None:
    """1.0 twice, a neighbour that shares 10 bits, and 1.5, which shares none."""
    values = [np.array([each], np.float32) for each in (1.0, 1.5, 1.0, 1.0 + 2**-11)]
    tree = dendrogram(values)
    assert tree.order == (0, 2, 3, 1)
    assert sorted(segments(tree)) == sorted(
        [
            *((23, leaf, 24.5, leaf) for leaf in range(4)),
            (23, 0, 23, 1),
            (10, 0.5, 23, 0.5), (10, 2, 23, 2), (10, 0.5, 10, 2),
            (0, 1.25, 10, 1.25), (0, 3, 23, 3), (0, 1.25, 0, 3),
        ]
    )  # fmt: skip
