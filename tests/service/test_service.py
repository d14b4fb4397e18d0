"""The service: the library's own certificates, over HTTP, for many callers at once, none of whom can disturb another."""

import io
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import holdfast as hf
from holdfast.errors import InvalidArgument
from holdfast.service.callers import Keys
from holdfast.service.limits import Limits
from holdfast.service.refusals import Refusal
from holdfast.service.server import check_address
from holdfast.service.service import Served
from networks import images, small_net
from serving import NPY, SHAPE, SIGMA, Running, npy, running, small_served

KEY = "a-key-that-nobody-guesses"


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with running(limits=Limits(copies=50_000)) as found:
        yield found


def from_python() -> hf.SmoothedClassifier:
    return small_served().smoothed


def count(found: Running, name: str) -> float:
    """One of its metrics."""
    lines = found.client.get("/v1/metrics").text.splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def certificate(response: httpx.Response) -> hf.Certificate:
    assert response.status_code == 200, response.text
    return hf.Certificate.from_dict(response.json())


def test_a_certificate_is_the_librarys_own(served: Running) -> None:
    x = images(1)[0]
    found = certificate(
        served.certify(x, "n=2345&n0=50&alpha=0.01&sides=both&claims=score&claims=label&seed=0x5&index=3")
    )
    expected = from_python().certify(
        x, n=2_345, n0=50, alpha=0.01, sides="both", claims=("score", "label"), seed=5, index=3
    )
    assert found == expected


def test_the_same_input_as_json_png_and_array_has_the_same_certificate(served: Running) -> None:
    bytes_ = np.random.default_rng(3).integers(0, 256, (6, 6), dtype=np.uint8)
    x = (bytes_.astype(np.float32) / np.float32(255.0))[None]
    target = io.BytesIO()
    Image.fromarray(bytes_).save(target, "PNG")
    bodies = {
        "image/png": target.getvalue(),
        NPY: npy(x),
        "application/json": json.dumps({"input": x.tolist()}).encode(),
        "application/x-npy; of=doubles": npy(x.astype(np.float64)),
    }
    expected = from_python().certify(x, n=300, seed=5)
    for kind, body in bodies.items():
        response = served.client.post("/v1/certify?n=300&seed=5", content=body, headers={"Content-Type": kind})
        assert certificate(response) == expected, kind


def test_a_jpeg_is_read_as_pillow_reads_it(served: Running) -> None:
    target = io.BytesIO()
    Image.fromarray(np.random.default_rng(3).integers(0, 256, (6, 6), dtype=np.uint8)).save(target, "JPEG")
    pixels = np.asarray(Image.open(io.BytesIO(target.getvalue())), dtype=np.float32) / np.float32(255.0)
    response = served.client.post(
        "/v1/certify?n=300&seed=5", content=target.getvalue(), headers={"Content-Type": "image/jpeg"}
    )
    assert certificate(response) == from_python().certify(pixels[None], n=300, seed=5)


def test_a_decision_is_the_librarys_own(served: Running) -> None:
    x = images(1)[0]
    for at_least, measure in ((0.2, "score"), (0.9, "score"), (-0.5, "margin")):
        found = served.decide(x, f"at_least={at_least}&radius=0.05&measure={measure}&n_max=5000&seed=7").json()
        expected = from_python().decide(x, at_least=at_least, radius=0.05, measure=measure, n_max=5_000, seed=7)
        assert (found["certified"], found["samples"], found["reason"], found["predicted"]) == (
            expected.certified,
            expected.samples,
            expected.reason,
            expected.predicted,
        )


def test_callers_with_different_secrets_share_batches_and_get_what_each_would_get_alone(served: Running) -> None:
    xs = images(12)
    before = count(served, "holdfast_shared_rounds_total")

    def ask(k: int) -> hf.Certificate:
        return certificate(served.certify(xs[k], f"n={1_000 + 300 * (k % 5)}&seed={k % 7}&index={k % 3}"))

    with ThreadPoolExecutor(12) as pool:
        found = list(pool.map(ask, range(12)))
    assert count(served, "holdfast_shared_rounds_total") > before
    smoothed = from_python()
    for k, each in enumerate(found):
        assert each == smoothed.certify(xs[k], n=1_000 + 300 * (k % 5), seed=k % 7, index=k % 3)


