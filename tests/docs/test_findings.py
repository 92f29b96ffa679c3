"""The listed causes: their files agree with each other, and status 1 of a script is proof."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest
import torch

from mindgap.findings.causes import causes_text, read_causes
from mindgap.platforms.environments import EnvironmentProblem, find

ROOT = Path(__file__).parents[2]
FINDINGS = ROOT / "docs" / "findings"
sys.path.insert(0, str(ROOT / "tools" / "findings"))
import case_calls  # noqa: E402
import counts  # noqa: E402
import established  # noqa: E402
import facts as fact_files  # noqa: E402
import listing  # noqa: E402
import pages  # noqa: E402
import plain_script  # noqa: E402

sys.path.pop(0)

LISTED = {cause.findings[0].script: cause for cause in established.read_established(FINDINGS)}
FACTS = {
    entry["script"]: entry
    for file in FINDINGS.glob("*/facts.toml")
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["cause"]
}
#: Those that were examined again.
CAUSES = {script: cause for script, cause in LISTED.items() if script in FACTS}
RUNS = json.loads((FINDINGS / "runs.json").read_text(encoding="utf-8"))
NATIVE = [cause.native for cause in CAUSES.values() if cause.native]
#: Scripts of ONNX files, which no PyTorch program makes.
ONNX_FILES = {str(file.relative_to(FINDINGS)) for file in FINDINGS.glob("onnx-files/*.py")}
#: What scripts import besides torch, by platform.
RUNTIMES = (
    "executorch", "iree", "jax", "litert_torch", "ncnn", "onnx", "onnxruntime", "onnxruntime_web", "openvino", "rknn",
    "tinygrad", "tosa_reference_model", "tvm",
)  # fmt: skip


#: How scripts of JAX import torchax, which PyTorch 2.13 lacks names for.
TORCHAX_PATCH = "packet = type(torch.ops.aten.add)"


def imports_of(script: str) -> list[tuple[str, bool]]:
    """The packages that a script imports, each with whether that is at its top."""
    tree = ast.parse((FINDINGS / script).read_text(encoding="utf-8"))
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = [
        (alias.name if isinstance(node, ast.Import) else str(node.module), id(node) not in inner)
        for node in found
        for alias in node.names
    ]
    return [(name.partition(".")[0], top) for name, top in names]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The pages that the site has, and the data of its index."""
    return pages.made_files(FINDINGS)


def test_pages_index_facts_and_runs_are_of_the_same_causes(made: dict[str, str]) -> None:
    page = (FINDINGS / "README.md").read_text(encoding="utf-8")
    assert len({cause.id for cause in LISTED.values()}) == len(LISTED)
    rows = json.loads(made[pages.INDEX])["causes"]
    assert {row["page"] for row in rows} == {f"{script.removesuffix('.py')}/" for script in CAUSES}
    assert set(CAUSES) == set(FACTS)
    assert f"{len(CAUSES)} have been examined" in page and f"{len(LISTED) - len(CAUSES)} have not" in page
    for script, cause in CAUSES.items():
        assert cause.title in made[script.replace(".py", ".md")].splitlines()[0], script
        name = Path(script).with_suffix(".md").name
        assert f"]({name})" in made[f"{Path(script).parent}/index.md"], "the page of the runtime has it"
        assert RUNS[script]["answer"] == "fault", script
        assert not cause.native or RUNS[script]["native_answer"] == "fault", script
    scripts = {str(file.relative_to(FINDINGS)) for file in FINDINGS.glob("*/*.py")}
    assert not scripts - set(LISTED) - set(NATIVE) - ONNX_FILES
    assert {name for name in ONNX_FILES if f"]({name})" in page} == ONNX_FILES
    assert {
        name for name in ONNX_FILES if recorded(page, name).startswith(("openvino ", "onnxruntime ", "rknn-toolkit2 "))
    } == ONNX_FILES


def test_pages_that_count_the_causes_count_them_right() -> None:
    for page in ("README.md", "CHANGELOG.md", "docs/ways/build-a-runtime.md"):
        counted = re.findall(r"\b(\d{3,}) (?:root )?causes\b", (ROOT / page).read_text(encoding="utf-8"))
        assert counted == [str(len(CAUSES))], page


