"""Everyday programs and files, compared with `truth.json`: a few of them in CI, all of them nightly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.command_line import mindgap
from everyday import suite

#: Usual things that run in one command in CI: a net, decoders with caches of several forms, text, state, forms, errors.
FEW = (
    "vision:convolutional", "caches:step_with_a_tuple", "caches:step_that_replaces_entries", "text:padded_right",
    "text:mixture_unsorted",
    "recurrent:packed", "forms:read_only_mapping", "forms:model_output_result", "state:writes_its_argument",
    "state:counting_buffer", "losses:cross_entropy", "mistakes:wrong_view", "mistakes:weights_on_meta",
)  # fmt: skip
#: Another twelve, for another exporter: what people bring besides.
MORE = (
    "caches:step_with_a_dynamic_cache", "text:gpt2", "combined:whisper_step", "control:selected_rows", "decoding:top_k",
    "detection:suppression", "preprocessing:normalise", "quantised:int8_dynamic", "recommender:embedding_bags",
    "graphs:graph_convolution", "losses:language_model_with_labels", "science:nerf_rays",
)  # fmt: skip
SOME_FILES = ("file:unsorted", "file:function_of_the_file", "file:quantised_static_qdq", "file:litert_floats")
TRUTH = suite.truth()
#: Of one command.
TOGETHER = 12


def check(names: tuple[str, ...], platforms: tuple[str, ...], folder: Path) -> None:
    """Runs things in one command: each row is right, or as `wrong.json` knows it."""
    suite.build_files([name for name in names if name.startswith("file:")], folder)
    sources = [suite.source_of(name, folder) for name in names]
    asked = [part for platform in platforms for part in ("-p", platform)]
    options = suite.options_of(names[0], folder)
    ran = mindgap("diff", *sources, *asked, *options, "--json", cwd=folder, own_path=True)
    assert ran.status in (0, 1, 2), ran.err[-2000:]
    assert "Traceback" not in ran.err, ran.err[-2000:]
    found = suite.answers(json.loads(ran.out), dict(zip(sources, names, strict=True)), platforms)
    known = suite.wrong()
    off: dict[tuple[str, str], tuple[str, str, str]] = {}
    for name in names:
        for platform in platforms:
            right = TRUTH[name].get(platform)
            answer = found.get(name, {}).get(platform, suite.Answer("no row"))
            if right and not suite.fits(answer, right) and answer.word != known.get(name, {}).get(platform):
                off[name, platform] = (answer.word, right, answer.detail)
    assert not off


@pytest.mark.parametrize(("names", "runtime"), [(FEW, "onnxruntime/cpu"), (MORE, "openvino/cpu")], ids=["few", "more"])
def test_usual_programs_in_one_command(names: tuple[str, ...], runtime: str, tmp_path: Path) -> None:
    check(names, ("cpu/jit", runtime), tmp_path)


def test_usual_files_in_one_command(tmp_path: Path) -> None:
    check(SOME_FILES, ("onnxruntime/cpu",), tmp_path)


def groups() -> list[tuple[str, ...]]:
    """All things: programs of a theme together, files that need no inputs together, the others alone."""
    from everyday import files

    themes: dict[str, list[str]] = {}
    for name in TRUTH:
        theme, _, rest = name.partition(":")
        themes.setdefault(name if rest in files.INPUTS else theme, []).append(name)
    return [tuple(names[n : n + TOGETHER]) for names in themes.values() for n in range(0, len(names), TOGETHER)]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0])
def test_all(names: tuple[str, ...], tmp_path: Path) -> None:
    check(names, suite.FILE_PLATFORMS if names[0].startswith("file:") else suite.PLATFORMS, tmp_path)


def test_what_is_known_to_be_wrong_is_of_the_suite() -> None:
    for name, rows in suite.wrong().items():
        for platform, word in rows.items():
            assert not suite.fits(suite.Answer(word), TRUTH[name][platform]), (name, platform)
