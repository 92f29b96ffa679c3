"""A server whose answers depend on its load, and servers that misbehave. They speak the protocol over real sockets."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mindgap.cli.app import main
from mindgap.graph import MindgapError
from mindgap_surveys.servers.completion_client import Completion, CompletionClient, CompletionRequest
from mindgap_surveys.servers.endpoint import Load, ask_endpoint, beside

ASKED = CompletionRequest("tiny", "one two three")
Respond = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Answers with what the test's function sends."""

    respond: Respond
    busy = most = count = 0
    lock = threading.Lock()
    counted = False

    def do_GET(self) -> None:
        self.send(json.dumps({"data": [{"id": "tiny"}]}))

    def do_POST(self) -> None:
        kind = type(self)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with kind.lock:
            kind.count += 1
            kind.busy += 1
            kind.most = max(kind.most, kind.busy)
            self.counted = True
        try:
            kind.respond(self, body)
        finally:
            self.leave()

    def leave(self) -> None:
        """Counts the request as over: before its answer is whole, or the client's next one would find it here."""
        with type(self).lock:
            type(self).busy -= self.counted
            self.counted = False

    def send(self, text: str | bytes, status: int = 200, **headers: str) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.leave()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(respond: Respond) -> Iterator[tuple[str, type[Handler]]]:
    kind = type("OfThisTest", (Handler,), {"respond": staticmethod(respond), "lock": threading.Lock()})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1", kind
        finally:
            server.shutdown()


def text_of(words: str, logprob: float = -0.5) -> str:
    tokens = words.split()
    logprobs = {"tokens": tokens, "token_logprobs": [logprob] * len(tokens)}
    return json.dumps({"choices": [{"text": words, "logprobs": logprobs, "finish_reason": "length"}]})


def depends_on_load(handler: Handler, body: dict[str, Any]) -> None:
    """Another fourth token where other requests are in flight; before it, another log-probability."""
    assert body["temperature"] == 0 and body["model"] == "tiny"
    time.sleep(0.02)
    loaded = type(handler).busy > 1 or type(handler).most > 1
    handler.send(text_of("a b c e", -0.75) if loaded else text_of("a b c d"))


def complete(respond: Respond, timeout_s: float = 5.0, **asked: Any) -> Completion:
    with serving(respond) as (url, _):
        return CompletionClient(url, timeout_s).complete(CompletionRequest("tiny", "one", **asked))


def test_answers_that_depend_on_the_load_are_found() -> None:
    with serving(depends_on_load) as (url, server):
        alone, loaded = ask_endpoint(CompletionClient(url), ASKED, ["one two three"], Load(4, 3), notes := [])
        assert (alone.verdict, alone.completions, alone.drift) == ("identical", (("a b c d", 4),), 0.0)
        assert (loaded.verdict, loaded.parts_at, loaded.by_tokens, loaded.drift) == ("other text", 4, True, 0.25)
        assert loaded.completions == (("a b c e", 4),) and not notes
        assert 2 <= server.most <= 3 and server.count == 4 + 4 * 3


def test_the_number_of_requests_is_bounded() -> None:
    with serving(lambda handler, body: handler.send(text_of("a b"))) as (url, server):
        alone, loaded = ask_endpoint(CompletionClient(url), ASKED, ["x"], Load(10, 4, most=13), notes := [])
        assert server.count == 13 and alone.asked == 10 and 1 <= loaded.asked <= 3
        assert notes == ["the largest number of requests is reached (--max-requests)"]


def test_log_probabilities_that_drift_are_no_other_text() -> None:
    numbers = iter([-0.5, -0.5, -0.5, -0.625] + [-0.5] * 90)
    with serving(lambda handler, body: handler.send(text_of("a b", next(numbers)))) as (url, _):
        alone, loaded = ask_endpoint(CompletionClient(url), ASKED, ["x"], Load(4, 2), [])
        assert (alone.verdict, alone.drift, loaded.verdict) == ("drift", 0.125, "identical")


def one_at_a_time(handler: Handler, body: dict[str, Any]) -> None:
    """Refuses every prompt but that of the test."""
    if body["prompt"] == "one two":
        handler.send(text_of("a b"))
    else:
        handler.send("busy", 429)


def test_a_round_without_company_is_no_load_and_errors_of_the_company_are_told() -> None:
    with serving(one_at_a_time) as (url, _):
        notes: list[str] = []
        alone, loaded = ask_endpoint(CompletionClient(url), ASKED, ["one two"], Load(3, 2), notes)
    assert (alone.verdict, alone.asked, loaded.verdict, loaded.asked) == ("identical", 3, "not_run", 0)
    errors = dict(loaded.errors)
    assert errors["it limits the rate: status 429 Too Many Requests: busy"] == 3 and not notes
    assert errors["no request beside it completed at the same time: this was no load"] == 3

    statuses = iter([429, 200] * 2)

    def waits(handler: Handler, body: dict[str, Any]) -> None:
        """A request beside it is answered only after it has waited."""
        status = 200 if body["prompt"] == "one two" else next(statuses)
        handler.send(text_of("a b"), status, Retry_After="0")

    with serving(waits) as (url, _):
        _, loaded = ask_endpoint(CompletionClient(url), ASKED, ["one two"], Load(2, 2), [])
    assert (loaded.verdict, loaded.asked) == ("not_run", 0) and loaded.waited == 2


