"""Damaged published data: one line that names file, column and row."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from mindgap.cli import main
from mindgap_studies.deviations.published import BadData, published_study
from mindgap_studies.deviations.published.ablation import SOUND_RUN, read_ablation
from mindgap_studies.deviations.published.matrix import class_matrix
from mindgap_studies.deviations.published.records import COLUMNS, Output, read_outputs

TYPES = {str: pa.string(), str | None: pa.string(), int: pa.int64(), int | None: pa.int64(), bytes: pa.binary(),
         frozenset[str]: pa.list_(pa.string()), tuple[int, ...]: pa.list_(pa.int32())}  # fmt: skip
SCHEMA = pa.schema([(name, TYPES[get_type_hints(Output)[name]]) for name in COLUMNS])


def row(**changes: Any) -> dict[str, Any]:
    """A platform's output, as the published file has it."""
    return {
        **dict.fromkeys(COLUMNS),
        "experiment": "equivalence_classes", "cloud": "gcloud", "platform": "intel_skylake", "device_type": "cpu",
        "cpu_vendor": "GenuineIntel", "cpu_brand": "Intel(R) Xeon(R) CPU @ 2.00GHz", "cpu_family": 6, "cpu_model": 85,
        "cpu_flags": ["avx2"], "cpu_count": 2, "memory_total": 2**33, "model": "cifar10_small", "sample_index": 0,
        "role": "single", "run_index": 0, "n_runs": 1, "dtype": "float32", "shape": [1, 2],
        "output": np.array([0.25, 0.75], np.float32).tobytes(), **changes,
    }  # fmt: skip


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    return path


