"""What a page shows of a deviations study: the numbers of its tables, in one shape for both studies."""

from __future__ import annotations

import numpy as np
import pytest

from deviations.test_own import PLATFORMS, collected
from mindgap.graph import MindgapError
from mindgap_studies import column, records
from mindgap_studies.deviations.overview import Overview, class_tree
from mindgap_studies.deviations.own import own_study
from mindgap_studies.deviations.own.overview import own_overview
from mindgap_studies.deviations.published import COLUMNS, PublishedStudy
from mindgap_studies.deviations.published.overview import published_overview
from mindgap_studies.equivalence.prefix_digests import dendrogram
from mindgap_studies.machines.merging import merged
from mindgap_surveys.report.study_page import Cell
from mindgap_surveys.table import StudyTable


@pytest.fixture(scope="module")
def theirs(study: PublishedStudy) -> Overview:
    return published_overview(study)


def own(**files) -> Overview:
    found = merged(files or {"one": collected()})
    return own_overview(found, own_study(found))


def cells_of(grid: StudyTable) -> list[tuple[Cell, ...]]:
    """The cells of each platform, without the row of counts."""
    return [row[2:] for row in grid.rows if isinstance(row[2], Cell)]


def counts_of(grid: StudyTable) -> list[int]:
    """The number of classes of each column."""
    return [len({cell.hue for cell in cells} - {None}) for cells in zip(*cells_of(grid), strict=True)]


def totals_reconcile(page: Overview) -> None:
    """The three answers, the matrix and the dendrograms count the same."""
    platforms, distinct, least = page.answers
    assert platforms.number == len(cells_of(page.grid))
    counts = counts_of(page.grid)
    assert page.grid.rows[-1] == ("all", "distinct results", *counts)
    assert sorted(counts) == sorted(len(tree.leaves) for tree in page.trees)
    assert distinct.number == max(counts)
    assert least.number == min(tree.tree.minimum for tree in page.trees)
    classed = [cell for row in cells_of(page.grid) for cell in row if cell.hue is not None]
    assert len(classed) == sum(tree.platforms for tree in page.trees)
    for tree in page.trees:
        names = [name for leaf in tree.leaves for name in leaf.platforms]
        assert len(set(names)) == len(names)


def test_the_answers_of_the_published_data(theirs: Overview) -> None:
    assert [each.number for each in theirs.answers] == [75, 25, 1]
    assert theirs.answers[0].detail == "64 CPU and 11 GPU platforms"
    totals_reconcile(theirs)


def test_the_published_matrix_has_every_cell_of_the_tables(study: PublishedStudy, theirs: Overview) -> None:
    cells = [cell for row in cells_of(theirs.grid) for cell in row]
    assert len(cells) == len(study.table("classes").rows) == 75 * len(COLUMNS)
    assert sum(cell.text.endswith("*") for cell in cells) == 39
    apart = [cell for cell in cells if cell.style == "other_input"]
    assert sorted(cell.hint for cell in apart) == sorted(column(study.table("other_inputs"), "reason"))
    numbers = [row["class_mindgap"] for row in records(study.table("classes"))]
    assert sorted(cell.hue for cell in cells if cell.hue) == sorted(each for each in numbers if each)


def test_the_published_flags_are_those_of_table_1(study: PublishedStudy, theirs: Overview) -> None:
    table = study.table("table_1")
    _, flags = theirs.flags
    assert isinstance(flags, StudyTable)
    classes = {head.partition(": ")[0]: head.partition(": ")[2].split(", ") for head in flags.columns[2:]}
    assert sum(map(len, classes.values())) == len(table.rows)
    for number, row in enumerate(flags.rows):
        sizes = map(len, classes.values())
        have = [size if cell.text == "all" else int(cell.text.split()[0] if cell.text else 0)
                for cell, size in zip(row[2:], sizes, strict=True)]  # fmt: skip
        assert sum(have) == sum(mark == "×" for mark in column(table, str(number)))
    # The classes have the numbers of the matrix: AMD Rome and Milan with two cores are class 10 of Cifar10-R18 there.
    (rome,) = [number for number, names in classes.items() if "AMD Rome" in names]
    begin = next(i for i, row in enumerate(theirs.grid.rows) if row[0] == "AMD Rome")
    row = next(row for row in theirs.grid.rows[begin:] if "2 cores, 7.8" in row[1])
    assert rome == row[2:][COLUMNS.index("medium_0")].text