def test_causes_json_holds_what_no_other_file_does_and_is_up_to_date() -> None:
    kept = [established.kept(cause) for cause in LISTED.values()]
    assert kept == [*read_causes(FINDINGS / "causes.json")], "python tools/findings/publish.py docs/findings"
    assert (FINDINGS / "causes.json").read_text(encoding="utf-8") == causes_text(kept)
    assert not any(cause.condition or cause.severity_reason or cause.upstream for cause in kept)


def test_what_is_made_is_not_committed(made: dict[str, str]) -> None:
    assert not [path for path in made if (FINDINGS / path).exists()]


def test_inside_a_severity_natural_conditions_come_first(made: dict[str, str]) -> None:
    rows = json.loads(made[pages.INDEX])["causes"]
    ranks = [
        (("critical", "high", "medium", "low").index(row["severity"]), [*listing.NATURES].index(row["nature"]))
        for row in rows
    ]
    assert ranks == sorted(ranks) and len(set(ranks)) > 8
    for row in rows:
        met = (row["everyday"] or 0) > 0 or (row["zoo"] or 0) >= listing.COMMON
        assert met or "natural" not in row["nature"], row["title"]
        assert not met or row["nature"] != "corner", row["title"]


def test_the_counts_are_what_the_predicates_give() -> None:
    facts = fact_files.read_facts(FINDINGS)
    every_tenth = dict(sorted(facts.items())[::10])
    kept = json.loads((FINDINGS / "counts.json").read_text(encoding="utf-8"))
    again = counts.counts_of(every_tenth)
    assert again["totals"] == kept["totals"] and set(kept["causes"]) == set(facts)
    assert {script: kept["causes"][script] for script in every_tenth} == again["causes"]


def check_predicates(scripts: list[str]) -> None:
    facts = fact_files.read_facts(FINDINGS)
    wrong = {
        script: cases
        for script in scripts
        if facts[script].uses.functions
        and (cases := case_calls.unmet(facts[script], (FINDINGS / script).read_text(encoding="utf-8")))
    }
    assert not wrong, "the cases of a script meet the condition of its cause"


def test_a_case_of_a_script_meets_the_predicate_of_its_cause() -> None:
    check_predicates(sorted(FACTS)[::12])


@pytest.mark.nightly
def test_every_case_of_a_script_meets_the_predicate_of_its_cause() -> None:
    check_predicates(sorted(FACTS))


#: By cause: functions that do not meet its condition, though they are near it.
NEIGHBOURS = {
    "onnxruntime-webgpu/conv2d_wrong.py": (
        lambda x: torch.conv2d(x, torch.ones(4, 3, 1, 1), torch.ones(4)),
        lambda x: torch.conv2d(x, torch.ones(6, 3, 1, 1)),
        lambda x: torch.conv1d(x[..., 0], torch.ones(6, 3, 1), torch.ones(6)),
    ),
    "jax-cpu/view_fails.py": (lambda x: x.view(-1),),
    "openvino-cpu/cat_fails.py": (lambda x: torch.cat([x, x]), lambda x: torch.cat([x.flatten()[:0], x.flatten()])),
    "rknn-simulator/adaptive_avg_pool2d_crashes.py": (lambda x: torch.nn.functional.adaptive_avg_pool2d(x, (1, 4)),),
    "tvm-cpu/logaddexp_fails.py": (lambda x: x * 2, lambda x: x + x),
    "tinygrad-cpu/gather_fails.py": (lambda x: torch.nn.functional.embedding(torch.tensor([1, 0]), x[0, 0]),),
}


@pytest.mark.parametrize("script", NEIGHBOURS)
def test_a_neighbour_of_a_condition_does_not_meet_its_predicate(script: str) -> None:
    facts = fact_files.read_facts(FINDINGS)[script]
    for near in NEIGHBOURS[script]:
        calls = case_calls.calls_of(partial(near, torch.ones(2, 3, 4, 4)))
        assert not case_calls.meets(facts, calls)