GPU = {"platform": "nvidia_t4", "device_type": "gpu", "gpu_name": "Tesla T4", "role": "run", "n_runs": 2}
DAMAGED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "bytes of the wrong length": (
        [row(), row(sample_index=1, output=bytes(7))],
        "column output, row 1: 7 bytes; float32 of shape [1, 2] has 8",
    ),
    "no bytes": ([row(output=b"", shape=[0])], "column output, row 0: 0 bytes; float32 of shape [0] has 0"),
    "an unknown dtype": (
        [row(), row(platform="x", dtype="int8")],
        "column dtype, row 1: int8 is none of float16, float32, float64",
    ),
    "mixed dtypes": (
        [row(), row(platform="x", dtype="float16", output=bytes(4))],
        "column dtype, row 1: float16, but row 0 of the same experiment, model and sample is float32",
    ),
    "another dtype than the model was cast to": (
        [row(experiment="precision", dtype_variant="float64")],
        "column dtype, row 0: float32, but dtype_variant is float64",
    ),
    "mixed sizes": (
        [row(), row(platform="x", shape=[3], output=bytes(12))],
        "column shape, row 1: 3 elements, but row 0 of the same experiment, model and sample has 2",
    ),
    "a platform named twice": (
        [row(), row(platform="amd_rome"), row()],
        "column platform, row 2: intel_skylake (Intel(R) Xeon(R) CPU @ 2.00GHz) has an output for the same model and "
        "sample in row 0: a platform is named twice",
    ),
    "a missing repetition": ([row(**GPU)], "column n_runs, row 0: 1 repetitions of 2 are here"),
    "a GPU without a name": (
        [row(**{**GPU, "gpu_name": None})],
        "column gpu_name, row 0: no GPU, but device_type is gpu",
    ),
    "a missing value": ([row(), row(cpu_model=None)], "column cpu_model, row 1: None: Input should be a valid integer"),
    "no rows": ([], "outputs_e2e.parquet: it has no rows"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_rows_are_named(tmp_path: Path, name: str) -> None:
    rows, message = DAMAGED[name]
    path = written(tmp_path / "outputs_e2e.parquet", rows)
    with pytest.raises(BadData) as caught:
        read_outputs(path)
    text = str(caught.value)
    assert text.startswith(str(path)) and text.endswith(message) and "\n" not in text


def test_sound_rows_are_read(tmp_path: Path) -> None:
    rows = [row(), row(sample_index=1), row(**GPU), row(**{**GPU, "run_index": 1})]
    outputs = read_outputs(written(tmp_path / "outputs.parquet", rows))
    assert [each.at for each in outputs] == [0, 1, 2, 3]
    assert outputs[0].values.tolist() == [0.25, 0.75]


def test_a_missing_column_and_one_of_another_type(tmp_path: Path) -> None:
    path = tmp_path / "outputs_e2e.parquet"
    table = pa.Table.from_pylist([row()], SCHEMA)
    pq.write_table(table.drop_columns(["cpu_flags"]), path)
    with pytest.raises(BadData, match=r"it cannot be read as Parquet: No match for FieldRef.Name\(cpu_flags\)"):
        read_outputs(path)
    pq.write_table(table.set_column(table.column_names.index("output"), "output", pa.array([1])), path)
    with pytest.raises(BadData, match="column output, row 0: 1: Input should be a valid bytes"):
        read_outputs(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file"),
        (b"", "it cannot be read as Parquet: "),
        (b"PAR1 and then nothing that is Parquet PAR1", "it cannot be read as Parquet: "),
    ],
)
def test_no_file_an_empty_file_and_another_format(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes | None, message: str
) -> None:
    path = tmp_path / "outputs_e2e.parquet"
    if content is not None:
        path.write_bytes(content)
    assert main(["study", "deviations", "--published", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    out, err = capfd.readouterr()
    assert not out and err.count("\n") == 1 and f"{path}: {message}" in err
    assert not (tmp_path / "out").exists()


def test_no_directory(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "deviations", "--published", str(tmp_path / "none")]) == 2
    assert "there is no such directory" in capfd.readouterr().err


def test_a_platform_without_an_output_and_an_unknown_processor(tmp_path: Path) -> None:
    path = tmp_path / "outputs_e2e.parquet"
    every = [
        row(model=model, sample_index=sample)
        for model in ("cifar10_small", "cifar10_medium", "deep_weeds")
        for sample in (0, 1, 6)
    ]
    with pytest.raises(BadData, match=r"column model, row 0: intel_skylake \(.*\) has no output of large_6$"):
        class_matrix(path, read_outputs(written(path, every[:-1])))
    unknown = [{**each, "cpu_model": 207} for each in every]
    with pytest.raises(BadData, match=r"column cpu_model, row 0: the generation of .* is not known"):
        class_matrix(path, read_outputs(written(path, unknown)))
    with pytest.raises(BadData, match="column experiment: no row is of equivalence_classes"):
        class_matrix(path, read_outputs(written(path, [row(experiment="raw_simd")])))
    [platform] = class_matrix(path, read_outputs(written(path, every))).platforms
    assert platform.name == "Intel Skylake Xeon, 2 cores, 8.0 GiB, GCP"


def pairs(**changes: Any) -> list[dict[str, Any]]:
    """Three hosts, the first two equal."""
    base = {"source_run": SOUND_RUN, "c": 3, "f": 1, "k": 2, "i": 7, "multiplications": 588, "equivalence_classes": 2}
    rows = [{**base, "precision": bits, "row": i} for i, bits in enumerate((23, 5, 5))]
    rows[1].update(changes)
    return rows


ABLATION: dict[str, tuple[Callable[[], list[dict[str, Any]]], str]] = {
    "an impossible precision": (lambda: pairs(precision=24), "column precision, row 1: 24 bits of float32"),
    "another count of classes": (
        lambda: pairs(equivalence_classes=3),
        "column equivalence_classes, row 1: 3 classes, but the precisions of the pairs make 2",
    ),
    "a missing pair": (
        lambda: pairs()[:2],
        "column row, row 0: 2 rows of one configuration are not all pairs of hosts",
    ),
    "not the settings of Figure 4": (
        lambda: pairs(),
        "column f: the sound run does not have 3 channels with each of (1, 3) filters",
    ),
    "no row of the sound run": (
        lambda: [{**each, "source_run": "2022_08_31"} for each in pairs()],
        f"column source_run: no row is of the sound run {SOUND_RUN}",
    ),
}


@pytest.mark.parametrize("name", ABLATION)
def test_a_damaged_ablation_is_named(tmp_path: Path, name: str) -> None:
    rows, message = ABLATION[name]
    path = tmp_path / "multiplications.parquet"
    pq.write_table(pa.Table.from_pylist(rows()), path)
    with pytest.raises(BadData) as caught:
        read_ablation(path)
    assert str(caught.value) == f"{path}, {message}"


def test_a_sound_ablation_is_read(tmp_path: Path) -> None:
    path = tmp_path / "multiplications.parquet"
    three = [{**each, "f": 3, "row": each["row"] + 3} for each in pairs()]
    pq.write_table(pa.Table.from_pylist(pairs() + three), path)
    found, _ = read_ablation(path)
    assert (found.hosts, found.precision, found.classes, found.multiplications) == (3, 5, 2, 588)


def test_data_without_gpus(published: Path, tmp_path: Path) -> None:
    table = pq.read_table(published / "outputs_e2e.parquet")
    pq.write_table(table.filter(pc.field("device_type") == "cpu"), tmp_path / "outputs_e2e.parquet")
    for name in ("outputs_layers.parquet", "multiplications.parquet"):
        (tmp_path / name).symlink_to(published / name)
    with pytest.raises(BadData, match="column device_type: no row is of a GPU"):
        published_study(tmp_path)


def test_a_missing_second_file_is_named(published: Path, tmp_path: Path) -> None:
    (tmp_path / "outputs_e2e.parquet").symlink_to(published / "outputs_e2e.parquet")
    with pytest.raises(BadData, match=r"multiplications\.parquet: there is no such file"):
        published_study(tmp_path)
