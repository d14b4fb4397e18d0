"""Callers: asking again is not choosing, keys come and go, and nobody's many requests keep out another's one."""

import asyncio
import hashlib
import hmac
import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import holdfast as hf
from holdfast.cli.app import run as command
from holdfast.errors import InvalidArgument
from holdfast.noise import derived_seed
from holdfast.service.callers import Keys, read_secret
from holdfast.service.shares import FairPool, FairShare
from networks import images
from serving import NPY, Running, npy, running

ANNE, BOB = "a-key-of-anne's-that-is-long", "a-key-of-bob's-that-is-long"
SECRET = bytes(range(32))


def keys_file(folder: Path, **keys: str) -> Path:
    path = folder / "keys.toml"
    path.write_text(
        "\n".join(f'[{name}]\nkey = "{key}"\nfresh = {json.dumps(name == "anne")}' for name, key in keys.items())
    )
    path.chmod(0o600)
    return path


def asked(found: Running, key: str | None, path: str, content: bytes | None = None) -> httpx.Response:
    headers = {"Content-Type": NPY, **({} if key is None else {"X-API-Key": key})}
    body = npy(images(1)[0]) if content is None else content
    return httpx.post(f"{found.url}{path}", content=body, headers=headers, timeout=60.0)


def seed_of(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["provenance"]["seed"]


def test_five_hundred_identical_requests_return_one_certificate() -> None:
    with running() as found:
        x = images(1)[0]
        answers = [found.certify(x, "n=100&n0=10&claims=label&alpha=0.05").json() for _ in range(500)]
    document = answers[0]
    assert document["seeded_by"] == "service"
    for each in answers:
        assert hf.Certificate.from_dict(each) == hf.Certificate.from_dict(document)
    again = found.service.served.smoothed.certify(
        x, n=100, n0=10, claims=("label",), alpha=0.05, seed=int(document["provenance"]["seed"], 16)
    )
    assert hf.Certificate.from_dict(document) == again


def test_the_noise_of_an_input_is_the_same_whatever_else_is_asked_and_however_it_is_written() -> None:
    bytes_ = np.random.default_rng(3).integers(0, 256, (1, 6, 6), dtype=np.uint8)
    x = bytes_.astype(np.float32) / np.float32(255.0)
    with running() as found:
        seeds = {seed_of(found.certify(x, f"n={n}&alpha={alpha}")) for n in (300, 400) for alpha in (0.01, 0.02)}
        written = json.dumps({"input": (bytes_ / 255.0).tolist()}).encode()
        as_json = found.client.post("/v1/certify?n=300", content=written, headers={"Content-Type": "application/json"})
        seeds.add(seed_of(as_json))
        seeds.add(seed_of(found.certify(x.astype(np.float64), "n=300&sides=both")))
        (same,) = seeds
        others = {seed_of(found.certify(each, "n=300")) for each in images(5)}
        assert len(others | {same}) == 6
        decided = found.decide(x, "at_least=0.2&radius=0.05").json()
        assert (decided["seeded_by"], decided == found.decide(x, "at_least=0.2&radius=0.05").json()) == (
            "service",
            True,
        )


def test_a_service_with_the_same_secret_gives_the_same_answers_and_one_with_another_does_not() -> None:
    found = []
    for secret in (SECRET, SECRET, SECRET[::-1], None, None):
        with running(secret=secret) as service:
            found.append(seed_of(service.certify(images(1)[0], "n=300")))
    assert found[0] == found[1]
    assert len(set(found)) == 4


def test_seeds_follow_from_the_numbers_of_an_input_and_two_zeros_are_one_number() -> None:
    import torch

    seed = partial(derived_seed, SECRET)
    x = torch.zeros(1, 2, 2)
    assert seed("certify", x) == seed("certify", -x)
    assert seed("certify", x) != seed("decide", x)
    assert seed("certify", x) != seed("certify", x + 1)
    assert 0 <= seed("certify", x) < 2**128
    # For ever: another derivation would give other noise to who asks again.
    message = b"certify\0" + bytes(16)
    assert seed("certify", x) == int(hmac.new(SECRET, message, hashlib.sha256).hexdigest()[:32], 16)
    assert seed("certify", x.double()) == seed("certify", x)


def test_fresh_noise_is_for_those_who_may_and_is_said(tmp_path: Path) -> None:
    with running(keys=Keys(path=keys_file(tmp_path, anne=ANNE, bob=BOB))) as found:
        answers = [asked(found, ANNE, "/v1/certify?n=300&fresh=1") for _ in range(3)]
        assert len({seed_of(each) for each in answers}) == 3
        assert {each.json()["seeded_by"] for each in answers} == {"fresh"}
        refused = asked(found, BOB, "/v1/certify?n=300&fresh=1")
        assert refused.status_code == 403
        assert "fresh" in refused.json()["error"]
        for wrong in ("fresh=1&seed=5", "index=3"):
            assert asked(found, ANNE, f"/v1/certify?n=300&{wrong}").status_code == 422
    with running() as found:  # whoever needs no key is the operator
        assert found.certify(images(1)[0], "n=300&fresh=1").json()["seeded_by"] == "fresh"


def test_a_key_is_good_as_long_as_it_is_in_the_file(tmp_path: Path) -> None:
    path = keys_file(tmp_path, anne=ANNE, bob=BOB)
    with running(keys=Keys("a-key-that-is-given-beside", path)) as found:

        def statuses() -> list[int]:
            asking = (ANNE, BOB, "a-key-that-is-given-beside", None)
            return [
                httpx.get(f"{found.url}/v1/model", headers={} if key is None else {"X-API-Key": key}).status_code
                for key in asking
            ]

        assert statuses() == [200, 200, 200, 401]
        keys_file(tmp_path, bob=BOB)
        assert statuses() == [401, 200, 200, 401]
        path.write_text("[bob")
        assert statuses() == [401, 401, 401, 401]
        keys_file(tmp_path, anne=ANNE)
        assert statuses() == [200, 401, 200, 401]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'[anne]\nkey = "{ANNE}"\n[bob]\nkey = "{ANNE}"', "two callers the same key"),
        ('[anne]\nkey = "a key that is long, with spaces"', r"anne\.key .* match pattern"),
        ('[anne]\nkey = "schlüssel-der-lang-ist"', r"anne\.key .* match pattern"),
        ('[anne]\nkey = "short"', r"anne\.key .* at least 16 characters"),
        ("[anne]\nfresh = true", r"anne\.key .* required"),
        ("[anne]\nkey = 5", r"anne\.key .* valid string"),
        (f'[anne]\nkey = "{ANNE}"\nfresh = "yes"', r"anne\.fresh .* valid boolean"),
        (f'[anne]\nkey = "{ANNE}"\ncolour = 1', r"anne\.colour .* not permitted"),
        (f'anne = "{ANNE}"', "anne"),
        ("[anne", "TOML"),
        ("\x00", "TOML"),
    ],
)
def test_a_file_of_keys_that_is_none_is_refused_in_words(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(InvalidArgument, match=said) as error:
        Keys(path=path)
    assert str(path) in str(error.value)
    assert ANNE not in str(error.value)


def test_a_file_that_is_no_access_log_is_not_appended_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[object] = []
    monkeypatch.setattr("holdfast.service.server.serve", lambda *given, **_: served.append(given))
    path = tmp_path / "run.json"
    for content in (b'{"format": 1}\n', b"text", b"[" * 100_000, b"\xff"):
        path.write_bytes(content)
        assert command(["serve", "--no-open", "--access-log", str(path)]) != 0
        assert "is no access log; choose another file" in capsys.readouterr().err
        assert path.read_bytes() == content
    assert not served


def test_a_file_without_keys_is_refused_and_one_that_breaks_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    empty = keys_file(tmp_path)
    with pytest.raises(InvalidArgument, match="has no keys, so nobody could ask"):
        Keys(path=empty)
    assert Keys(ANNE, empty).owner(ANNE) is not None
    keys = Keys(path=keys_file(tmp_path, anne=ANNE))
    empty.write_text("broken")
    assert keys.owner(ANNE) is None
    assert [record.levelname for record in caplog.records] == [
        "ERROR"
    ]  # that is shown unless something else is asked for


def test_what_other_users_can_read_is_no_secret(tmp_path: Path) -> None:
    path = keys_file(tmp_path, anne=ANNE)
    path.chmod(0o644)
    with pytest.raises(InvalidArgument, match="chmod 600"):
        Keys(path=path)
    secret = tmp_path / "new" / "secret"
    assert read_secret(secret) == read_secret(secret)
    assert len(read_secret(secret)) == 32
    secret.chmod(0o640)
    with pytest.raises(InvalidArgument, match="chmod 600"):
        read_secret(secret)
    with pytest.raises(InvalidArgument, match="folder"):
        read_secret(tmp_path)
    short = tmp_path / "short"
    short.write_bytes(b"123")
    short.chmod(0o600)
    with pytest.raises(InvalidArgument, match="short must have at least 32 bytes"):
        read_secret(short)


def test_a_share_leaves_room_for_whoever_comes_next() -> None:
    share = FairShare(128)
    assert sum(share.take("greedy", 1) for _ in range(1_000)) == 64
    assert sum(share.take("second", 1) for _ in range(1_000)) == 32
    assert share.take("honest", 1)
    for _ in range(64):
        share.give("greedy", 1)
    assert share.taken == 33
    assert not share.take("huge", 96)
    assert share.take("huge", 47)


def test_each_answer_is_logged_with_its_caller_and_without_seeds_and_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # The server ends first, and with it every line that is still to come.
    with caplog.at_level(logging.INFO), running(keys=Keys(path=keys_file(tmp_path, anne=ANNE))) as found:
        asked(found, ANNE, "/v1/certify?n=300&seed=0xabcdef")
        asked(found, BOB, "/v1/certify%1b[31m?n=300&seed=0xabcdef")
        asked(found, ANNE, "/v1/certify?n=3")
    lines = [record.getMessage() for record in caplog.records if record.name == "holdfast.service.access"]
    first, second, third = map(json.loads, lines)
    assert (first["caller"], first["status"], first["path"]) == ("anne", 200, "/v1/certify")
    assert (second["caller"], second["address"], second["status"]) == ("127.0.0.1", "127.0.0.1", 401)
    assert second["refused"].startswith("expected a key")
    assert (third["caller"], third["status"]) == ("anne", 422)
    assert third["refused"].startswith("n = 3 can never certify")
    assert "refused" not in first
    assert "\x1b" not in "".join(lines)
    for private in ("abcdef", ANNE, BOB):
        assert private not in "".join(lines)


def test_a_stream_that_its_caller_leaves_is_logged_too(caplog: pytest.LogCaptureFixture) -> None:
    question = "/v1/certify/stream?n=1000000"
    with caplog.at_level(logging.INFO), running() as found:
        body, kind = npy(images(1)[0]), {"Content-Type": NPY}
        with found.client.stream("POST", question, content=body, headers=kind) as answer:
            next(answer.iter_lines())
        assert found.idle()
    (line,) = [json.loads(each.getMessage()) for each in caplog.records if each.name == "holdfast.service.access"]
    assert (line["path"], line["status"]) == ("/v1/certify/stream", 200)


def test_a_caller_has_one_thread_at_a_time_until_its_work_ends_even_if_nobody_waits_for_it() -> None:
    go_on, begun = threading.Event(), list[str]()

    def long() -> str:
        begun.append("greedy")
        go_on.wait(20)
        return "done"

    async def play() -> None:
        pool = FairPool(2, "test")
        try:
            greedy = [asyncio.ensure_future(pool.run("greedy", long)) for _ in range(5)]
            await asyncio.sleep(0.1)
            greedy[0].cancel()
            assert await asyncio.wait_for(pool.run("honest", lambda: "quick"), 5) == "quick"
            await asyncio.sleep(0.1)
            assert begun == ["greedy"]
            go_on.set()
            assert await asyncio.wait_for(asyncio.gather(*greedy[1:]), 5) == ["done"] * 4
        finally:
            go_on.set()
            pool.close()

    with ThreadPoolExecutor(1) as alone:  # a browser of other tests may have an event loop running in this thread
        alone.submit(asyncio.run, play()).result()