def test_of_each_cause_on_a_simulator_the_page_says_what_decides_that_it_is_the_kernels(made: dict[str, str]) -> None:
    simulated = {
        script for script in CAUSES if re.match(r"(onnxruntime-(qnn|webgpu)|rknn|ortweb|.*-(tosa|vulkan))", script)
    }
    assert {script for script, facts in FACTS.items() if facts.get("decided")} == simulated
    page = (FINDINGS / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| all \| (.*) \|$", page, re.MULTILINE)
    total, *counts, twice, real = map(int, row.split(" | "))
    assert total == sum(counts) == len(simulated)
    assert twice == sum(RUNS[script].get("answers") == ["fault", "fault"] for script in simulated)
    on_hardware = {script for script in simulated if RUNS[script].get("hardware")}
    assert real == len(on_hardware) and all(
        found[key] == ["fault", "fault"]
        for script in on_hardware
        for found in RUNS[script]["hardware"].values()
        for key in found
        if key.endswith("answers")
    )
    for script in simulated:
        assert "\n| kernel or simulator | " in made[script.replace(".py", ".md")], script


def recorded(page: str, script: str) -> str:
    """What a page has of a script's run: the text after its command, to the next command or the end of the block."""
    return re.split(r"^(?:\$ |```)", page.partition(f"\n$ python docs/findings/{script}\n")[2], flags=re.MULTILINE)[0]


@pytest.mark.parametrize("script", CAUSES)
def test_a_listed_cause_says_when_it_happens_and_is_called_as_users_call_it(script: str) -> None:
    cause, text = CAUSES[script], (FINDINGS / script).read_text(encoding="utf-8")
    text = text.replace(TORCHAX_PATCH, "")
    assert cause.condition and cause.stage_evidence and cause.title.partition(": ")[2]
    assert "torch.ops." not in text and "torch._" not in re.sub(r"torch\._inductor\.aoti_\w+", "", text)
    assert cause.damage not in ("failure",) or re.search(r'^FAILURE = \("\w+", ".+"\)', text, re.MULTILINE), script
    assert all(top for _, top in imports_of(script)), "a missing package is told before anything runs"


def python_of(environment: str) -> str:
    """The Python of an environment of mindgap's; skips the test where there is none."""
    try:
        return str(find(environment).python)
    except EnvironmentProblem as error:
        pytest.skip(str(error))


@pytest.mark.nightly
@pytest.mark.parametrize("script", sorted(ONNX_FILES))
def test_a_script_of_an_onnx_file_shows_its_fault(script: str) -> None:
    environment = next((name for name in ("qnn", "rknn") if f"/{name}_" in script), "")
    python = python_of(environment) if environment else sys.executable
    done = subprocess.run([python, str(FINDINGS / script)], capture_output=True, text=True, check=False)
    # QNN's library writes a line of its own.
    said = "".join(line for line in done.stdout.splitlines(keepends=True) if "LIBNATIVE" not in line)
    assert done.returncode == 1 and said.endswith("FAULT\n"), done.stdout + done.stderr
    kept = recorded((FINDINGS / "README.md").read_text(encoding="utf-8"), script)
    # Other versions may say the same in other words.
    assert kept == said or kept.splitlines()[0] != said.splitlines()[0]


@pytest.mark.sampled(25)
@pytest.mark.parametrize("script", [*CAUSES, *NATIVE, *sorted(ONNX_FILES)])
def test_without_any_package_a_script_cannot_check(script: str) -> None:
    command = [sys.executable, "-I", "-S", str(FINDINGS / script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "FAULT" not in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("script", NATIVE)
def test_another_failure_than_the_known_one_is_not_taken_for_a_missing_fault(script: str) -> None:
    text = (FINDINGS / script).read_text(encoding="utf-8")
    assert not re.search(r"\bfault \|?= .* in str\(error\)", text), "raise what is another failure"


@pytest.mark.nightly
@pytest.mark.parametrize("script", [name for name in NATIVE if re.search("qnn|webgpu|tosa", name)])
def test_without_its_provider_a_native_script_cannot_check(script: str) -> None:
    # mindgap's own environment has ONNX Runtime without these providers.
    done = subprocess.run([sys.executable, str(FINDINGS / script)], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stdout + done.stderr


@pytest.mark.sampled(1)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_without_its_runtime_a_script_cannot_check(runtime: str) -> None:
    script = next((name for name in CAUSES if runtime in [package for package, _ in imports_of(name)]), None)
    if script is None:
        pytest.skip(f"no examined script imports {runtime}")
    program = (
        f"import runpy, sys; sys.modules[{runtime!r}] = None; sys.argv = sys.argv[1:]; "
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", program, str(FINDINGS / script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "It cannot be checked" in done.stdout, done.stdout + done.stderr


#: Lines that a script may have, with the empty ones that part its classes and functions.
MOST_LINES = 60


def test_scripts_are_short_and_an_empty_line_parts_their_classes_and_functions() -> None:
    wrong: list[str] = []
    for file in sorted(FINDINGS.glob("*/*.py")):
        lines = file.read_text(encoding="utf-8").splitlines()
        nodes = ast.parse("\n".join(lines)).body
        blocks = [isinstance(node, ast.ClassDef | ast.FunctionDef) for node in nodes]
        close = [
            node.lineno
            for node, block, before in zip(nodes[1:], blocks[1:], blocks, strict=False)
            if (block or before) and lines[node.lineno - 2].strip()
        ]
        if len(lines) > MOST_LINES or close:
            wrong.append(f"{file.relative_to(FINDINGS)}: {len(lines)} lines, none empty before {close}")
    assert not wrong, "shorten the cases of a script, or its own call of the platform (own_call in facts.toml)"


def test_the_script_of_a_text_to_file_is_plain_and_at_most_25_lines_long(made: dict[str, str]) -> None:
    texts = {path: text.partition("## Text to file")[2] for path, text in made.items() if "## Text to file" in text}
    scripts = {path: re.search(r"^```python\n(.*?)^```$", text, re.M | re.S) for path, text in texts.items()}
    assert len(scripts) == len(CAUSES) and None not in scripts.values()
    longer = [path for path, found in scripts.items() if found and len(found[1].splitlines()) > plain_script.LINES]
    assert not longer
    assert not [path for path, found in scripts.items() if found and "FAULT" in found[1]], (
        "it shows, and does not answer"
    )


def test_a_plain_script_has_what_acts_and_not_what_decides() -> None:
    made = plain_script.plain_native(
        '''"""Exit status 1: fault."""
import sys
def main():
    import math
    print("runtime", math.__version__)
    if math.load("file"):
        raise RuntimeError("not loaded")
    found = math.sqrt(-1.0)
    print("found", found)
    fault = not math.isclose(found, 1.0)
    # The answer.
    if not fault:
        raise RuntimeError("another")
    print("FAULT" if fault else "NO FAULT")
    return int(fault)
sys.exit(main())
'''
    )
    assert made == (
        'import math\nif math.load("file"):\n    raise RuntimeError("not loaded")\n'
        'found = math.sqrt(-1.0)\nprint("found", found)\n'
    )


def test_a_script_that_starts_itself_again_is_what_the_second_process_runs() -> None:
    made = plain_script.plain_native(
        '''"""Exit status 1: fault."""
import subprocess, sys
import math
if sys.argv[1:]:  # in a process of its own
    for x in (4.0, -1.0):
        print("root", math.sqrt(x))
    sys.exit()
done = subprocess.run([sys.executable, __file__, "run"])
sys.exit(print("FAULT" if done.returncode else "NO FAULT") or done.returncode)
'''
    )
    assert made == 'import math\nfor x in (4.0, -1.0):\n    print("root", math.sqrt(x))\n'


def test_a_script_that_is_too_long_does_not_catch_its_failure() -> None:
    lines = "\n".join(f"print({number})" for number in range(20))
    script = f"""import os
import math
import tempfile
log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 2)
def root(x):
    'A docstring.'
    return math.sqrt(x)
{lines}
try:
    print(root(-1.0))
except ValueError as error:
    print("raised", error)
"""
    assert (
        plain_script.plain_native(script)
        == f"import math\ndef root(x):\n    return math.sqrt(x)\n{lines}\nprint(root(-1.0))\n"
    )


def test_titles_are_distinct() -> None:
    found = [cause.title for cause in CAUSES.values()]
    assert len(set(found)) == len(found)