def test_a_decision_says_who_chose_its_seed_and_all_that_a_replay_needs(served: Running) -> None:
    x = images(1)[0]
    question = "at_least=-0.5&radius=0.05&measure=margin&n_max=5000&n0=70"
    assert served.decide(x, question).json()["seeded_by"] == "service"
    found = served.decide(x, f"{question}&seed=7&index=3").json()
    assert found["seeded_by"] == "caller"
    assert (found["measure"], found["index"], found["n0"], found["sigma"]) == ("margin", 3, 70, 0.3)


def test_who_chose_the_seed_is_not_lost_when_a_certificate_is_read(served: Running) -> None:
    document = served.certify(images(1)[0], "n=300&seed=5").json()
    assert served.client.post("/v1/read", json=document).json()["seeded_by"] == "caller"
    assert served.client.post("/v1/read", json={**document, "seeded_by": "service"}).json()["seeded_by"] == "service"
    others: list[object] = ["nobody", 1, None, ["service"], {}]
    for bad in others:
        assert served.client.post("/v1/read", json={**document, "seeded_by": bad}).status_code == 422
    del document["seeded_by"]
    assert served.client.post("/v1/read", json=document).json()["seeded_by"] is None


def test_a_class_has_its_name_wherever_it_has_a_number() -> None:
    names = tuple(f"class-{k}" for k in range(5))
    with running(Served(hf.SmoothedClassifier(small_net(), SIGMA, inputs="images"), SHAPE, labels=names)) as found:
        x = images(1)[0]
        document = found.certify(x, "n=300&seed=5").json()
        assert document["label"] == names[document["predicted"]]
        assert hf.Certificate.from_dict(document).predicted == document["predicted"]
        decided = found.decide(x, "at_least=0.2&radius=0.05&seed=5").json()
        assert decided["label"] == names[decided["predicted"]]
        for event in stream(found, "/v1/certify/stream?n=600&seed=5", npy(x)):
            if event["event"] == "chosen":
                assert event["label"] == names[int(str(event["predicted"]))]


def test_bounds_at_the_radii_that_were_asked_for_are_those_of_the_certificate(served: Running) -> None:
    document = served.certify(images(1)[0], "n=2000&sides=both&radii=0.05&radii=0.1&radii=0").json()
    cert = hf.Certificate.from_dict(document)
    at = document["bounds"]["radii"]
    assert at == [0.05, 0.1, 0.0]
    for name in ("score", "margin"):
        assert document["bounds"][name]["lower"] == cert.curve(name).lower(np.array(at)).tolist()
        assert document["bounds"][name]["upper"] == cert.curve(name).upper(np.array(at)).tolist()
    assert "bounds" not in served.certify(images(1)[0], "n=2000").json()
    assert served.certify(images(1)[0], "n=2000&radii=-1").status_code == 422


def test_an_operator_may_refuse_seeds() -> None:
    with running(limits=Limits(replays=False)) as found:
        refused = found.certify(images(1)[0], "n=300&seed=5")
        assert refused.status_code == 403
        assert "no replays" in refused.json()["error"]
        assert found.certify(images(1)[0], "n=300").status_code == 200


def stream(found: Running, path: str, body: bytes) -> Iterator[dict[str, object]]:
    with found.client.stream("POST", path, content=body, headers={"Content-Type": NPY}) as response:
        assert response.status_code == 200
        for line in response.iter_lines():
            yield json.loads(line)


