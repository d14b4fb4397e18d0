"""An endpoint on this machine that is asked over HTTP."""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.models.spot_check import other_answers
from model_files import Endpoint, endpoint, endpoint_scores
from networks import images

X = images(1)[0]


@pytest.fixture
def server() -> Iterator[Endpoint]:
    with endpoint() as found:
        yield found


def smoothed(server: Endpoint, store: Path, **options: Any) -> hf.SmoothedClassifier:
    options = {"say": lambda _: None, **options}
    return hf.SmoothedClassifier(hf.HttpModel(server.url, store=store, **options), 0.25)


def test_an_endpoint_has_the_certificate_of_its_function_and_nothing_is_asked_twice(
    server: Endpoint, tmp_path: Path
) -> None:
    meant = hf.SmoothedClassifier(endpoint_scores, 0.25, outputs="probabilities").certify(X, n=300, seed=1)
    found = smoothed(server, tmp_path / "a").certify(X, n=300, seed=1)
    assert found.evidence.votes == meant.evidence.votes
    assert abs(np.cumsum(found.evidence["score"].counts - meant.evidence["score"].counts)).max() <= 1
    asked = server.requests
    # Rows are asked alone, too, before they are asked in company: that is how dependent rows are noticed. And one is asked again
    # in each request: that is how another classifier is noticed.
    assert len(server.rows) <= len(set(server.rows)) + 8 + server.requests
    again = smoothed(server, tmp_path / "a").certify(X, n=300, seed=1)
    assert again == found
    assert server.requests == asked
    smoothed(server, tmp_path / "a").certify(X, n=400, seed=1)
    assert server.requests > asked
    before = server.requests
    smoothed(server, tmp_path / "a", version="2").certify(X, n=300, seed=1)
    assert server.requests > before