def test_what_comes_alone_is_what_the_answers_under_load_are_compared_with() -> None:
    texts = iter(["a", "b", "a"] + ["b"] * 9)

    def other_text(handler: Handler, body: dict[str, Any]) -> None:
        handler.send(text_of(next(texts) if body["prompt"] == "one two" else "c"))

    with serving(other_text) as (url, _):
        alone, loaded = ask_endpoint(CompletionClient(url), ASKED, ["one two"], Load(3, 2), [])
    assert (alone.base, loaded.base, loaded.verdict, loaded.completions) == ("a", "a", "other text", (("b", 3),))


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("<html>busy</html>", "it sent no JSON: <html>busy</html>"),
        ("", "it sent no JSON: nothing"),
        ("[1]", "it sent no JSON object: [1]"),
        ('{"choices": []}', "it sent no completion: {"),
        ('{"choices": [{"text": 3}]}', "its choice has no text"),
        ('{"error": {"message": "no such model"}}', "it says: {"),
        (b"\xff\xfe\x00", "it sent bytes that are no text"),
        (
            '{"choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": ["x"]}}]}',
            "it sent no completion",
        ),
        ("[" * 200_000, "it sent no JSON: [[["),
        (text_of("a").replace("-0.5", "1" + "0" * 400), "it sent no completion"),
        (text_of("a", float("nan")), "one of its log-probabilities is nan"),
    ],
)
def test_an_answer_that_is_no_completion_is_one_line(answer: str | bytes, reason: str) -> None:
    found = complete(lambda handler, body: handler.send(answer))
    assert found.error.startswith(reason) and "\n" not in found.error and not found.text


def test_a_stream_is_put_together_and_garbage_in_it_is_named() -> None:
    def stream(handler: Handler, body: dict[str, Any]) -> None:
        assert body["stream"] is True
        events = [json.loads(text_of("a b")), json.loads(text_of("c d"))]
        events[0]["choices"][0]["finish_reason"] = None
        handler.send("".join(f"data: {json.dumps(each)}\n\n" for each in events) + "data: [DONE]\n\n")

    found = complete(stream, stream=True)
    assert (found.text, found.tokens, found.finish) == ("a bc d", ("a", "b", "c", "d"), "length")
    for sent, reason in (
        ("data: {oops\n\n", "it sent no JSON: {oops"),
        ("\x00\x01garbage\n", "its stream has a line that is no event: garbage"),
        ('data: {"choices": [{"text": "a"}]}\n\n', "its stream ended without an end: a"),
    ):
        assert complete(lambda handler, body, sent=sent: handler.send(sent), stream=True).error == reason


def test_lines_of_a_stream_end_where_its_protocol_says() -> None:
    event = json.dumps(json.loads(text_of("a\u2028b\u0085")), ensure_ascii=False)
    found = complete(lambda handler, body: handler.send(f"data: {event}\r\n\rdata: [DONE]\n"), stream=True)
    assert (found.text, found.error) == ("a\u2028b\u0085", "")


def test_a_key_is_sent_without_its_line_end_and_told_nobody() -> None:
    sent: list[str] = []

    def keeps(handler: Handler, body: dict[str, Any]) -> None:
        sent.append(handler.headers["Authorization"])
        handler.send(text_of("a"))

    with serving(keeps) as (url, _):
        assert CompletionClient(url, 5.0, "abc-1\n").complete(ASKED).text == "a"
    assert sent == ["Bearer abc-1"]
    with pytest.raises(MindgapError, match="its key has characters that no HTTP header holds") as raised:
        CompletionClient("http://localhost/v1", key="secret\nkey")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["http://[::1/v1", "http://localhost:99999/v1", "http://.a/v1", "http://localhost/ü", "http://local host/v1"]
)
def test_a_malformed_address_is_one_line(url: str) -> None:
    with pytest.raises(MindgapError, match="it is no address of a server") as raised:
        CompletionClient(url)
    assert str(raised.value).startswith(url)
    with pytest.raises(MindgapError, match="http://…@host/v1: leave out all but the host"):
        CompletionClient("http://:secret@host/v1")


def test_chat_is_asked_at_its_own_path() -> None:
    def chat(handler: Handler, body: dict[str, Any]) -> None:
        assert handler.path == "/v1/chat/completions" and body["messages"][0]["content"] == "one"
        content = [{"token": "hi", "logprob": -0.25}]
        choice = {"message": {"content": "hi"}, "logprobs": {"content": content}, "finish_reason": "stop"}
        handler.send(json.dumps({"choices": [choice]}))

    found = complete(chat, chat=True)
    assert (found.text, found.tokens, found.logprobs, found.finish) == ("hi", ("hi",), (-0.25,), "stop")