def test_a_stream_ends_with_a_certificate_that_spent_its_share(served: Running) -> None:
    x = images(1)[0]
    events = list(stream(served, "/v1/certify/stream?n=6000&alpha=0.01&claims=score&sides=both&seed=5", npy(x)))
    kinds = [each["event"] for each in events]
    assert kinds[0] == "accepted"
    assert {"chosen", "copies", "progress"} <= set(kinds)
    assert kinds[-1] == "done"
    found = hf.Certificate.from_dict(events[-1]["certificate"])  # type: ignore[arg-type]
    assert (found.n, found.alpha, found.share) == (6_000, 0.01, 0.5)
    alone = from_python().certify(x, n=6_000, alpha=0.005, claims=("score",), sides="both", seed=5)
    radii = np.linspace(0, 1.2, 401)
    assert np.array_equal(found.score.lower(radii), alone.score.lower(radii))
    view: Any = events[-1]["view"]
    assert view["sure"] == "99%"
    score, margin = view["measures"]
    assert score["curve"]["lower"] == found.score.lower(np.array(view["radii"])).tolist()
    assert margin["curve"] is None
    assert sum(margin["histogram"]) == 6_000
    for each in events:
        if each["event"] == "progress":
            assert each["kind"] == "estimate, not a certificate"


def test_looks_are_certificates_of_the_first_copies() -> None:
    """A slow network, so that the stream keeps pace with the device and every look is seen."""
    with running(small_served(Slow(small_net()))) as found:
        x = images(1)[0]
        events = stream(found, "/v1/certify/stream?n=3000&claims=score&seed=5", npy(x))
        seen = [each for each in events if each["event"] == "look"]
        assert seen
        for each in seen:
            n, share = each["n"], each["share"]
            assert isinstance(n, int)
            assert isinstance(share, float)
            alone = from_python().certify(x, n=n, alpha=1e-3 * share, claims=("score",), seed=5)
            measures: Any = each["measures"]
            assert measures[0]["curve"]["lower"] == alone.score.lower(np.array(each["radii"])).tolist()


class Slow(nn.Module):
    """A network that takes its time."""

    def __init__(self, net: nn.Module, seconds: float = 0.004) -> None:
        super().__init__()
        self.net = net
        self.seconds = seconds

    def forward(self, x: Tensor) -> Tensor:
        PASSES.append(len(x))
        time.sleep(self.seconds)
        answer: Tensor = self.net(x)
        return answer


PASSES: list[int] = []
"""Rows of each forward pass of any slow network, whichever replica ran it."""


