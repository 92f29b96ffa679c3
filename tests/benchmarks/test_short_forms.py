"""Runs every script of `benchmarks/`, and those that keep the list of findings, in a short form, so that none rots.

`pytest tests/benchmarks -m nightly -k judging_cost` runs one. A short form reaches the code of the whole run within a
minute on two idle cores; its figures mean nothing.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from report.browser import needs_driver

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"


@dataclass(frozen=True)
class ShortForm:
    """A script, arguments that make its run short, and its figures.

    `script`: below `benchmarks`, or a path from the root that starts with `tools` or `tests`.
    `arguments`: separated by blanks; `{name}` is the path that the fixture of that name gives.
    `figures`: a regular expression that matches what the script prints.
    """

    script: str
    arguments: str
    figures: str
    marks: tuple[pytest.MarkDecorator, ...] = ()

    @property
    def path(self) -> Path:
        return (ROOT if self.script.startswith(("tools/", "tests/")) else BENCHMARKS) / self.script


needs_nnsmith = pytest.mark.skipif(importlib.util.find_spec("nnsmith") is None, reason="NNSmith is not installed")
TINY = "timm:test_resnet?size=32"
SHORT_FORMS = (
    ShortForm("bound_sweep.py", "--op aten.exp. --dtype float32", r"[1-9]\d* rows with an error, .* 0 alarms"),
    ShortForm("campaign_kills.py", "--moments 1 --cases 10", "1 moments, 0 stores that differ"),
    ShortForm("campaign_memory.py", "60", r"60 cases, 120 outcomes: driver [\d.]+ CPU s"),
    ShortForm("compiled_versions.py", "variants:{catalogue}?count=2 cpu/eager cpu/jit", "2 graphs: 2 same"),
    ShortForm(
        "differential_tests.py", "{catalogue} --tests 2 --compiled 1",
        r"(?s)cpu/jit.* tests/CPU s  \(2 of .*cpu/aotinductor.* tests/CPU s  \(1 of ",
    ),
    ShortForm(
        "tests/fuzz/damaged_files.py", "model graph ledger segment tflite onnx --number 30",
        r"onnx: \d+ read, \d+ refused, 0 untyped",
    ),
    ShortForm("differential_tests_nnsmith.py", "jit 1", '"tests": 1', (needs_nnsmith,)),
    ShortForm("dynamic_programs.py", "programs --count 3", r"3 programs, [1-9]\d* different calls"),
    ShortForm("everyday.py", "--only vision:perceptron -p cpu/jit", "1 things, 1 rows, 0 wrong"),
    ShortForm(
        "export_time.py", "bert --islands 3 --steps 1",
        r"(?s)bert +\d+.*3 islands.*openvino: \d+ µs a call.*mindgap diff: \d+ CPU s, r",
    ),
    ShortForm(
        "tools/findings/case_calls.py", "{findings} onnxruntime-cpu/sigmoid_wrong.py", "^0 predicates are not met",
    ),
    ShortForm(
        "tools/findings/everyday_calls.py", "--only audio --out calls.gz", r"[1-9]\d* programs, [1-9]\d* overloads",
    ),
    ShortForm("tools/findings/publish.py", "{findings}", r"\d+ causes listed, \d+ with an upstream link"),
    ShortForm(
        "tools/findings/releases.py",
        "{findings} openvino-cpu openvino-cpu/eq_wrong.py --package openvino --oldest 2026.4.0",
        r"openvino-cpu/eq_wrong.py: first 2026\.4\.0",
    ),
    ShortForm(
        "tools/findings/run_scripts.py", "{findings} onnxruntime-cpu/sigmoid_wrong.py", "^fault: onnxruntime-cpu",
    ),
    ShortForm(
        "tools/findings/run_texts.py", "{findings} onnxruntime-cpu/sigmoid_wrong.py", "1 of 1 as listed; 1 of at most",
    ),
    ShortForm("fleet_simulation.py", "--cases 50000 --nodes 100", r"(?s)limit: \w.*store: \d+ GiB in 1,100 segments"),
    ShortForm("front_ends.py", "{catalogue} --every 3 --samples-only", r"[1-9]\d* samples that cpu/eager runs"),
    ShortForm("guided_search.py", "{pool} --tries 3 --start 2", r"lines of the compiler +[1-9][\d,]+ +[1-9]"),
    ShortForm("host_cost.py", "--jobs 2", r"(?s)large +47,.*job    cpu/eager@host=measured"),
    ShortForm("inductor_sweep.py", "--decomposed --op lerp", r"1 operators, [1-9]\d* samples"),
    ShortForm("judge_memory.py", "unet_small", r"unet_small .* \| (identical|rounding|ill_conditioned)"),
    ShortForm(
        "judging_cost.py", "{catalogue} --count 4 --nodes 3 --platform cpu/eager@isa=default --figures-only",
        r"judging / running: [\d.]+",
    ),
    ShortForm("int4_decoder.py", "tiny", r"tiny: [\d.]+ GiB, .*: cpu/jit (identical|rounding)"),
    ShortForm(
        "large_checkpoints.py", "layer_tiny onnx_tiny -p onnxruntime/cpu",
        r"(?s)layer_tiny: [\d,]+ parameters.*status 0.*onnx_tiny: [\d,]+ parameters.*status 0.*model.onnx: ",
    ),
    ShortForm("onnx_conformance.py", "--op Resize Add", r"each case at its own opset: [1-9]\d+ of \d+ cases"),
    ShortForm("operator_samples.py", "--every 50", "ops:"),
    ShortForm("operator_schemas.py", "own own", r"0 of \d{4} overloads differ"),
    ShortForm("tools/findings/operator_use.py", "{records} --most 1 --out calls.txt.gz", "1 models, 3 overloads"),
    ShortForm("page_speed.py", "--rows 50", r"(?s)filter .* ms.*zoom .* ms", (needs_driver, pytest.mark.browser)),
    ShortForm(
        "paired.py", "{root} {root} --times 1 --figure (\\d) -- -c print(8)", r"(?s)CPU seconds.*new 8, ratio 1.000"
    ),
    ShortForm(
        "portability_repeats.py", "--framework pytorch --platform cpu/jit --top 2 --files 20 --rounds 5 --processes 2",
        r"2 of 2 classes agree, 0 of 0 slow-downs agree, and 2 are not determined",
    ),
    ShortForm("quantised_models.py", "quantised", r"quantised_models.py:modules .*-blocks-u4.onnx"),
    ShortForm("quantised_operators.py", "--only Concat --types uint8", r"uint8 Concat: 1152 .*\n1 runs on the CPU"),
    ShortForm(
        "ray_cost.py", "--reference toys:EXACT --platform toys:WRONG --cases 6 --blocks 2 --empty 3 --workers 1",
        r"(?s)rows in the store +[\d,]+.*empty block: [\d.]+ ms.*1 workers: 6 rows",
    ),
    ShortForm("precision.py", "--only plain_conv rms --sets 100", r"4 lists: at most \d+ runs, at most [12]\.\d+ "),
    ShortForm("real_size.py", "gpt2_tiny -p cpu/jit", r"(?s)gpt2_tiny: bare .* CPU s\).* times the CPU s.*cpu/jit: "),
    ShortForm(
        "rediscovery/alone.py", "exported:clamp_of_nan", r"clamp_of_nan openvino/\S+ \S+ 1 of 4, by nan of",
    ),
    ShortForm(
        "rediscovery/run.py", "--given --all --only exported:clamp_of_nan",
        r"1 reports: verdict right 1 \(100.0%\), operator too 1",
    ),
    ShortForm("reduction_cost.py", "{campaign} --most 1", "all: 1 reduced"),
    ShortForm("refused_programs.py", "--kinds parallel --most 1 --minutes 2", r"all +1 "),
    ShortForm("several_faults.py", "mlp --faults 6 --graphs 1", r" 1 +[1-9]\d* "),
    ShortForm("small_diff.py", "cpu/jit --runs 1 --against {root}", r"(?s)ratio to .*session: new model +\d"),
    ShortForm("tools/findings/stages.py", "onnxruntime-cpu/sigmoid_wrong.py", r"onnxruntime/cpu\t(?!no)[\w ]+\t1"),
    ShortForm("store_segments.py", "300", r"301 segments compacted, 301 rows"),
    ShortForm("store_write.py", "10000", r"(?s)rows/s appended.*distinct outputs per graph"),
    ShortForm("strided_operands.py", "{catalogue} --most 1 --only exp --rows rows.csv", r"[1-9]\d* comparisons"),
    ShortForm("synthesis_reach.py", "{pool} --compile 2", r"(?s)operator x dtype +[1-9].*of the compiler +\d,\d"),
    ShortForm(
        "target_costs.py", "cpu/jit --repeat 2 --campaign {campaign}",
        r"\| `cpu/jit` \| native \| – \| [1-9]\d* / [1-9]\d* \| [\d.]+ × \| [\d.]+ \| `(identical|rounding)` \|",
    ),
    ShortForm(
        "tools/target_tables.py", "{campaign}", r"(?s)2 targets beside cpu/eager.*\| `cpu/jit` \| native \| 8 .*paper",
    ),
    ShortForm("trace_cost.py", TINY, "1 models: median"),
    ShortForm("truth/openvino_alone.py", "ov_relu_nan", r"(?s)eager .*openvino f32"),
    ShortForm("truth/run.py", "--name ov_relu_nan", "1 of 1 right"),
    ShortForm("wild/classify.py", "{measured}", r"\{'\w+': \d"),
    ShortForm("wild/draw.py", "{campaign} --findings 2 --calm 2 --seed 1 --out drawn", r"[1-9]\d* findings and"),
    ShortForm("wild/measure.py", "{campaign} {sample} -j 1", r"([1-9]\d*) of \1 measured"),
    ShortForm("wild/reached.py", "--every 100", r"# torch .*: [1-9]\d* calls, [1-9]\d* exported"),
    ShortForm("wild/report.py", "{root}/benchmarks/wild/seed-105/checked.csv", "findings that are real +183 of 184"),
    ShortForm("weight_copies.py", "cpu/jit --mib 16", r"cpu/jit: -?0\.\d+ copies of 16 MiB; declared: 0"),
    ShortForm("worker_overhead.py", "--turns 5", "heavy jobs over the calls inside the same jobs"),
)  # fmt: skip

#: Cuts of few nodes of these show findings on OpenVINO.
SOURCES = (TINY, *(f"ops:{name}" for name in ("expm1", "exp", "cumsum", "kthvalue", "log1p", "vstack", "amax", "add")))
PLAN = """\
seed = 3
catalogue = "{catalogue}"
[variants]
count = 8
sizes = [ {{nodes = 3, share = 1.0}} ]
[platforms]
"cpu/jit" = {{}}
"openvino/cpu@precision=f32,threads=1" = {{}}
"""
RECORD = {
    "inputs": [{"name": "x", "kind": "input", "shape": [4, 3], "dtype": "float32", "mean": 0.0, "std": 1.0,
                "data": None, "original_name": "x"}],
    "nodes": [
        {"name": "y", "op": "call_method", "target": "reshape", "args": [{"ref": "x"}, {"tuple": [2, -1]}],
         "kwargs": {}},
        {"name": "z", "op": "call_method", "target": "relu", "args": [{"ref": "y"}], "kwargs": {}},
    ],
    "outputs": [{"ref": "z"}],
}  # fmt: skip


def ran(*arguments: str, cwd: Path, status: tuple[int, ...] = (0,)) -> str:
    """Runs Python; returns standard output. Asserts the exit status."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode in status, f"status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalogue")
    ran("-m", "mindgap", "corpus", "build", "catalogue", *SOURCES, "--pass", "backward", cwd=folder)
    return folder / "catalogue"