def test_a_server_that_limits_the_rate_is_asked_again_after_the_time_it_names() -> None:
    statuses = iter([429, 429, 200])

    def limited(handler: Handler, body: dict[str, Any]) -> None:
        status = next(statuses)
        handler.send(text_of("a") if status == 200 else "slow down", status, Retry_After="0.01")

    found = complete(limited)
    assert (found.text, found.waited, found.error) == ("a", 2, "")
    always = complete(lambda handler, body: handler.send("slow down", 429, Retry_After="0"))
    assert always.error == "it limits the rate: status 429 Too Many Requests: slow down after waiting"
    later = complete(lambda handler, body: handler.send("", 429, Retry_After="3600"))
    assert later.error == "it limits the rate: status 429 Too Many Requests" and later.waited == 0


@pytest.mark.parametrize("part", ["nothing", "header", "body", "chunk line", "error body"])
def test_a_server_that_hangs_or_drips_is_left_after_the_timeout(part: str) -> None:
    release = threading.Event()

    def drips(handler: Handler, body: dict[str, Any]) -> None:
        if part in ("nothing", "header"):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: " * (part == "header"))
        else:
            chunked = b"Transfer-Encoding: chunked\r\n" * (part == "chunk line")
            status = b"500 Broken" if part == "error body" else b"200 OK"
            handler.wfile.write(b"HTTP/1.1 " + status + b"\r\n" + chunked + b"\r\n")
        while not release.wait(0.03) and time.monotonic() - started < 4:
            handler.wfile.write(b"" if part == "nothing" else b"0" if part == "chunk line" else b" ")

    started = time.monotonic()
    found = complete(drips, timeout_s=0.15)
    release.set()
    assert found.error == ("status 500 Broken" if part == "error body" else "it did not answer in time (--timeout)")
    assert time.monotonic() - started < 3


def test_a_redirection_is_not_followed() -> None:
    found = complete(lambda handler, body: handler.send("", 302, Location="http://example.invalid/"))
    assert found.error == "status 302 Found"


def test_a_server_that_fails_three_times_in_a_row_is_asked_no_more() -> None:
    with serving(lambda handler, body: handler.send("broken", 500)) as (url, server):
        with pytest.raises(MindgapError, match="no request gave a completion: status 500 Internal Server Error: brok"):
            ask_endpoint(CompletionClient(url), ASKED, ["x"], Load(10, 4), [])
        assert server.count == 3


def test_other_prompts_differ_from_the_one_that_is_asked() -> None:
    found = beside(["a b c", "d"], 0, 4)
    assert len(found) == 4 and found[0] == "d" and "a b c" not in found and len({len(each) for each in found}) > 2
    assert all(beside([""], 0, 3))


def test_the_command_says_in_one_line_what_is_wrong(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    page, junit = tmp_path / "page.html", tmp_path / "junit.xml"
    with serving(depends_on_load) as (url, _):
        command = ["invariance", url, "--prompt", "one two", "--requests", "2", "--in-flight", "2"]
        assert main([*command, "--html", str(page), "--junit", str(junit), "--store", str(tmp_path / "store")]) == 1
        out = " ".join(capfd.readouterr().out.split())
        assert "one two alone identical completions 2, distinct 1 one two under load other text completions 2, " in out
        assert "distinct 1, parts at 4, drift 0.25 2 × 'a b c e'" in out
        assert 'failures="1"' in junit.read_text() and "other text" in page.read_text()
    from mindgap.results.store import Store

    stored = Store(tmp_path / "store").rows("SELECT label, verdict, numbers['parts at'] AS at FROM answers ORDER BY 1")
    assert stored == [
        {"label": "alone", "verdict": "identical", "at": 0.0},
        {"label": "under load", "verdict": "other text", "at": 4.0},
    ]
    for wrong, reason in (
        ([url, "--prompt", "x"], f"mindgap: {url}: no server answers: the connection failed: "),
        ([url], f"mindgap: {url}: give a prompt, as in --prompt 'Once upon a time'"),
        (["http:///v1", "--prompt", "x"], "mindgap: http:///v1: it is no address of a server"),
        ([url, "-p", "cpu/eager"], "mindgap: -p cpu/eager: a server is a platform itself: leave out -p"),
        ([url, "--prompt", "x", "--timeout", "0"], "mindgap: --timeout 0: it takes seconds, more than 0"),
        ([url, "--prompt", "x", "--key-variable", "NOT_THERE"], "mindgap: --key-variable NOT_THERE: no such"),
        (["timm:resnet18"], "mindgap: timm:resnet18: name a platform, as in -p cpu/eager"),
        (
            [url, "--prompt", "x", "--batches", "1,2,3,4,8,16", "--deadline", "300", "--set", "size=8"],
            f"mindgap: --batches, --set, --deadline: a server takes none of these options of models: {url}",
        ),
        (
            ["timm:resnet18", "-p", "cpu/eager", "--prompt", "x", "--chat", "--timeout", "60"],
            "mindgap: --prompt, --chat, --timeout: only a server (http://HOST:PORT/v1) takes such options, not a model",
        ),
    ):
        assert main(["invariance", *wrong]) == 2
        err = capfd.readouterr().err
        assert err.startswith(reason) and err.count("\n") == 1, err
