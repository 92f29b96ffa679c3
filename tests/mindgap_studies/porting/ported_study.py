"""A small portability study with known figures."""

from __future__ import annotations

from mindgap_studies.results.ported_functions import (
    DrawnFunction,
    FrameworkDraw,
    FunctionCell,
    Latency,
    PortingStudy,
    SampleResult,
)


def latency(steady: float, first: float) -> Latency:
    """Two processes of four rounds, in which the target takes `steady` and `first` times as long."""
    return Latency("float32[3]", (1.0, 2.0), (first, 2 * first), ((0.5,) * 4,) * 2, ((0.5 * steady,) * 4,) * 2)


def ported_study() -> PortingStudy:
    """Ten functions on `cpu/xla`: six succeed (three of them 20 times slower at the first call), two are lost in part,
    one is lost, one is not compared. `cpu/graph` ports all. There is no GPU."""
    names = [f"tensorflow.f{number}" for number in range(10)]
    drawn = tuple(DrawnFunction(name, 100 - k, "top") for k, name in enumerate(names))
    targets = {"cpu/graph": "", "cpu/xla": "", "cuda/eager": "TensorFlow is built without CUDA"}
    study = PortingStudy({"processes": 2, "rounds": 4}, "Test CPU")
    study.draws["tensorflow"] = FrameworkDraw(
        "tensorflow", {"tensorflow": "2.0"}, "cpu/eager", 5, 955, 20, 10, drawn, {"tensorflow.g": "it has no array"},
        targets,
    )  # fmt: skip
    good, bad = SampleResult("float32[3]"), SampleResult("int32[3]", "type failure", "no int32")
    refused = SampleResult("bool[3]", "not implemented", "no bool")
    for number, name in enumerate(names):
        samples, seconds = (good, good), latency(0.5, 20.0 if number < 3 else 2.0)
        if number in (6, 7):
            samples = (good, bad, bad, refused)
        if number == 8:
            samples, seconds = (refused, refused), None
        if number == 9:
            samples, seconds = (SampleResult("float32[3]", "not compared", "no answer"),), None
        cell = FunctionCell("tensorflow", name, "cpu/xla", samples, seconds)
        study.cells["tensorflow", name, "cpu/xla"] = cell
        whole = FunctionCell("tensorflow", name, "cpu/graph", (good,), latency(3.0, 4.0))
        study.cells["tensorflow", name, "cpu/graph"] = whole
    return study
