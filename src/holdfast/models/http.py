"""An HTTP endpoint that returns class scores (extra ``http``): asked politely, and not twice for what was answered."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from platformdirs import user_data_path
from torch import Tensor

from holdfast.errors import InvalidArgument, ModelError, UnsteadyModel
from holdfast.models.answers import AnswerStore, Reply
from holdfast.models.check import SAME_ROUNDED, difference
from holdfast.models.endpoint import SHOWN, Endpoint, Unanswered
from holdfast.models.fingerprint import content_hash
from holdfast.models.model import Model
from holdfast.models.outputs import as_probabilities, check_outputs, checked_probabilities
from holdfast.validation import check_count, check_path

_VALIDATION = b"alone"
"""The scope of rows that are asked about by themselves, to compare."""
_VALIDATION_REQUESTS = 3
_CREDENTIALS = re.compile(r"(proxy-)?authorization|cookie|(x-)?(api-key|(auth-|access-)?token|secret)", re.IGNORECASE)
"""Names of headers that may change; all others may choose what answers."""


class HttpModel(Model):
    """Asks an endpoint for the class scores of noisy copies, many in one request.

    Every reply is kept in a file as it came, keyed by the endpoint, its headers and what is asked about each row, so
    that a run that is resumed, verified or repeated with its seed asks for no noisy copy again; ``answer`` is applied each time.
    A request for new rows has one that was answered before among them, and a spot check asks for its few rows: an endpoint that
    answers otherwise now is refused. What a question may cost is said before the first request.

    By default a request is TensorFlow Serving's and KServe's, ``{"instances": [row, ...]}``, and the answer
    ``{"predictions": [scores, ...]}``; give ``ask`` and ``answer`` for another endpoint.

    Requires:
        One classifier answers at the URL for as long as the file of answers is used; give another ``version`` for another, and
        where ``ask`` or ``answer`` make another one of it: fingerprints do not know them.

    Parameters:
        url: where rows are posted to. What follows a # is the version.
        outputs: what it returns, ``"logits"`` or ``"probabilities"``; it is checked.
        version: a name for the classifier that answers there, which you change whenever that changes. It makes the fingerprint.
        headers: of every request, such as ``{"Authorization": "Bearer ..."}``; they are written nowhere. ``Authorization``,
            ``Cookie``, ``X-API-Key``, ``X-Auth-Token`` and their like say who asks; with another of any other, every row is asked again.
        store: the file of answers; by default one for each endpoint in the user's data folder.
        rows_at_once: of a request.
        connections: requests under way at a time.
        per_second: at most so many requests.
        most_requests: refuse, before the first, a question that may take more; and never send more for one, repetitions included.
        retries: how often a request is repeated when the endpoint is busy or cannot be reached; waits double.
        timeout: seconds for one answer.
        ask: makes the body of a request from an array of rows, to be sent as JSON; the same for the same rows.
        answer: takes the scores out of an answer's JSON.
        say: is told what a question may cost; by default it is printed on stderr.
    """

    device = torch.device("cpu")

    def __init__(
        self,
        url: str,
        *,
        outputs: str = "probabilities",
        version: str | None = None,
        headers: Mapping[str, str] | None = None,
        store: str | Path | None = None,
        rows_at_once: int = 64,
        connections: int = 4,
        per_second: float = math.inf,
        most_requests: int | None = None,
        retries: int = 5,
        timeout: float = 60.0,
        ask: Callable[[NDArray[np.float32]], Any] | None = None,
        answer: Callable[[Any], Any] | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._endpoint = Endpoint(
            url,
            headers or {},
            connections=connections,
            per_second=per_second,
            retries=retries,
            timeout=timeout,
        )
        if not isinstance(version, str | None):
            raise InvalidArgument(f'version must be a text, such as "1", got {version!r}')
        for name, function in (("ask", ask), ("answer", answer), ("say", say)):
            if not callable(function) and function is not None:
                raise InvalidArgument(f"{name} must be a function, got {function!r}")
        self._logits = check_outputs(outputs)
        self._rows = check_count("rows_at_once", rows_at_once, at_least=8)
        self.rows = 1 + self._endpoint.connections * (self._rows - 1)  # one row of each request was answered before
        self._most = None if most_requests is None else check_count("most_requests", most_requests)
        self._version = version or self._endpoint.version
        self._ask, self._answer, self._say = ask or _instances, answer or _predictions, say or _print
        self._routing = tuple(sorted(pair for pair in (headers or {}).items() if not _CREDENTIALS.fullmatch(pair[0])))
        self._known_as = json.dumps((self._endpoint.url, self._version, self._routing)).encode()
        self.store = AnswerStore(_default_store(self._known_as) if store is None else check_path("store", store))
        self.name = self._endpoint.name

    def fingerprint(self) -> str | None:
        """Of the URL and the version; None without a version, since others may answer there tomorrow."""
        known_as = (self._endpoint.url, self._version, self._logits, *self._routing)
        return None if self._version is None else content_hash(known_as)

    def expect(self, copies: int) -> None:
        """Say about how many requests that will take; refuse what is more than ``most_requests``."""
        # One row of each was answered before. A few more look at the endpoint first.
        requests = -(-copies // (self._rows - 1)) + _VALIDATION_REQUESTS
        if self._most is not None and requests > self._most:
            raise InvalidArgument(
                f"{copies:,} noisy copies may take {requests:,} requests to {self.name}, more than most_requests={self._most:,}; ask "
                f"for fewer copies, or allow more"
            )
        self._endpoint.allow(self._most)
        least = f", {requests * self._endpoint.pause:,.0f} s at least" if self._endpoint.pause else ""
        self._say(
            f"up to {copies:,} noisy copies for {self.name}: about {requests:,} requests{least}; {len(self.store):,} answers are known "
            f"in {self.store.path}, and are not asked again"
        )

    def probabilities(self, batch: Tensor) -> Tensor:
        """What was answered, now or before."""
        return as_probabilities(self._scores(batch, b""), logits=self._logits)

    def anew(self, batch: Tensor) -> Tensor:
        """What the endpoint says now, as a question of its own; nothing of it is kept."""
        self._endpoint.allow(self._most)
        rows, found = batch.contiguous().numpy(), list[NDArray[np.float64]]()
        parts = [rows[first : first + self._rows] for first in range(0, len(rows), self._rows)]
        self._post(parts, lambda number, said: found.append(self._parsed(said, len(parts[number]))))
        return as_probabilities(torch.from_numpy(np.concatenate(found)), logits=self._logits)

    def validate(self, rows: Tensor) -> Tensor:
        """Probabilities of a few rows, refused in words if they are not a classifier's.

        Asked for themselves, whether or not they were answered in other company: the two are compared.
        """
        scores = self._scores(rows, _VALIDATION)
        try:
            return checked_probabilities(self.name, scores, len(rows), logits=self._logits)
        except ModelError:
            self.store.forget(self._keys(rows.contiguous().numpy(), _VALIDATION))  # it may be mended
            raise

    def _scores(self, batch: Tensor, scope: bytes) -> Tensor:
        rows = batch.contiguous().numpy()
        keys = self._keys(rows, scope)
        known = self.store.scores(keys, self._parsed)
        if missing := {key: row for key, row in zip(keys, rows, strict=True) if key not in known}:
            # The sampler's probe is the last row of every batch.
            before = known.get(keys[-1])
            known |= self._ask_about(missing, None if before is None else (rows[-1], before))
        shapes = {scores.shape for scores in known.values()}
        if len(shapes) > 1:
            raise ModelError(
                f"{self.name} answered with different numbers of classes: {sorted(classes for (classes,) in shapes)}"
            )
        return torch.from_numpy(np.stack([known[key] for key in keys]))

    def _ask_about(
        self,
        missing: Mapping[bytes, NDArray[np.float32]],
        before: tuple[NDArray[np.float32], NDArray[np.float64]] | None,
    ) -> dict[bytes, NDArray[np.float64]]:
        """The scores of rows that were not asked about, kept from now on; among those of each request is one that was, compared."""
        again = [] if before is None else [before[0]]
        keys, room = list(missing), self._rows - len(again)
        parts = [keys[first : first + room] for first in range(0, len(keys), room)]
        found, fresh = dict[bytes, NDArray[np.float64]](), list[Reply]()

        def keep(number: int, said: bytes) -> None:
            part = parts[number]
            scores = self._parsed(said, len(part) + len(again))
            if before is not None:
                self._compare(scores[-1], before[1])
            fresh.append(Reply(said, len(scores), {key: place for place, key in enumerate(part)}))
            found.update(zip(part, scores, strict=False))

        try:
            self._post((np.stack([*(missing[key] for key in part), *again]) for part in parts), keep)
        except Unanswered as error:
            kept = len(self.store) + sum(len(reply.places) for reply in fresh)
            raise ModelError(
                f"{error}; {kept:,} answers are kept in {self.store.path}: the same command goes on from there"
            ) from error
        finally:
            self.store.add(fresh)
        return found

    def _keys(self, rows: NDArray[np.float32], scope: bytes) -> list[bytes]:
        asked = b"\n".join((self._known_as, str(rows.shape[1:]).encode(), scope))
        return self.store.keys(asked, map(self._question, rows))

    def _question(self, row: NDArray[np.float32]) -> bytes:
        """What is asked about a row, as it would be asked about it alone."""
        return row.tobytes() if self._ask is _instances else b"\0" + self._body(row[None])

    def _body(self, rows: NDArray[np.float32]) -> bytes:
        asked = self._ask(rows)
        try:
            return json.dumps(asked).encode()
        except (TypeError, ValueError) as error:
            raise ModelError(f"ask must return what JSON can say, such as lists of numbers: {error}") from error

    def _compare(self, now: NDArray[np.float64], before: NDArray[np.float64]) -> None:
        """Refuse an endpoint that does not answer a row as it did."""
        found, first = (as_probabilities(torch.tensor(each[None]), logits=self._logits) for each in (now, before))
        if fault := difference(found, first, SAME_ROUNDED):
            raise UnsteadyModel(
                f"{self.name} answers a row otherwise than when it was first asked ({fault}), so noisy copies would not be answered "
                f"by one classifier; nothing was certified. If another classifier answers there now, give another version"
            )

    def _post(self, parts: Iterable[NDArray[np.float32]], take: Callable[[int, bytes], None]) -> None:
        """Ask about the rows of each part; ``take`` is given a part's number and what was said."""
        self._endpoint.post(map(self._body, parts), take)

    def _parsed(self, said: bytes, rows: int) -> NDArray[np.float64]:
        """The scores in a reply, one row of numbers for each that was asked for."""
        try:
            scores = np.array(self._answer(json.loads(said)), dtype=np.float64)  # which may be written to again
        except Exception as error:
            raise ModelError(
                f"{self.name} answered with {said[:SHOWN]!r}, from which no scores could be taken ({type(error).__name__}: {error}); "
                f'expected {{"predictions": [[score, ...], ...]}}, or give answer=, a function from the JSON to the scores'
            ) from error
        if not np.isfinite(scores).all():
            raise ModelError(
                f"{self.name} answered with scores that are not finite: {said[:SHOWN]!r}; expected finite class scores"
            )
        if scores.ndim != 2 or len(scores) != rows:
            raise ModelError(
                f"{self.name} answered {rows} rows with scores of shape {scores.shape}; expected ({rows}, classes)"
            )
        return scores


def _print(text: str) -> None:
    print(text, file=sys.stderr)


def _instances(rows: NDArray[np.float32]) -> Any:
    return {"instances": rows.tolist()}


def _predictions(answer: Any) -> Any:
    return answer["predictions"]


def _default_store(known_as: bytes) -> Path:
    return user_data_path("holdfast", appauthor=False) / "answers" / f"{sha256(known_as).hexdigest()[:16]}.sqlite"
