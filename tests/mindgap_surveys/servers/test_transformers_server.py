"""A real server: `transformers serve` with a small random model, by the Python that `MINDGAP_SERVER_PYTHON` names."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mindgap.cli.app import main
from mindgap_surveys.servers.completion_client import CompletionClient, CompletionRequest
from mindgap_surveys.servers.endpoint import Load, ask_endpoint

#: torchvision is left out: its published wheel does not load beside PyTorch for CPUs.
SERVE = "import sys; sys.modules['torchvision'] = None; from transformers.cli.transformers import main; main()"
MAKE = "import sys; sys.modules['torchvision'] = None; sys.path.insert(0, sys.argv[1]); import served_model; "
PYTHON = os.environ.get("MINDGAP_SERVER_PYTHON", sys.executable)


def lacks() -> str:
    """Which packages of `transformers[serving]` are missing."""
    code = "import accelerate, fastapi, openai, transformers, uvicorn"
    found = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False)
    return found.stderr.strip().rpartition("\n")[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    if why := lacks():
        pytest.skip(f"MINDGAP_SERVER_PYTHON names a Python with transformers[serving]; here: {why}")
    model = tmp_path / "model"
    here = str(Path(__file__).parent)
    make = f"{MAKE}from pathlib import Path; served_model.make(Path(sys.argv[2]))"
    subprocess.run([PYTHON, "-c", make, here, str(model)], check=True, capture_output=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [PYTHON, "-c", SERVE, "serve", str(model), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HF_HUB_OFFLINE": "1"})
        try:
            for _ in range(600):
                assert process.poll() is None, (tmp_path / "log").read_text()
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                    break
                except (urllib.error.URLError, OSError):
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}/v1", str(model)
        finally:
            process.terminate()
            process.wait(30)


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_one_prompt_alone_and_under_load(server: tuple[str, str]) -> None:
    url, model = server
    for stream in (False, True):
        asked = CompletionRequest(model, "", max_tokens=16, stream=stream)
        alone, loaded = ask_endpoint(CompletionClient(url), asked, ["hello there, how are"], Load(3, 3), notes := [])
        assert alone.verdict == loaded.verdict == "identical" and alone.asked == loaded.asked == 3 and alone.base
        assert "the server gives no log-probabilities: only texts are compared" in notes
    refused = CompletionClient(url).complete(CompletionRequest("no-such-model", "x"))
    assert refused.error.startswith("status ") and not refused.text


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_it_gives_nothing_to_compare_with_a_model(
    server: tuple[str, str], capfd: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    url, model = server
    capfd.readouterr()
    assert main(["invariance", url, "--model", model, "--against", f"hub:{model}", "--max-tokens", "4"]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert "it gives no log-probabilities (logprobs)" in line