@pytest.fixture(scope="session")
def campaign(catalogue: Path) -> Path:
    folder = catalogue.parent
    (folder / "plan.toml").write_text(PLAN.format(catalogue=catalogue))
    run = ("-m", "mindgap", "campaign", "run", "plan.toml", "--out", "campaign", "--no-support", "-j", "1")
    ran(*run, cwd=folder, status=(1,))  # 1: there are findings
    return folder / "campaign"


@pytest.fixture(scope="session")
def pool(campaign: Path, catalogue: Path) -> Path:
    return catalogue / "pool.parquet"


@pytest.fixture(scope="session")
def sample(campaign: Path) -> Path:
    draw = ("--findings", "1", "--calm", "1", "--seed", "1", "--out", "sample")
    ran(str(BENCHMARKS / "wild" / "draw.py"), str(campaign), *draw, cwd=campaign.parent)
    return campaign.parent / "sample"


@pytest.fixture(scope="session")
def measured(campaign: Path, sample: Path) -> Path:
    # The rows of a sample are measured once: the benchmark's own test needs one with none.
    sample = shutil.copytree(sample, sample.with_name("measured"))
    ran(str(BENCHMARKS / "wild" / "measure.py"), str(campaign), str(sample), "-j", "1", cwd=campaign.parent)
    return sample


