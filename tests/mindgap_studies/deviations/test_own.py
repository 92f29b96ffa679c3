"""Tables of one's own machines, on observations whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest

from mindgap.graph import MindgapError
from mindgap.platforms.name import parse
from mindgap_studies import records
from mindgap_studies.deviations.own import own_study
from mindgap_studies.deviations.own.columns import MAIN
from mindgap_studies.equivalence.prefix_digests import prefix_digests
from mindgap_studies.machines.merging import merged
from mindgap_studies.machines.observations import (
    Deviating,
    Machine,
    MachineObservations,
    Observation,
    ObservedSubject,
    ValueFacts,
)

FACTS = {"model": "resnet18", "activation": "relu", "pooling": "max", "trained": True, "sample": 0, "dtype": "float32"}
PLATFORMS = tuple(parse(f"cpu/eager@isa={isa},threads={count}") for isa in ("default", "avx2") for count in (1, 2))
#: Class of each value on each platform; the values of class n are 1 + n · 2^−shift in the first element.
BEFORE, AFTER, RESULT = (0, 1, 2, 2), (0, 0, 1, 1), (0, 0, 1, 2)


def tensors(shift):
    return tuple(prefix_digests(np.array([1 + n * 2.0**-shift, -1], np.float32)) for n in range(3))


def machine(name="one", flags=("avx2", "sse4_1")):
    return Machine(name, f"processor {name}", "Vendor", flags, 2, 8, {"torch": "2"}, "2026-11-22")


def collected(name="one", flags=("avx2", "sse4_1"), result=RESULT):
    values = (
        ValueFacts(5, "aten.conv2d.default", "conv1", (2,), "float32", (0,), False),
        ValueFacts(6, "aten.relu.default", "act1", (2,), "float32", (5,), False),
        ValueFacts(7, "aten.softmax.int", "", (2,), "float32", (6,), True),
    )
    subject = ObservedSubject(MAIN, "models", "digest", FACTS, values)
    conv = ObservedSubject(
        "convolution/x", "convolutions", "other",
        {"filters": 1, "kernel": 3, "channels": 3, "size": 9, "multiplications": 1000}, values[2:],
    )  # fmt: skip
    observations = [
        Observation(MAIN, platform, "ok", classes)
        for platform, classes in zip(PLATFORMS, zip(BEFORE, AFTER, result, strict=True), strict=True)
    ]
    observations += [Observation("convolution/x", PLATFORMS[0], "ok", (0,))]
    observations += [Observation("convolution/x", PLATFORMS[1], "crash", (), "killed")]
    settings = {
        platform: {
            "capability": "AVX2" if "avx2" in platform else "DEFAULT", "onednn": True, "onednn_isa": "Intel AVX2",
            "mkl_branch": "auto", "threads": {"aten": int(platform[-1])},
        }
        for platform in PLATFORMS
    }  # fmt: skip
    prefixes = {(MAIN, 5): tensors(3), (MAIN, 6): tensors(10), (MAIN, 7): tensors(20), ("convolution/x", 7): tensors(1)}
    return MachineObservations(
        machine(name, flags), (subject, conv), settings, tuple(observations), prefixes,
        (Deviating(MAIN, 5, 2, 4), Deviating(MAIN, 6, 1, 4)),
    )  # fmt: skip


def tables(**files):
    return own_study(merged(files or {"one": collected()}))


def test_classes_and_precision_by_layer():
    rows = records(tables().table("own_figure_5"))
    assert [(r["kind"], r["classes"], r["remaining_precision"]) for r in rows] == [
        ("convolution", 3, 1), ("activation", 2, 9), ("softmax", 3, 18),
    ]  # fmt: skip


def test_activations():
    (row,) = records(tables().table("own_table_sup8"))
    assert (row["before"], row["after"], row["samples"]) == (0.5, 0.25, 1)
    (row,) = records(tables().table("own_table_sup9"))
    assert (row["increase"], row["unaffected"], row["decrease"]) == (1.0, 0.0, 0.0)


def test_settings_that_make_classes():
    effects = {r["option"]: r["share"] for r in records(tables().table("own_options"))}
    # Threads change the class at one of two levels; the level changes it at each number of threads.
    assert effects == {"threads": 0.5, "isa": 1.0}
    threads = {r["isa"]: r["classes"] for r in records(tables().table("own_threads")) if r["subject"] == MAIN}
    assert threads == {"default": 1, "avx2": 2}


def test_flags_beside_classes():
    found = {r["members"]: r["aligned"] for r in records(tables().table("own_table_1"))}
    assert found == {"ATEN:AVX2": True, "ATEN:DEFAULT": True, "THREADS:1": False, "THREADS:2": False}


def test_two_machines_are_one_set_of_platforms():
    other = collected("two", ("sse4_1",), result=(0, 0, 0, 0))
    study = tables(one=collected(), two=other)
    rows = [r for r in records(study.table("own_summary")) if r["subject"] == MAIN]
    assert (rows[0]["platforms"], rows[0]["classes"]) == (8, 3)
    (flag,) = [r for r in records(study.table("own_table_1")) if r["members"] == "avx2"]
    assert (flag["platforms"], flag["classes_with"], flag["classes_with_it_throughout"]) == (4, 3, 2)
    assert not flag["aligned"]


def test_what_failed_and_what_is_not_there_is_said():
    study = tables()
    (row,) = records(study.table("own_failures"))
    assert (row["platform"], row["status"], row["message"]) == (PLATFORMS[1], "crash", "killed")
    (row,) = records(study.table("own_figure_4"))
    assert (row["platforms"], row["multiplications"]) == (1, 1000)


def test_nothing_to_compare_is_an_error():
    whole = collected()
    one = MachineObservations(**{**vars(whole), "observations": whole.observations[:1]})
    with pytest.raises(MindgapError, match="no subject ran on more than one platform"):
        tables(one=one)