def test_the_casts_and_cores_are_those_of_figures_2_and_6(study: PublishedStudy, theirs: Overview) -> None:
    assert [len(tree.leaves) for tree in theirs.casts] == [tree.classes for tree in study.by_cast]
    assert [tree.tree.minimum for tree in theirs.casts] == [tree.tree.minimum for tree in study.by_cast]
    assert theirs.by_setting is not None
    assert counts_of(theirs.by_setting) == [tree.classes for tree in study.by_cores]


def test_own_machines_have_the_same_parts() -> None:
    page = own()
    totals_reconcile(page)
    assert [each.number for each in page.answers] == [4, 3, 18]
    assert [cell.hue for row in cells_of(page.grid) for cell in row] == [1, 1, 2, 3]
    (profile,) = page.layers
    assert [(row["kind"], row["classes"], row["remaining_precision"]) for row in profile.points] == [
        ("convolution", 3, 1), ("activation", 2, 9), ("softmax", 3, 18),
    ]  # fmt: skip
    _, flags = page.flags
    assert isinstance(flags, StudyTable)
    assert [cell.text for row in flags.rows if row[1] == "ATEN:AVX2" for cell in row[2:]] == ["", "all", "all"]
    assert page.by_setting is not None
    assert [[cell.hue for cell in row] for row in cells_of(page.by_setting)] == [[1, 1], [2, 3]]


def test_two_machines_are_two_groups_of_rows() -> None:
    page = own(one=collected(), two=collected("two", ("sse4_1",), result=(0, 0, 0, 0)))
    totals_reconcile(page)
    groups = [row[0] for row in page.grid.rows]
    assert groups == ["processor one, 2 cores", "", "", "", "processor two, 2 cores", "", "", "", "all"]
    assert page.answers[0].detail == "on 2 machines"
    assert "two: isa=avx2,threads=2" in page.trees[0].leaves[0].platforms


def test_a_run_that_failed_is_a_cell_with_its_reason() -> None:
    whole = collected()
    observations = [
        each if each.platform != PLATFORMS[1] else type(each)(each.subject, each.platform, "crash", (), "killed")
        for each in whole.observations
    ]
    page = own(one=type(whole)(**{**vars(whole), "observations": tuple(observations)}))
    totals_reconcile(page)
    (cell,) = [row[2] for row in page.grid.rows if row[1] == PLATFORMS[1].partition("@")[2]]
    assert (cell.style, cell.hue, cell.hint) == ("not_run", None, "crash: killed")


def test_a_page_needs_a_model() -> None:
    whole = collected()
    subjects = tuple(
        type(each)(each.name, "operators", each.digest, each.facts, each.values) for each in whole.subjects
    )
    with pytest.raises(MindgapError, match="no model ran on more than one platform"):
        own(one=type(whole)(**{**vars(whole), "subjects": subjects}))


def test_the_dendrogram_of_classes_keeps_all_distances() -> None:
    values = [np.array([each], np.float32) for each in (1.0, 1.5, 1.0, 1.0 + 2**-11, 1.5)]
    tree = dendrogram(values)
    found = class_tree("x", list("abcde"), list("abbde"), (1, 2, 1, 3, 2), tree)
    leaves = {leaf.number: (i, leaf) for i, leaf in enumerate(found.leaves)}
    assert [leaf.platforms for _, leaf in (leaves[1], leaves[2], leaves[3])] == [("a", "c"), ("b", "e"), ("d",)]
    for one, other, bits in ((1, 3, 10), (1, 2, 0), (2, 3, 0)):
        assert found.tree.precision(leaves[one][0], leaves[other][0]) == bits
    assert leaves[1][1].label == "a, b"
