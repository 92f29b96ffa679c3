"""The paper's tables, figures and statements, from its published outputs."""

import csv
import json
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from mindgap.cli import main
from mindgap_studies import column, records, to_csv
from mindgap_studies.deviations.published import COLUMNS, PublishedStudy
from mindgap_studies.deviations.published.ablation import SOUND_RUN
from mindgap_studies.deviations.published.printed import PRINTED, printed_table
from mindgap_studies.deviations.published.records import Output, read_outputs

#: The printed cells in which the data differ: table, row from 1, column, printed, computed.
DIFFER = {
    ("table_sup1", 9, "device_name", "7B12", "7B13"),
    ("table_sup1", 54, "large_1", "12", "13"),
}


@pytest.fixture(scope="session")
def outputs(published: Path) -> tuple[Output, ...]:
    return read_outputs(published / "outputs_e2e.parquet")


@pytest.mark.parametrize("name", PRINTED)
def test_every_cell_is_as_printed_but_for_those_named(study: PublishedStudy, name: str) -> None:
    computed = list(csv.reader(to_csv(study.table(name)).splitlines()))
    printed = printed_table(name)
    assert computed[0] == printed[0]
    assert len(computed) == len(printed)
    differ = {
        (name, row, head, was, now)
        for row, (before, after) in enumerate(zip(printed, computed, strict=True))
        for head, was, now in zip(printed[0], before, after, strict=True)
        if was not in (now, "?")
    }
    assert differ == {each for each in DIFFER if each[0] == name}


def test_the_printed_tables_are_whole() -> None:
    sizes = {name: (len(printed_table(name)) - 1, {len(row) for row in printed_table(name)}) for name in PRINTED}
    assert sizes == {"table_1": (9, {17}), "table_sup1": (64, {16}), "table_sup2": (11, {13}), "table_sup3": (125, {2})}
    cells = [row[head] for name in ("table_sup1", "table_sup2") for row in printed_table(name)[1:] for head in (-9, -1)]
    assert all(cell.strip("*").isdigit() for cell in cells)
    assert sum(cell.endswith("*") for row in printed_table("table_sup2") for cell in row) == 39


def test_disagreements_are_on_the_output(study: PublishedStudy) -> None:
    rows = study.table("disagreements").rows
    assert {row[:5] for row in rows} == DIFFER
    assert all(row[5] for row in rows), "each has a remark"
    assert "Compared are 1569 cells" in study.table("disagreements").note


def test_a_changed_table_disagrees(study: PublishedStudy) -> None:
    from dataclasses import replace

    from mindgap_studies.deviations.published.printed import disagreements

    table = study.table("table_sup2")
    rows = [*table.rows[:4], (*table.rows[4][:-1], "9*"), *table.rows[5:-1]]
    found = disagreements([replace(table, rows=tuple(rows))]).rows
    assert [row[:5] for row in found[:1]] == [("table_sup2", 5, "large_6", "5", "9*")]
    assert found[1][1:3] == (11, None) and found[1][4] is None, "a row is missing"


def test_the_papers_statements(study: PublishedStudy) -> None:
    claims = {each.claim: each for each in study.claims}
    assert {what: each.data for what, each in claims.items()} == {
        "CPU platforms": "64",
        "GPU platforms": "11",
        "classes of a model on CPUs": "3 to 16",
        "classes of a model on GPUs": "8 to 10",
        "GPU outputs that are not deterministic": "39 of 99",
        "different outputs of a model over all platforms, up to": "26",
        "GPUs in one class, at most": "3",
        "CPU platforms with repetitions that are deterministic": "6 of 6",
        "CPU flags": "169",
        "classes of Intel processors newer than Ivy Bridge, by cores": "3 at 2, 2 at 4, 2 at 8, 1 at 16, 1 at 32",
        "classes in the convolution ablation, at most": "4",
        "classes for kernel 2 and filter 1": "1",
        "remaining precision drops to": "0",
        "more classes at 10^6 to 10^7 multiplications than at 10^8": "yes",
        "other numbers of channels than 3 give the same classes": "not in 33 of 111",
        "classes as float16/float32/float64, medium": "3/9/4",
        "classes as float16/float32/float64, small": "1/3/2",
        "classes as float16/float32/float64, large": "3/8/5",
        "float16 classes of Cifar10-R18 that hold an AMD Rome": "all",
        "ways in which weights and inputs of conv2d_11 divide the platforms": "1",
    }
    assert {what for what, each in claims.items() if not each.agrees} == {
        "GPUs in one class, at most",
        "other numbers of channels than 3 give the same classes",
    }
    assert "m4.large and t2.large are one platform" in claims["CPU platforms"].remark
    assert "large: 14 without" in claims["classes of a model on CPUs"].remark
    remark = claims["different outputs of a model over all platforms, up to"].remark
    assert "medium: 25 without" in remark and "large: 20 without" in remark