@pytest.fixture
def findings(tmp_path: Path) -> Path:
    return shutil.copytree(ROOT / "docs" / "findings", tmp_path / "findings")


@pytest.fixture
def records(tmp_path: Path) -> Path:
    columns = {"id": ["a"], **{column: [json.dumps(value)] for column, value in RECORD.items()}}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "records.parquet")
    return tmp_path / "records.parquet"


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("short", [pytest.param(each, id=each.script, marks=each.marks) for each in SHORT_FORMS])
def test_a_benchmark_runs_and_prints_its_figures(
    short: ShortForm, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def path(match: re.Match[str]) -> str:
        return str(request.getfixturevalue(match[1]))

    arguments = [re.sub(r"\{(\w+)\}", path, each) for each in short.arguments.split()]
    printed = ran(str(short.path), *arguments, cwd=tmp_path)
    assert re.search(short.figures, printed), printed


def test_every_benchmark_has_a_short_form() -> None:
    folders = (BENCHMARKS, ROOT / "tools" / "findings", ROOT / "tests" / "fuzz")
    scripts = {
        path
        for folder in folders
        for path in folder.rglob("*.py")
        if re.search('^if __name__ == "__main__":$', path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    listed = [each.path for each in SHORT_FORMS]
    assert scripts <= {*listed}, "add the script to SHORT_FORMS, or take it out"
    assert len({*listed}) == len(listed) and all(path.is_file() for path in listed)