def test_a_busy_endpoint_is_asked_again_and_one_that_refuses_is_not(
    server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    server.failures = [503, 429, 500]
    smoothed(server, tmp_path / "a").certify(X, n=100, seed=1)
    waited = [wait for wait in waits if wait > 0]
    assert len(waited) == 3
    assert all(0.5 * 2**k <= wait <= 2**k for k, wait in enumerate(waited))
    server.failures, before = [503] * 10, server.requests
    with pytest.raises(
        hf.ModelError, match=r"did not answer, 3 times \(HTTP 503: busy\); .* answers are kept in .*a: the same command"
    ):
        smoothed(server, tmp_path / "a", retries=2).certify(X, n=200, seed=1)
    assert server.requests == before + 3
    server.failures, before = [401], server.requests
    with pytest.raises(hf.ModelError, match=r"refused a request \(HTTP 401: busy\); check the URL, the headers"):
        smoothed(server, tmp_path / "a").certify(X, n=200, seed=1)
    assert server.requests == before + 1


@pytest.mark.parametrize(("connections", "kept"), [(1, 8), (2, 16)])
def test_what_was_answered_before_a_failure_or_beside_it_is_kept(
    connections: int, kept: int, server: Endpoint, tmp_path: Path
) -> None:
    rows = images(24).astype(np.float32)
    model = hf.HttpModel(server.url, store=tmp_path / "a", rows_at_once=8, retries=0, connections=connections)
    torch_rows = hf.HttpModel(server.url, store=tmp_path / "b", rows_at_once=8).validate  # another store
    server.failures = []
    model.probabilities(torch.from_numpy(rows[:8]))
    server.failures = [503]
    with pytest.raises(hf.ModelError, match=f" {kept} answers are kept"):
        model.probabilities(torch.from_numpy(rows))
    answered = list(server.rows)
    model.probabilities(torch.from_numpy(rows))
    asked = server.rows[len(answered) :]
    assert len(set(asked) - set(answered)) == 24 - kept
    # One row that was answered may be asked with each of the requests.
    assert len(asked) <= 24 - kept + 2
    assert torch_rows(torch.from_numpy(rows[:8])).shape == (8, 4)


def test_the_cost_is_said_first_and_more_than_is_allowed_is_refused_before_any_request(
    server: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = smoothed(server, tmp_path / "a", per_second=1_000, most_requests=21, say=None)
    with pytest.raises(
        hf.InvalidArgument, match=r"10,100 noisy copies may take 164 requests .* more than most_requests=21"
    ):
        model.certify(X, n=10_000)
    with pytest.raises(hf.InvalidArgument, match="may take"):
        model.decide(X, at_least=0.5, radius=0.1, n_max=10_000)
    assert server.requests == 0
    model.certify(X, n=1_000, seed=1)
    said = capsys.readouterr().err
    assert "up to 1,100 noisy copies for 127.0.0.1:" in said
    assert ": about 21 requests, 0 s at least; 0 answers are known in" in said
    assert server.requests == 21


def test_a_few_requests_are_under_way_at_a_time_and_the_batches_of_sampling_are_made_for_them(
    server: Endpoint, tmp_path: Path
) -> None:
    honest, now, most = server.answer, [0], [0]

    def slow(body: bytes) -> tuple[int, bytes]:
        now[0] += 1
        most[0] = max(most[0], now[0])
        time.sleep(0.05)
        now[0] -= 1
        return honest(body)

    server.answer = slow  # type: ignore[method-assign]
    found = smoothed(server, tmp_path / "a", rows_at_once=16, connections=3)
    assert found.model.rows == 3 * 15 + 1
    found.certify(X, n=440, n0=10, seed=1)
    assert most[0] == 3
    # Two that look at the model, and full ones: 45 copies and the probe's row are three requests.
    assert server.requests <= 1 + 3 * 2 + 450 // 15
    smoothed(server, tmp_path / "b", rows_at_once=16, connections=1).certify(X, n=100, seed=1)
    assert most[0] == 3


def test_the_rate_is_kept(server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    monkeypatch.setattr("time.sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    model = hf.HttpModel(server.url, store=tmp_path / "a", rows_at_once=8, per_second=4)
    model.probabilities(torch.from_numpy(images(80)))
    assert server.requests == 10
    assert clock[0] == pytest.approx(100 + 9 / 4)


def test_answers_that_are_no_scores_and_other_protocols(server: Endpoint, tmp_path: Path) -> None:
    server.body = b'{"outputs": 3}'
    with pytest.raises(
        hf.ModelError, match=r"from which no scores could be taken \(KeyError: 'predictions'\); expected"
    ):
        smoothed(server, tmp_path / "a").certify(X, n=100)
    server.body = b'{"predictions": [[0.5, 0.5]]}'
    with pytest.raises(hf.ModelError, match=r"answered 8 rows with scores of shape \(1, 2\)"):
        smoothed(server, tmp_path / "a").certify(X, n=100)
    server.body = None
    with pytest.raises(hf.ModelError, match="they are probabilities, not logits"):
        smoothed(server, tmp_path / "b", outputs="logits").certify(X, n=100)

    def ask(rows: Any) -> Any:
        return {"instances": rows.tolist(), "model": "net"}

    other = smoothed(server, tmp_path / "c", ask=ask, answer=lambda said: said["predictions"], headers={"X-Key": "k"})
    assert other.certify(X, n=100, seed=1).n == 100


def test_rows_that_depend_on_their_company_are_noticed(server: Endpoint, tmp_path: Path) -> None:
    honest = server.answer
    count = [0]

    def mixing(body: bytes) -> tuple[int, bytes]:
        status, said = honest(body)
        scores = np.array(json.loads(said)["predictions"]) ** (1 + (len(json.loads(body)["instances"]) > 8))
        count[0] += 1
        return status, json.dumps({"predictions": (scores / scores.sum(1, keepdims=True)).tolist()}).encode()

    server.answer = mixing  # type: ignore[method-assign]
    with pytest.raises(hf.ModelError, match="changes with the other rows of the batch"):
        smoothed(server, tmp_path / "a").certify(X, n=300, seed=1)


@pytest.mark.parametrize("same_input", [True, False])
def test_another_classifier_at_the_same_url_is_noticed(server: Endpoint, tmp_path: Path, same_input: bool) -> None:
    honest, requests = server.answer, [0]

    def replaced(body: bytes) -> tuple[int, bytes]:
        status, said = honest(body)
        requests[0] += 1
        if not same_input and requests[0] < 5:  # in the middle of a certificate
            return status, said
        scores = np.array(json.loads(said)["predictions"])[:, ::-1]
        return status, json.dumps({"predictions": scores.tolist()}).encode()

    if same_input:
        smoothed(server, tmp_path / "a").certify(X, n=300)
    server.answer = replaced  # type: ignore[method-assign]
    with pytest.raises(hf.ModelError, match=r"answers a row otherwise than when it was first asked .* another version"):
        smoothed(server, tmp_path / "a").certify(X, n=600)


def test_a_spot_check_asks_the_endpoint_and_not_what_was_kept(server: Endpoint, tmp_path: Path) -> None:
    settings = hf.Settings(n=200, n0=20)
    mine = smoothed(server, tmp_path / "a", version="1")
    run = hf.certify_run(mine, images(2), np.array([0, 1]), out=tmp_path / "run", settings=settings, seed=1)
    assert run.spot_check is not None
    asked = server.requests
    assert other_answers(mine.model, run.spot_check) == ""
    assert server.requests == asked + 1
    honest = server.answer

    def replaced(body: bytes) -> tuple[int, bytes]:
        status, said = honest(body)
        return status, json.dumps({"predictions": np.array(json.loads(said)["predictions"])[:, ::-1].tolist()}).encode()

    server.answer = replaced  # type: ignore[method-assign]
    for model in (mine.model, hf.Scaled(mine.model, 1.0)):
        assert "class scores are off" in other_answers(model, run.spot_check)


def test_answers_to_requests_of_another_form_are_not_taken_for_one_another(server: Endpoint, tmp_path: Path) -> None:
    honest = server.answer

    def two(body: bytes) -> tuple[int, bytes]:
        status, said = honest(body)
        scores = np.array(json.loads(said)["predictions"])
        which = json.loads(body)["model"]
        return status, json.dumps({"predictions": scores[:, :: 1 if which == "a" else -1].tolist()}).encode()

    server.answer = two  # type: ignore[method-assign]
    found = [
        smoothed(server, tmp_path / "one", ask=lambda rows, which=which: {"instances": rows.tolist(), "model": which})
        .certify(X, n=200, seed=1)
        .predicted
        for which in "ab"
    ]
    assert found[0] == 3 - found[1]


def test_another_answer_function_makes_other_scores_of_the_replies_that_are_kept(
    server: Endpoint, tmp_path: Path
) -> None:
    def reversed_scores(said: Any) -> Any:
        return [row[::-1] for row in said["predictions"]]

    found = smoothed(server, tmp_path / "one").certify(X, n=200, seed=1)
    asked = server.requests
    other = smoothed(server, tmp_path / "one", answer=reversed_scores).certify(X, n=200, seed=1)
    assert other.predicted == 3 - found.predicted
    assert server.requests == asked
    with pytest.raises(hf.ModelError, match="answered 8 rows with scores of shape"):
        smoothed(server, tmp_path / "one", answer=lambda said: said["predictions"][1:]).certify(X, n=200, seed=1)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DELETE FROM replies", "it is missing"),
        ("UPDATE replies SET body = NULL", "NoneType"),
        ("UPDATE replies SET body = substr(body, 1, 20)", "no scores could be taken"),
        ("UPDATE replies SET rows = 3", "answered 3 rows with scores of shape"),
        ("UPDATE places SET place = 99", "out of bounds"),
    ],
)
def test_replies_that_are_missing_or_damaged_are_not_blamed_on_the_endpoint(
    server: Endpoint, tmp_path: Path, damage: str, words: str
) -> None:
    smoothed(server, tmp_path / "one").certify(X, n=200, seed=1)
    with sqlite3.connect(tmp_path / "one") as base:
        base.execute(damage)
    base.close()
    asked = server.requests
    with pytest.raises(
        hf.ModelError, match=rf"a reply that is kept in .*one cannot be used \(.*{words}.* delete this file"
    ):
        smoothed(server, tmp_path / "one").certify(X, n=200, seed=1)
    assert server.requests == asked


def test_a_store_whose_pages_are_damaged_is_named_before_anything_is_asked(server: Endpoint, tmp_path: Path) -> None:
    smoothed(server, tmp_path / "one").certify(X, n=200, seed=1)
    with sqlite3.connect(tmp_path / "one") as base:
        base.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    base.close()
    content, asked = (tmp_path / "one").read_bytes(), server.requests
    (tmp_path / "one").write_bytes(content[:4096] + b"\0" * (len(content) - 4096))
    with pytest.raises(hf.ModelError, match=r"answers cannot be kept in .*one \(database disk image is malformed\)"):
        smoothed(server, tmp_path / "one").certify(X, n=200, seed=1)
    assert server.requests == asked


@pytest.mark.parametrize(
    ("header", "again"),
    [("X-Model", True), ("X-Routing-Key", True), ("Authorization", False), ("X-API-Key", False), ("cookie", False)],
)
def test_headers_that_may_choose_the_classifier_are_asked_for_again(
    server: Endpoint, tmp_path: Path, header: str, again: bool
) -> None:
    kept = [smoothed(server, tmp_path / "one", version="1", headers={header: value}) for value in "ab"]
    kept[0].certify(X, n=200, seed=1)
    asked = server.requests
    kept[1].certify(X, n=200, seed=1)
    assert (server.requests > asked) == again
    assert (kept[0].fingerprint != kept[1].fingerprint) == again


def test_a_version_that_reads_like_a_header_is_none(server: Endpoint, tmp_path: Path) -> None:
    one = smoothed(server, tmp_path / "one", version="1", headers={"X-Model": "b"})
    other = smoothed(server, tmp_path / "one", version="1\nX-Model: b")
    one.certify(X, n=200, seed=1)
    asked = server.requests
    other.certify(X, n=200, seed=1)
    assert server.requests > asked
    assert one.fingerprint != other.fingerprint


def test_a_function_that_writes_to_its_last_answer_again_changes_no_other(server: Endpoint, tmp_path: Path) -> None:
    scores = np.empty((64, 4))

    def reusing(said: Any) -> Any:
        found = scores[: len(said["predictions"])]
        found[:] = said["predictions"]
        return found

    meant = smoothed(server, tmp_path / "a").certify(X, n=400, seed=1)
    for _ in range(2):  # asked, and from what is kept
        assert smoothed(server, tmp_path / "b", answer=reusing).certify(X, n=400, seed=1) == meant


def test_answers_to_other_questions_about_the_same_rows_are_not_taken_for_one_another(
    server: Endpoint, tmp_path: Path
) -> None:
    def asking(scale: float) -> Any:
        model = smoothed(server, tmp_path / "one", ask=lambda rows: {"instances": (rows * scale).tolist()})
        return model.certify(X, n=200, seed=1).evidence

    found = asking(1.0)
    assert asking(3.0) != found  # of zeros both ask the same
    asked = server.requests
    assert asking(1.0) == found
    assert server.requests == asked


def test_no_more_requests_are_sent_than_are_allowed_and_what_was_answered_is_kept(
    server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Large inputs need more requests than is foreseen.
    monkeypatch.setattr("holdfast.models.http._VALIDATION_REQUESTS", -10)
    for _ in range(2):
        with pytest.raises(
            hf.ModelError, match=r"was sent most_requests=10 requests .* allow more; .* answers are kept in"
        ):
            smoothed(server, tmp_path / "a", most_requests=10).certify(X, n=1_000, seed=1)
    assert server.requests == 20
    assert smoothed(server, tmp_path / "a", most_requests=10).certify(X, n=1_000, seed=1).n == 1_000
    assert server.requests <= 23


@pytest.mark.parametrize("connections", [1, 4])
def test_repetitions_are_requests_too(
    connections: int, server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    server.failures = [503] * 100
    model = smoothed(server, tmp_path / "a", most_requests=21, retries=50, connections=connections)
    with pytest.raises(
        hf.ModelError, match=r"was sent most_requests=21 requests about one question, repetitions included"
    ):
        model.certify(X, n=1_000, seed=1)
    assert server.requests == 21
    server.failures = [503] * 3
    with pytest.raises(
        hf.ModelError, match=r"repetitions included; allow more; 1,0\d\d answers are kept in .* goes on from there"
    ):
        model.certify(X, n=1_000, seed=1)
    assert server.requests == 42
    # Each question may take as many; so may a spot check.
    assert model.certify(X, n=1_000, seed=1).n == 1_000
    assert model.model.anew(torch.from_numpy(images(8))).shape == (8, 4)


@pytest.mark.parametrize("broken", [b'{"predictions": %s}' % json.dumps([[0.0] * 4] * 8).encode(), b"NaN", b"first"])
def test_an_endpoint_that_was_broken_at_first_is_asked_again(server: Endpoint, tmp_path: Path, broken: bytes) -> None:
    if broken == b"NaN":
        broken = json.dumps({"predictions": [[float("nan")] * 4] * 8}).encode()
    server.body = broken if broken != b"first" else json.dumps({"predictions": [[1.0]] * 8}).encode()
    with pytest.raises(hf.ModelError):
        smoothed(server, tmp_path / "a").certify(X, n=200, seed=1)
    server.body = None
    assert smoothed(server, tmp_path / "a").certify(X, n=200, seed=1).n == 200


def test_an_answer_has_a_deadline_and_a_largest_size(
    server: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.models.endpoint._LARGEST", 1_000)
    server.body = b" " * 2_000
    with pytest.raises(hf.ModelError, match="an answer of more than 1,000 bytes"):
        smoothed(server, tmp_path / "a", retries=0).certify(X, n=100)
    monkeypatch.undo()
    ticks = iter(range(0, 10_000, 5))
    monkeypatch.setattr("time.monotonic", lambda: float(next(ticks)))
    with pytest.raises(hf.ModelError, match="takes more than timeout=1 seconds"):
        smoothed(server, tmp_path / "a", retries=0, timeout=1).certify(X, n=100)


def test_an_interrupted_script_does_not_wait_for_an_endpoint_that_hangs(tmp_path: Path) -> None:
    script = """
import http.server, os, signal, threading, time
import numpy as np
import holdfast as hf

class Hanging(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        time.sleep(60)

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hanging)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
model = hf.HttpModel(f"http://127.0.0.1:{server.server_port}/x", store="a", say=lambda _: None)
hf.SmoothedClassifier(model, 0.25).certify(np.zeros(3, dtype=np.float32), n=100)
"""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=50)
    assert "KeyboardInterrupt" in done.stderr
    assert time.monotonic() - began < 40


def test_a_device_for_an_endpoint_is_refused_before_a_store_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.models.http.AnswerStore", None)
    for device in ("cuda", "tpu"):
        with pytest.raises(hf.InvalidArgument, match="device, precision and compile are for torch modules"):
            hf.SmoothedClassifier("http://host/x", 0.25, device=device)


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([("a", "b")], "headers must map names to texts, got list"),
        ({1: "b"}, "headers must have names such as X-API-Key, got 1"),
        ({b"a": b"b"}, "headers must have names"),
        ({"a\n": "b"}, "headers must have names"),
        ({"": "b"}, "headers must have names"),
        *[
            ({"a": text}, "the header a must be one line of printable ASCII")
            for text in (1, "ü", "key\n", "k\r\nb: c", "\0", " k")
        ],
    ],
)
def test_headers_that_no_request_could_be_sent_with_are_refused_and_not_repeated(
    headers: Any, words: str, tmp_path: Path
) -> None:
    with pytest.raises(hf.InvalidArgument, match=words) as refused:
        hf.HttpModel("http://host/x", store=tmp_path / "a", headers=headers)
    assert "key" not in str(refused.value)


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTP_PROXY", "strange://host")
    with pytest.raises(
        hf.InvalidArgument, match=r"the proxy that the environment names cannot be used .* change HTTP_PROXY"
    ):
        hf.HttpModel("http://host/x", store=tmp_path / "a")


def test_wrong_arguments_and_a_store_that_is_none_are_refused(tmp_path: Path) -> None:
    wrong: tuple[tuple[Callable[[], object], str], ...] = (
        (lambda: hf.HttpModel("ftp://host/x"), "expected the URL of an endpoint"),
        (lambda: hf.HttpModel("http://host:abc/x"), "expected the URL of an endpoint"),
        (lambda: hf.HttpModel("http://[bad"), "expected the URL of an endpoint"),
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", per_second="5"), "per_second"),  # type: ignore[arg-type]
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", per_second=True), "per_second"),
        (lambda: hf.HttpModel("http://host/x", store=123), "store must be a path"),  # type: ignore[arg-type]
        (lambda: hf.HttpModel("http://host/x", store=""), "store must be a path"),
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", version=1), "version must be a text, such as"),  # type: ignore[arg-type]
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", ask=3), "ask must be a function, got 3"),  # type: ignore[arg-type]
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", answer=0), "answer must be a function, got 0"),  # type: ignore[arg-type]
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", say="no"), "say must be a function, got 'no'"),  # type: ignore[arg-type]
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", rows_at_once=2), "rows_at_once"),
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", per_second=0), "per_second"),
        (lambda: hf.HttpModel("http://host/x", store=tmp_path / "a", outputs="scores"), "outputs must be"),
    )
    unsaid = hf.HttpModel("http://127.0.0.1:9/x", store=tmp_path / "a", ask=lambda _: object(), say=lambda _: None)
    with pytest.raises(hf.ModelError, match=r"ask must return what JSON can say.*object is not JSON serializable"):
        hf.SmoothedClassifier(unsaid, 0.25).certify(X, n=100)
    for make, words in wrong:
        with pytest.raises(hf.InvalidArgument, match=words):
            make()
    (tmp_path / "text").write_text("this is no database, and it is long enough to be noticed as none" * 20)
    with pytest.raises(hf.ModelError, match="answers cannot be kept in"):
        hf.HttpModel("http://host/x", store=tmp_path / "text")
    plain = hf.HttpModel("http://host/x", store=tmp_path / "b")
    named = [
        hf.HttpModel("http://host/x", store=tmp_path / "b", version="1"),
        hf.HttpModel("http://host/x#1", store=tmp_path / "b"),
    ]
    assert plain.fingerprint() is None
    assert len({each.fingerprint() for each in named}) == 1
    assert named[0].fingerprint() is not None