def test_cells_of_another_input_are_kept_apart(study: PublishedStudy) -> None:
    """All local platforms on DeepWeeds, and the GTX 970 on everything."""
    rows = records(study.table("other_inputs"))
    local = {platform.name for platform in study.matrix.platforms if platform.cloud == "local"}
    assert len(local) == 8
    found = {(row["platform"], row["model"], int(row["sample"])) for row in rows}
    gtx = "NVidia Maxwell GTX 970, local"
    expected = {(name, "large", sample) for name in local for sample in (0, 1, 6)}
    expected |= {(gtx, model, sample) for model in ("small", "medium") for sample in (0, 1, 6)}
    assert found == expected
    assert all("agrees with 7 others, all local" in row["reason"] for row in rows if row["model"] == "large")
    assert all("agrees with none" in row["reason"] for row in rows if row["model"] != "large")
    classes = records(study.table("classes"))
    apart = {(row["platform"], row["model"], row["sample"]) for row in classes if row["class_mindgap"] is None}
    assert apart == expected


def test_the_distance_that_tells_inputs_apart_lies_in_a_gap(study: PublishedStudy) -> None:
    """Between the largest distance of a neighbour of one input and the smallest to another input, a factor of ten."""
    for name in COLUMNS:
        cells = study.matrix.column(name)
        common = [cell.values.astype(np.float64) for cell in cells if not cell.other_input]
        nearest = [min(np.abs(a - b).max() for b in common if b is not a) for a in common]
        assert max(nearest) < 0.003
        assert all(cell.nearest > 0.04 for cell in cells if cell.nearest is not None)


def test_one_class_rests_on_a_tie(study: PublishedStudy) -> None:
    assert study.table("ties").rows == (("NVidia Maxwell M60, AWS", "medium", "0", 10, 5, "3*", 9, 10),)
    ties = [row for row in records(study.table("classes")) if row["ties"]]
    assert [(row["platform"], row["runs"], row["runs_of_the_mode"]) for row in ties] == [
        ("NVidia Maxwell M60, AWS", 10, 5)
    ]


def test_the_chosen_output_of_repeated_runs_is_the_one_that_the_authors_stored(
    study: PublishedStudy, outputs: tuple[Output, ...]
) -> None:
    stored = {
        (each.platform, each.gpu_name, each.model, each.sample_index): each.values
        for each in outputs
        if each.experiment == "equivalence_classes" and each.role == "representative"
    }
    models = {"small": "cifar10_small", "medium": "cifar10_medium", "large": "deep_weeds"}
    gpus, compared = study.matrix.part(gpu=True), 0
    for platform, cells in zip(gpus.platforms, gpus.cells, strict=True):
        for name, cell in zip(COLUMNS, cells, strict=True):
            size, sample = name.split("_")
            keys = [
                key
                for key in stored
                if key[0] in platform.instances
                and platform.device in str(key[1])
                and key[2:] == (models[size], int(sample))
            ]
            assert len(keys) == 1
            assert np.array_equal(stored[keys[0]], cell.values)
            compared += 1
    assert compared == 99


def test_equal_digests_are_equal_numbers_in_these_outputs(outputs: tuple[Output, ...], published: Path) -> None:
    """The paper compares by `==`, for which −0 is 0 and NaN is nothing."""
    for each in (*outputs, *read_outputs(published / "outputs_layers.parquet")):
        assert not np.isnan(each.values).any()
        assert not (np.signbit(each.values) & (each.values == 0)).any()


def test_figure_1_ends_with_the_number_of_different_outputs(study: PublishedStudy) -> None:
    rows = records(study.table("figure_1"))
    assert len(rows) == 75
    assert [rows[-1][name] for name in COLUMNS] == [11, 11, 11, 25, 26, 26, 26, 26, 26]
    assert [rows[63][name] for name in COLUMNS] == [3, 3, 3, 16, 16, 16, 16, 16, 16], "the CPUs come first"
    for name in COLUMNS:
        counts = [row[name] for row in rows]
        assert counts[0] == 1 and all(0 <= after - before <= 1 for before, after in pairwise(counts))


def test_figure_2_merges_classes_as_cores_grow(study: PublishedStudy) -> None:
    rows = records(study.table("figure_2"))
    assert {row["cores"]: row["classes"] for row in rows} == {2: 5, 4: 4, 8: 4, 16: 3, 32: 3}
    by_cores = {(row["cores"], row["platform"]): row["eqc"] for row in rows}
    assert by_cores[2, "Intel Ice Lake"] != by_cores[2, "Intel Skylake"]
    assert by_cores[4, "Intel Ice Lake"] == by_cores[4, "Intel Skylake"] != by_cores[4, "Intel Haswell"]
    assert by_cores[16, "Intel Ice Lake"] == by_cores[16, "Intel Haswell"] != by_cores[16, "Intel Ivy Bridge"]