def rests() -> bool:
    """Whether slow networks are left alone before long, but for the batches they are at."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        passes = len(PASSES)
        time.sleep(0.3)
        if passes == len(PASSES):
            return True
    return False


def test_stopping_frees_the_device_and_keeps_the_last_look() -> None:
    with running(small_served(Slow(small_net()))) as found:
        events = stream(found, "/v1/certify/stream?n=1000000&claims=score&seed=5", npy(images(1)[0]))
        identity = next(events)["id"]
        seen = []
        for each in events:
            seen.append(each)
            if each["event"] == "look":
                assert found.client.delete(f"/v1/requests/{identity}").json() == {"status": "stopped"}
                break
        seen += list(events)
        assert seen[-1]["event"] == "stopped"
        kept = hf.Certificate.from_dict(seen[-1]["certificate"])  # type: ignore[arg-type]
        assert kept.n < 1_000_000
        assert kept.share < 0.5
        assert found.idle()
        assert rests()
        assert found.client.delete(f"/v1/requests/{identity}").status_code == 404


@pytest.mark.parametrize("path", ["/v1/certify?n=1000000", "/v1/certify/stream?n=1000000"])
def test_a_caller_who_goes_away_frees_the_device(path: str) -> None:
    with running(small_served(Slow(small_net()))) as found:
        host, port = found.url.removeprefix("http://").split(":")
        body = npy(images(1)[0])
        with socket.create_connection((host, int(port))) as line:
            head = (
                f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {NPY}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            line.sendall(head.encode() + body)
            until = time.monotonic() + 10
            while not count(found, "holdfast_copies_total") and time.monotonic() < until:
                time.sleep(0.01)
        assert found.idle()
        assert rests()


def test_a_full_queue_refuses_at_once_and_says_when_to_come_back() -> None:
    with running(small_served(Slow(small_net())), limits=Limits(queue=4)) as found:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: found.certify(images(1)[0], "n=8000"), range(8)))
        statuses = sorted(each.status_code for each in answers)
        assert set(statuses) == {200, 429}
        assert statuses.count(200) >= 2
        for each in answers:
            if each.status_code == 429:
                assert int(each.headers["Retry-After"]) == 1
        assert found.idle()
        assert found.certify(images(1)[0], "n=300").status_code == 200


def test_a_request_that_takes_too_long_is_ended() -> None:
    with running(small_served(Slow(small_net())), limits=Limits(seconds=0.4)) as found:
        refused = found.certify(images(1)[0], "n=1000000")
        assert refused.status_code == 503
        assert "0.4 s" in refused.json()["error"]
        last = list(stream(found, "/v1/certify/stream?n=1000000", npy(images(1)[0])))[-1]
        assert last["event"] == "stopped"
        assert "0.4 s" in str(last["error"])
        assert found.idle()


def test_a_body_that_trickles_in_is_given_up() -> None:
    def trickle() -> Iterator[bytes]:
        yield b"\x93NUMPY"
        time.sleep(0.6)
        yield b"\x01"

    with running(limits=Limits(upload_seconds=0.2)) as found:
        response = found.client.post("/v1/certify", content=trickle(), headers={"Content-Type": NPY})
        assert response.status_code == 408


def test_inputs_are_what_the_classifier_takes_them_for(served: Running) -> None:
    """Features go beyond the range of an image; the document and the answers both follow the classifier."""

    def numbers(found: Running) -> dict[str, object]:
        schema = found.client.get("/openapi.json").json()["paths"]["/v1/certify"]["post"]["requestBody"]["content"]
        inner = schema["application/json"]["schema"]["properties"]["input"]
        while "items" in inner:
            inner = inner["items"]
        return dict(inner)

    x = images(1)[0] + np.float32(7)
    assert served.certify(x, "n=300").status_code == 422
    assert numbers(served) == {"type": "number", "minimum": -0.5, "maximum": 1.5}
    features = hf.SmoothedClassifier(small_net(), SIGMA, inputs="any", compile=False)
    with running(Served(features, SHAPE)) as found:
        assert certificate(found.certify(x, "n=300&seed=5")) == features.certify(x, n=300, seed=5)
        assert numbers(found) == {"type": "number"}


class Fussy(nn.Module):
    """A network that answers bright images with NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.net(x)
        bright = x.flatten(1).mean(1) > 1.2
        return torch.where(bright[:, None], torch.nan, answer)


def test_an_input_that_the_model_cannot_answer_fails_alone() -> None:
    with running(small_served(Fussy())) as found:
        xs = images(6)
        bright = np.full((1, 6, 6), 1.45, dtype=np.float32)
        inputs = [*xs[:3], bright, *xs[3:]]
        with ThreadPoolExecutor(7) as pool:
            answers = list(pool.map(lambda x: found.certify(x, "n=4000&seed=5"), inputs))
        assert [each.status_code for each in answers] == [200, 200, 200, 422, 200, 200, 200]
        assert "NaN" in answers[3].json()["error"]
        smoothed = small_served(Fussy()).smoothed
        assert certificate(answers[0]) == smoothed.certify(xs[0], n=4_000, seed=5)
        assert found.client.get("/v1/ready").status_code == 200