def test_figure_4_is_of_the_sound_run(study: PublishedStudy) -> None:
    rows = records(study.table("figure_4"))
    assert len(rows) == 60
    assert {row["channels"] for row in rows} == {3} and {row["filters"] for row in rows} == {1, 3}
    assert all((row["remaining_precision"] == 23) == (row["classes"] == 1) for row in rows)
    worst = {(row["filters"], row["kernel"], row["size"]): (row["remaining_precision"], row["classes"]) for row in rows}
    assert worst[3, 6, 40] == (7, 4) and worst[1, 4, 103] == (4, 3) and worst[1, 2, 2042] == (23, 1)


def test_the_published_pairs_are_an_ultrametric(published: Path) -> None:
    """Of any three hosts, the two smaller of the three remaining precisions are equal: 359 settings of nine hosts."""
    rows = pq.read_table(published / "multiplications.parquet").to_pylist()
    settings: dict[tuple[int, ...], list[int]] = {}
    for row in sorted(rows, key=lambda row: row["row"]):
        if row["source_run"] == SOUND_RUN:
            settings.setdefault(tuple(row[name] for name in "cfki"), []).append(row["precision"])
    triples = 0
    for precisions in settings.values():
        bits = dict(zip(combinations(range(9), 2), precisions, strict=True))
        for a, b, c in combinations(range(9), 3):
            smallest, second, _ = sorted((bits[a, b], bits[b, c], bits[a, c]))
            assert smallest == second
            triples += 1
    assert triples == 30156


def test_figure_6_holds_the_bits_of_every_pair(study: PublishedStudy, outputs: tuple[Output, ...]) -> None:
    """Against the definition, computed for each pair of hosts without the ultrametric."""
    mantissa = {"float16": 10, "float32": 23, "float64": 52}
    values = {
        (each.model, each.dtype_variant, each.platform): each.values
        for each in outputs
        if each.experiment == "precision"
    }
    models = {"small": "cifar10_small", "medium": "cifar10_medium", "large": "deep_weeds"}
    for tree in study.by_cast:
        size, dtype = tree.panel
        assert len(tree.names) == 14
        for i, j in combinations(range(14), 2):
            a, b = (values[models[size], dtype, tree.names[each]] for each in (i, j))
            bits = [
                mantissa[dtype] - (int(x) ^ int(y)).bit_length()
                for x, y in zip(*(each.view(f"u{each.itemsize}") for each in (a, b)), strict=True)
            ]
            assert tree.tree.precision(i, j) == max(0, min(bits))
            assert (tree.numbers[i] == tree.numbers[j]) == np.array_equal(a, b)


def test_clusters_of_flags_0_to_6_are_the_same_within_each_class(study: PublishedStudy) -> None:
    assert study.flags.aligned == (True,) * 7 + (False,) * 8
    assert "avx2" in study.flags.clusters[0] and "avx512f" in study.flags.clusters[1]


@pytest.mark.nightly
def test_the_command_writes_tables_and_figures(
    published: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    arguments = [
        "study",
        "deviations",
        "--published",
        str(published),
        "--out",
        str(tmp_path / "out"),
        "--html",
        str(page),
    ]
    assert main(arguments) == 0
    assert '<b class="answer">75</b>' in page.read_text(encoding="utf-8")
    out, err = capfd.readouterr()
    assert not err
    assert "39 of 99" in out and "DISAGREES" in out
    assert "table_sup1, row 54, large_1: printed 12, computed 13" in out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    tables = ("1", "sup1", "sup2", "sup3")
    assert {f"table_{name}.csv" for name in tables} <= names
    assert {f"figure_{name}.{kind}" for name in "1246" for kind in ("csv", "svg")} <= names
    with (tmp_path / "out" / "table_sup2.csv").open(newline="") as file:
        assert list(csv.reader(file)) == printed_table("table_sup2")


def test_json_holds_all_tables(published: Path, study: PublishedStudy, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "deviations", "--published", str(published), "--json"]) == 0
    tables = json.loads(capfd.readouterr().out)["tables"]
    assert list(tables) == [table.name for table in study.tables]
    assert [row[0] for row in tables["claims"]["rows"]] == column(study.table("claims"), "claim")


def test_nothing_asked_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "deviations"]) == 2
    assert "--published DIR" in capfd.readouterr().err