def test_whatever_fails_beside_the_model_ends_one_request_and_not_the_scheduler(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counting copies, and what a request makes of its counts."""

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    with running() as found:
        x = images(1)[0]
        with monkeypatch.context() as patch:
            patch.setattr("holdfast.sampling.local.LocalSampler.count", broken)
            *_, last = stream(found, "/v1/certify/stream?n=2000", npy(x))
            assert (last["event"], last["certificate"], last["error"]) == ("stopped", None, "broken")
        assert found.client.get("/v1/ready").status_code == 200
        with monkeypatch.context() as patch:
            patch.setattr("holdfast.sequential.SequentialTest.update", broken)
            # The server closes the line on which it failed, so this one is not shared.
            question = f"{found.url}/v1/decide?at_least=0.2&radius=0.05"
            failed = httpx.post(question, content=npy(x), headers={"Content-Type": NPY}, timeout=20.0)
            assert failed.status_code == 500
        assert found.client.get("/v1/ready").status_code == 200
        assert found.decide(x, "at_least=0.2&radius=0.05").status_code == 200


def test_a_scheduler_without_its_thread_refuses_at_once() -> None:
    with running() as found:
        scheduler = found.service.scheduler
        scheduler._arrived.put(None)
        scheduler._thread.join()
        refused = found.certify(images(1)[0], "n=300")
        assert refused.status_code == 503
        assert "does not work" in refused.json()["error"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("n=50001", "n must be a whole number, at least 1 and at most 50,000, got 50001"),
        ("n=1e5", "n must be a whole number, at least 1 and at most 50,000, got 100000"),
        ("n=1e999999999", "n must be a whole number, at least 1 and at most 50,000, got '1e999999999'"),
        ("n=abc", "n must be a whole number, at least 1 and at most 50,000, got 'abc'"),
        ("n=0", "n must be a whole number, at least 1 and at most 50,000, got 0"),
        ("n=3", "can never certify"),
        ("n0=abc", "n0: Input should be a valid integer, unable to parse string as an integer, got abc"),
        ("alpha=0.7", "less than or equal to 0.5"),
        ("alpha=nan", "alpha"),
        ("claims=label&claims=label&n=300", "each once"),
        ("claims=colour", "claims"),
        ("radii=0.1&radii=far", "radii: Input should be a valid number"),
        ("n=300&seed=zz", "seed must be a whole number of at most 128 bits, decimal or 0x and hexadecimal, got 'zz'"),
        ("n=300&seed=0x" + "f" * 33, "seed must be a whole number of at most 128 bits"),
        ("n=300&seed=" + "9" * 39, "seed must be a whole number of at most 128 bits"),
        ("colour=red", "colour: there is no such parameter here; GET /docs lists them"),
    ],
)
def test_a_bad_question_is_refused_with_a_reason(served: Running, query: str, said: str) -> None:
    refused = served.certify(images(1)[0], query)
    assert refused.status_code == 422
    assert said in refused.json()["error"]


def test_the_least_and_the_most_copies_of_a_decision_are_named(served: Running) -> None:
    for few in (0, 1):
        refused = served.decide(images(1)[0], f"at_least=0.5&radius=0.1&n_max={few}")
        assert f"n_max must be a whole number, at least 2 and at most 50,000, got {few}" in refused.json()["error"]
    with pytest.raises(hf.InvalidArgument, match="copies must be a whole number, at least 2"):
        Limits(copies=1)


def test_counts_are_typed_as_on_the_command_line(served: Running) -> None:
    x = images(1)[0]
    assert certificate(served.certify(x, "n=3e2&n0=5e1&seed=5&index=1e0")) == from_python().certify(
        x, n=300, n0=50, seed=5, index=1
    )


def test_a_callers_text_is_never_the_services_failure(served: Running) -> None:
    x = images(1)[0]
    assert certificate(served.certify(x, "n=300&seed=0123")) == from_python().certify(x, n=300, seed=123)
    document = from_python().certify(x, n=300, seed=5).to_dict()
    del document["evidence"]["score"]
    document["evidence"]["measures"] = [{"name": "\ud800", "title": "", "support": [0, 1], "thresholds": []}]
    refused = served.client.post("/v1/read", content=json.dumps(document).encode())
    assert refused.status_code == 422
    assert "not a certificate" in refused.json()["error"]


def test_a_body_that_is_too_large_is_refused_whether_or_not_it_says_so() -> None:
    with running(limits=Limits(upload=1_000)) as found:
        for content in (b"0" * 1_001, (part for part in [b"0" * 600, b"0" * 600])):
            refused = found.client.post("/v1/certify", content=content, headers={"Content-Type": NPY})
            assert refused.status_code == 413


def test_a_key_is_asked_for_everywhere_but_at_the_page_and_the_health_checks() -> None:
    with running(key=KEY) as found:
        good = found.client.get("/v1/model")
        assert good.status_code == 200
        for path in ("/v1/model", "/v1/metrics", "/openapi.json", "/v1/samples/0"):
            bare = httpx.get(found.url + path)
            assert bare.status_code == 401
            assert bare.headers["WWW-Authenticate"] == "Bearer"
            for wrong in (KEY[:-1], KEY + "x", "", "\xe9"):
                refused = httpx.get(found.url + path, headers={b"X-API-Key": wrong.encode()})
                assert refused.status_code == 401
        assert httpx.get(found.url + "/v1/model", headers={"X-API-Key": KEY}).status_code == 200
        for path in ("/", "/page/page.js", "/v1/health", "/v1/ready"):
            assert httpx.get(found.url + path).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "localhost.evil.example:80"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_sites_cannot_ask_through_a_visitors_browser(served: Running, headers: dict[str, str]) -> None:
    response = served.client.post(
        "/v1/certify?n=300", content=npy(images(1)[0]), headers={"Content-Type": NPY, **headers}
    )
    assert response.status_code in (400, 403)
    assert served.certify(images(1)[0], "n=300").status_code == 200
    port = served.url.rsplit(":", 1)[1]
    for name in ("localhost", "LOCALHOST"):
        same = {"Content-Type": NPY, "Host": f"{name}:{port}", "Origin": f"http://localhost:{port}"}
        assert served.client.post("/v1/certify?n=300", content=npy(images(1)[0]), headers=same).status_code == 200


def test_other_machines_are_not_served_without_a_key() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.7", "example.org", ""):
        with pytest.raises(InvalidArgument, match="HOLDFAST_API_KEY"):
            check_address(host, 8023, Keys())
        check_address(host, 8023, Keys(KEY))
    for host in ("127.0.0.1", "localhost", "::1"):
        check_address(host, 8023, Keys())
    with pytest.raises(InvalidArgument, match="at least 16 characters"):
        Keys("short")


def test_health_readiness_metrics_and_the_document(served: Running) -> None:
    assert served.client.get("/v1/health").json() == {"status": "ok"}
    assert served.client.get("/v1/ready").json() == {"status": "ready"}
    served.certify(images(1)[0], "n=300")
    text = served.client.get("/v1/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(lines["holdfast_copies_total"]) >= 400
    assert float(lines['holdfast_responses_total{route="/v1/certify",status="200"}']) >= 1
    assert float(lines["holdfast_requests_open"]) == 0
    document = served.client.get("/openapi.json").json()
    assert set(document["paths"]["/v1/certify"]["post"]["requestBody"]["content"]) == {
        "application/json",
        "image/png",
        "image/jpeg",
        NPY,
    }


def test_what_is_not_served_is_refused_with_where_to_look(served: Running) -> None:
    for path, status in (("/v1/nothing", 404), ("/v1/certify", 405)):
        answer = served.client.get(path)
        assert answer.status_code == status
        assert answer.json() == {"error": f"GET {path} is not answered here; GET /docs lists what is"}


def test_what_python_serves_is_checked_before_it_is_served() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.25)
    wrongs: tuple[tuple[Any, Any, Any, str], ...] = (
        (small_net(), (1, 6, 6), (), "expected a SmoothedClassifier"),
        (smoothed, 28, (), r"shape must be that of one input, such as \(1, 28, 28\), got 28"),
        (smoothed, (1, 6.5, 6), (), "shape must be that of one input"),
        (smoothed, (1, 6, 6), 3, "labels must be the names of the classes.*got 3"),
        (smoothed, (1, 6, 6), "cat", "labels must be the names of the classes.*got 'cat'"),
    )
    for what, shape, labels, words in wrongs:
        with pytest.raises(hf.InvalidArgument, match=words):
            hf.serve(what, shape, labels=labels, port=0)


def test_every_answer_carries_a_policy_that_allows_nothing_from_elsewhere(served: Running) -> None:
    for path in ("/", "/page/page.js", "/v1/model", "/nothing"):
        policy = served.client.get(path).headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert served.client.get("/page/../app.py").status_code == 404
    assert served.client.get("/page/%2e%2e%2fapp.py").status_code == 404


def test_an_exported_certificate_is_read_from_its_counts_not_from_its_summary(served: Running) -> None:
    cert = from_python().certify(images(1)[0], n=2_000, seed=5, sides="both")
    document = cert.to_dict()
    document["summary"]["score_lower"] = [1.0, 1.0, 1.0, 1.0]
    view = served.client.post("/v1/read", json=document).json()
    assert [each["name"] for each in view["measures"]] == ["score", "margin"]
    for each in view["measures"]:
        curve = cert.curve(each["name"])
        assert each["curve"]["lower"] == curve.lower(np.array(view["radii"])).tolist()
        assert each["curve"]["upper"] == curve.upper(np.array(view["radii"])).tolist()
        assert each["curve"]["radius"] == curve.radius(at_least=each["at_least"]).tolist()


def test_a_certificate_of_0_1_0_is_read_as_it_is_and_written_again() -> None:
    path = Path(__file__).parents[1] / "certificates" / "written_by_0_1_0" / "certificate.json"
    written = json.loads(path.read_text())
    again = hf.Certificate.from_dict(written).to_dict()
    with running() as found:
        views = [found.client.post("/v1/read", json=each) for each in (written, again)]
    assert [each.status_code for each in views] == [200, 200]
    assert views[0].json() == views[1].json()


def test_a_forged_certificate_is_refused_before_it_costs_anything(served: Running) -> None:
    good = from_python().certify(images(1)[0], n=500, seed=5).to_dict()
    forgeries = []
    for change in (
        {"bins": 10**12},
        {"bins": True},
        {"counts": [10**30]},
        {"counts": [10**9], "occupied": [0]},
        {"counts": [-1, 501], "occupied": [0, 1]},
        {"counts": [2**62, 2**62, 2**62, 2**62 + 500], "occupied": [0, 1, 2, 3]},  # whose sum wraps around to 500
        {"occupied": [0, 0], "counts": [250, 250]},
        {"support": [0.0, 5.0]},
        {"sigma": 1e300},
    ):
        bad = json.loads(json.dumps(good))
        bad["evidence"]["score"].update(change)
        forgeries.append(bad)
    evidence = good["evidence"]
    described = evidence["measures"]
    for others in (
        [],
        "score",
        [described[0]] * 17,
        [{**described[0], "name": f"m{k}"} for k in range(17)],
        [{**described[0], "winning": -1.0}, described[1]],
        [{**described[0], "support": [0.0, 2.0]}, described[1]],
        [{**described[0], "title": "x" * 10_000}, described[1]],
        [{**described[0], "name": "n"}, described[1]],
        [{**described[0], "name": "nowhere"}, described[1]],
    ):
        forgeries.append({**good, "evidence": {**evidence, "measures": others}})
    for noise in ({"kind": "nothing", "scale": 1.0}, {"kind": "gaussian", "sigma": 1e300}, {"kind": "gaussian"}, 7):
        counts = {**evidence["margin"], "noise": noise}
        forgeries.append({**good, "evidence": {**evidence, "margin": counts}})
    forgeries += [
        {**good, "method": "cdf-berk-jones-99999999"},
        {**good, "share": 7},
        {**good, "alpha": 1e-300},
        {},
        [],
    ]
    began = time.monotonic()
    for bad in forgeries:
        assert served.client.post("/v1/read", json=bad).status_code == 422
    assert served.client.post("/v1/read", content=b"[" * 100_000).status_code in (400, 422)
    assert time.monotonic() - began < 5


def test_what_is_no_certificate_is_refused_without_pythons_words(served: Running) -> None:
    good = from_python().certify(images(1)[0], n=500, seed=5).to_dict()
    documents: list[tuple[object, str]] = [
        ({}, "it has no field method"),
        ([], "expected a JSON object"),
        ("text", "expected a JSON object"),
        ({**good, "evidence": 7}, "another kind of value"),
        ({**good, "provenance": {}}, "it has no field seed"),
        ({**good, "provenance": {**good["provenance"], "colour": 1}}, "unknown"),
        ({**good, "sides": "upper"}, "sides must be"),
        ({**good, "claims": None}, "another kind of value"),
    ]
    for document, said in documents:
        refused = served.client.post("/v1/read", json=document)
        assert refused.status_code == 422
        assert said in refused.json()["error"]
        for word in ("NoneType", "__init__", "Error", "indices", "object has", "keyword", "'int'"):
            assert word not in refused.json()["error"]


def test_whoever_reads_a_certificate_holds_up_nobody_elses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading can take seconds. Here it takes until it is told to end, and what waits behind it is never begun."""
    go_on, begun = threading.Event(), []

    def long(content: bytes, limits: Limits) -> None:
        begun.append(limits)
        go_on.wait(20)
        raise Refusal(422, f"read {len(content)} bytes")

    monkeypatch.setattr("holdfast.service.service.read_certificate", long)
    with running(limits=Limits(seconds=1.0)) as found, ThreadPoolExecutor(3) as pool:
        reading = [pool.submit(found.client.post, "/v1/read", content=b"{}") for _ in range(3)]
        try:
            assert found.certify(images(1)[0], "n=300").status_code == 200
            for each in reading:
                assert each.result().status_code == 503
            assert found.idle()
        finally:
            go_on.set()
    assert len(begun) == 1


def test_what_a_caller_who_went_away_wanted_read_is_never_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, begun = threading.Event(), []

    def long(content: bytes, limits: Limits) -> None:
        begun.append(content)
        go_on.wait(20)
        raise Refusal(422, "read to its end")

    def waits_for(taken: int) -> bool:
        until = time.monotonic() + 10
        while found.service.scheduler.places.taken != taken and time.monotonic() < until:
            time.sleep(0.01)
        return found.service.scheduler.places.taken == taken

    monkeypatch.setattr("holdfast.service.service.read_certificate", long)
    with running() as found, ThreadPoolExecutor(1) as pool:
        try:
            first = pool.submit(found.client.post, "/v1/read", content=b"{}")
            assert waits_for(1)
            host, port = found.url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port))) as line:
                line.sendall(b"POST /v1/read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n[]")
                assert waits_for(2)
            assert waits_for(1)
        finally:
            go_on.set()
        assert first.result().status_code == 422
    assert begun == [b"{}"]


def test_calibrations_for_what_strangers_send_are_not_kept(
    served: Running, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    document = from_python().certify(images(1)[0], n=300, seed=5).to_dict()
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    assert served.client.post("/v1/read", json={**document, "alpha": 0.00123}).status_code == 200
    assert not list(tmp_path.rglob("*.json"))
    assert served.certify(images(1)[0], "n=300&alpha=0.00124").status_code == 200
    assert list(tmp_path.rglob("*.json"))


def test_nothing_is_left_when_it_ends(two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.service.server._CLOSING_S", 1)
    before = set(threading.enumerate())
    with running(small_served(Slow(small_net()))) as found:
        events = stream(found, "/v1/certify/stream?n=1000000", npy(images(1)[0]))
        assert {next(events)["event"] for _ in range(3)} >= {"accepted", "chosen"}
        assert [thread for thread in threading.enumerate() if thread.name.startswith("holdfast-worker")]
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name.startswith("holdfast")]
