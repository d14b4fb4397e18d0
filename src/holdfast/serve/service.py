"""The service without its HTTP: a model, its device, and what is made of a body and a question."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import torch

from holdfast.bands.calibration import not_kept
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.describe import format_confidence
from holdfast.certificates.settings import Settings
from holdfast.errors import InvalidArgument
from holdfast.inputs import as_input
from holdfast.noise import noise_fields, secret_seed
from holdfast.sampling import DecideRequest
from holdfast.sampling.engine import Workload
from holdfast.sampling.local import LocalSampler
from holdfast.sampling.requests import LooksRequest
from holdfast.sampling.span import Counting, NoiseSpan
from holdfast.sampling.workers import WorkerCache
from holdfast.sequential import SequentialTest
from holdfast.sequential.looks import Look, plan_looks
from holdfast.serve.batch_scheduler import BatchScheduler
from holdfast.serve.certificate_upload import read_certificate
from holdfast.serve.limits import Limits
from holdfast.serve.metrics import Metrics
from holdfast.serve.questions import CertifyQuestion, DecideQuestion, copies_of, measure_of
from holdfast.serve.refusals import OutOfTime, Unknown
from holdfast.serve.requests import AnyServed, ServedRequest
from holdfast.serve.uploads import read_input
from holdfast.serve.views import (
    certificate_view,
    copies_view,
    decision_view,
    pixels_view,
    progress_view,
    selection_view,
    verdict_view,
)
from holdfast.smoothed import SmoothedClassifier
from holdfast.triage import Triage
from holdfast.zoo.datasets.labelled import LabelledData

T = TypeVar("T")
SHOWN = 18
"""Noisy copies that a watcher gets to see."""

Event = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Served:
    """What is served: a smoothed classifier for inputs of one shape, and what is known about it.

    ``samples`` are inputs that a visitor may pick. ``triage`` says from which confidence on a class is accepted.
    """

    smoothed: SmoothedClassifier
    shape: tuple[int, ...]
    name: str = "model"
    labels: tuple[str, ...] = ()
    samples: LabelledData | None = field(default=None, repr=False)
    triage: Triage | None = field(default=None, repr=False)


class Service:
    """Answers questions. Uploads are read by one thread, copies are run by another, and a third makes certificates of counts.

    A fourth reads certificates that come back: what a stranger wrote into one must not hold up anybody's own.
    """

    def __init__(self, served: Served, limits: Limits) -> None:
        self.served = served
        self.limits = limits
        self.measures = tuple(measure.info for measure in served.smoothed.measures)
        if served.triage is not None:
            _check_triage(served.triage, served.smoothed, limits)
        # The model is checked here: one that is no classifier is refused before the first visitor comes.
        smoothed = served.smoothed
        like = torch.full(served.shape, 0.5)
        self._workers = WorkerCache(smoothed.model)
        work = Workload(smoothed.model, smoothed.noise, smoothed.measures, like, copies=1)
        sampler = LocalSampler(work, cache=self._workers)
        self.scheduler = BatchScheduler(sampler, queue=limits.queue)
        self.metrics = Metrics(self.scheduler)
        self._reader = ThreadPoolExecutor(1, "holdfast-reader")
        self._bounds = ThreadPoolExecutor(1, "holdfast-bounds")
        self._certificate_reader = ThreadPoolExecutor(1, "holdfast-certificates")
        self._open: dict[str, AnyServed] = {}

    def start(self) -> None:
        """Begin to work."""
        self.scheduler.start()

    def close(self) -> None:
        """Stop all work and wait for the threads."""
        self.scheduler.close()
        self._workers.close()
        self._reader.shutdown(cancel_futures=True)
        self._bounds.shutdown(cancel_futures=True)
        self._certificate_reader.shutdown(cancel_futures=True)

    async def certify(
        self, content: bytes, kind: str, question: CertifyQuestion, *, watched: bool
    ) -> "PendingCertificate":
        """Check everything, and let sampling begin."""
        n = copies_of("n", question.n, self.limits)
        seed = question.known_seed(self.limits)
        looks = plan_looks(n) if watched else (Look(n, 1.0),)
        settings = await self.bounded(partial(self._settings, question, looks[-1]))
        x = await self._read(content, kind)
        inner = LooksRequest(x, seed, question.index, question.n0, looks)
        request = ServedRequest(inner, watched=SHOWN if watched else 0, seeded_by=_who_chose(question))
        self._submit(request)
        return PendingCertificate(request, settings, question.alpha)

    async def decide(
        self, content: bytes, kind: str, question: DecideQuestion, *, watched: bool
    ) -> ServedRequest[DecideRequest]:
        """Check everything, and let sampling begin."""
        n_max = copies_of("n_max", question.n_max, self.limits)
        seed = question.known_seed(self.limits)
        measure = measure_of(question.measure, self.measures)
        test = SequentialTest(
            at_least=question.at_least,
            radius=question.radius,
            noise=self.served.smoothed.noise,
            support=measure.support,
            alpha=question.alpha,
            n_max=n_max,
        )
        x = await self._read(content, kind)
        inner = DecideRequest(x, seed, question.index, question.n0, test, measure.name)
        request = ServedRequest(inner, watched=SHOWN if watched else 0, seeded_by=_who_chose(question))
        self._submit(request)
        return request

    async def triage(self, content: bytes, kind: str) -> "PendingCertificate":
        """Check everything, and let sampling begin. The seed is always secret: a caller who knew it could choose the input for it."""
        triage = self._triage()
        x = await self._read(content, kind, leeway=triage.radius)
        settings = triage.settings
        request = ServedRequest(LooksRequest(x, secret_seed(), 0, triage.n0, (Look(triage.n, 1.0),)))
        self._submit(request)
        return PendingCertificate(request, settings, settings.alpha)

    async def verdict(self, pending: "PendingCertificate") -> bytes:
        """What is done with the finished request's input, as JSON."""
        request, triage = pending.request, self._triage()
        self._check(request)
        self.metrics.took(request.seconds)
        found = await self.bounded(lambda: triage.decide(self._certificate(pending, len(request.inner.looks))))
        return to_json(verdict_view(found, triage))

    def _settings(self, question: CertifyQuestion, last: Look) -> Settings:
        """What is asked of the last look; refused if it could certify nothing."""
        asked = Settings(last.n, question.n0, question.alpha * last.share, question.claims, question.sides)
        return asked.resolved(self.measures, self.served.smoothed.noise)

    def _triage(self) -> Triage:
        if self.served.triage is None:
            raise Unknown("this service was started without --triage: it has no rule by which to accept or hand over")
        return self.served.triage

    async def certificate(self, pending: "PendingCertificate") -> bytes:
        """The finished request's certificate, as JSON."""
        request = pending.request
        self._check(request)
        self.metrics.took(request.seconds)
        return await self.bounded(lambda: to_json(self._document(pending, len(request.inner.looks))))

    async def read(self, content: bytes) -> bytes:
        """The curves of a certificate that was exported, as JSON."""
        work = partial(_curves, content, self.limits)
        return await asyncio.get_running_loop().run_in_executor(self._certificate_reader, work)

    async def decision(self, request: ServedRequest[DecideRequest]) -> bytes:
        """The finished request's decision, as JSON."""
        self._check(request)
        self.metrics.took(request.seconds)
        return to_json(self._decision(request))

    def stop(self, identity: str) -> bool:
        """Stop a request; whether there was one of that name."""
        request = self._open.get(identity)
        if request is not None:
            request.stop()
        return request is not None

    def stop_all(self) -> None:
        """The service is about to close: streams end with what they have."""
        for request in list(self._open.values()):
            request.stop(OutOfTime("the service is closing"))

    def forget(self, request: AnyServed) -> None:
        """Its caller has the answer, or has gone: the device must not work for it any longer."""
        request.stop()
        self._open.pop(request.id, None)

    async def certify_events(self, pending: "PendingCertificate", changed: asyncio.Event) -> AsyncIterator[Event]:
        """What a watcher sees: counts as they grow, a certificate at each planned look, and the last one to keep.

        A look's certificate has its share of alpha; whoever stops keeps that of the last look.
        """
        request = pending.request
        yield _accepted(request, [look.n for look in request.inner.looks])
        told = 0
        async for event in self._sampling(request, changed):
            yield event
            if told < len(request.inner.looked) and not request.over:
                told = len(request.inner.looked)
                yield {"event": "look", **(await self.bounded(partial(self._view, pending, told, last=False)))}
        kind, looked = "done" if request.error is None else "stopped", len(request.inner.looked)
        if looked:
            self.metrics.took(request.seconds)
            document = await self.bounded(partial(self._document, pending, looked))
            view = await self.bounded(partial(self._view, pending, looked, last=True))
            yield {"event": kind, "certificate": document, "view": view, **_trouble(request)}
        else:
            yield {"event": kind, "certificate": None, "view": None, **_trouble(request)}

    async def decide_events(
        self, request: ServedRequest[DecideRequest], changed: asyncio.Event
    ) -> AsyncIterator[Event]:
        """What a watcher sees of a question on the way to its answer."""
        yield _accepted(request, [])
        async for event in self._sampling(request, changed):
            if event["event"] == "progress":
                event["evidence"] = request.inner.test.progress
            yield event
        if request.error is None:
            self.metrics.took(request.seconds)
            decision = self._decision(request)
            yield {"event": "done", "decision": decision, "sure": format_confidence(decision["alpha"])}
        else:
            yield {"event": "stopped", "decision": None, **_trouble(request)}

    async def _sampling(self, request: AnyServed, changed: asyncio.Event) -> AsyncIterator[Event]:
        """The chosen class, some copies, and where the counts stand; a slow watcher misses steps, and delays nobody."""
        chosen = shown = False
        counted = 0
        while True:
            over = request.over
            if not chosen and request.selection is not None:
                chosen = True
                yield {"event": "chosen", **selection_view(request.selection)}
            if not shown and request.shown is not None:
                shown = True
                yield {"event": "copies", "copies": await self._on_reader(partial(self._copies, request))}
            evidence = request.evidence
            if evidence is not None and evidence.n > counted:
                counted = evidence.n
                yield {"event": "progress", **progress_view(evidence, request.wanted)}
            if over:
                return
            await changed.wait()
            changed.clear()

    def _copies(self, request: AnyServed) -> list[dict[str, Any]]:
        assert request.shown is not None
        smoothed = self.served.smoothed
        span = NoiseSpan(request.x, request.seed, request.index, Counting.EVIDENCE, 0, len(request.shown))
        return copies_view(span, request.shown, smoothed.noise, smoothed.model.device)

    def _certificate(self, pending: "PendingCertificate", looked: int) -> Certificate:
        """Of the counts as they stood at the last of so many looks."""
        request = pending.request
        found, look = request.inner.looked[looked - 1], request.inner.looks[looked - 1]
        made = self.served.smoothed.provenance(request.seed, request.index, request.seconds)
        whole = pending.settings.certificate(found.selection, found.evidence, made)
        return replace(whole, alpha=pending.alpha, share=look.share)

    def _document(self, pending: "PendingCertificate", looked: int) -> Event:
        """The certificate for JSON, and who chose its seed."""
        return {**self._certificate(pending, looked).to_dict(), "seeded_by": pending.request.seeded_by}

    def _view(self, pending: "PendingCertificate", looked: int, *, last: bool) -> Event:
        return certificate_view(self._certificate(pending, looked), seeded_by=pending.request.seeded_by, last=last)

    def _decision(self, request: ServedRequest[DecideRequest]) -> Event:
        return {
            **decision_view(request.answer),
            "measure": request.inner.measure,
            "index": request.index,
            "n0": request.n0,
            **noise_fields(self.served.smoothed.noise),
            "seeded_by": request.seeded_by,
        }

    def _submit(self, request: AnyServed) -> None:
        self.scheduler.submit(request)
        self._open[request.id] = request

    def _check(self, request: AnyServed) -> None:
        if request.error is not None:
            raise request.error

    async def _read(self, content: bytes, kind: str, *, leeway: float | None = None) -> torch.Tensor:
        return await self._on_reader(partial(self._input, content, kind, leeway))

    def _input(self, content: bytes, kind: str, leeway: float | None) -> torch.Tensor:
        given = read_input(content, kind, self.served.shape)
        smoothed = self.served.smoothed
        return as_input(given, smoothed.inputs, smoothed.noise, leeway=leeway)

    async def _on_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    async def bounded(self, work: Callable[[], T]) -> T:
        """Run what computes bounds, one after the other."""
        return await asyncio.get_running_loop().run_in_executor(self._bounds, work)


@dataclass(frozen=True, eq=False)
class PendingCertificate:
    """A certificate on the way: its request, what is asked of its last look, and the alpha of all looks."""

    request: ServedRequest[LooksRequest]
    settings: Settings
    alpha: float


def to_json(document: Event) -> bytes:
    """Strict JSON: no NaN."""
    return json.dumps(document, allow_nan=False).encode()


def _curves(content: bytes, limits: Limits) -> bytes:
    with not_kept():
        found = read_certificate(content, limits)
        return to_json(certificate_view(found.certificate, seeded_by=found.seeded_by))


def _who_chose(question: CertifyQuestion | DecideQuestion) -> str:
    """Who chose the seed: a caller who did could have tried many."""
    return "service" if question.seed is None else "caller"


def _check_triage(triage: Triage, smoothed: SmoothedClassifier, limits: Limits) -> None:
    """Refuse a rule that was chosen for something else than what is served."""
    triage.check_network(smoothed.fingerprint)
    origin, here = triage.origin, smoothed.provenance(0, 0, 0.0)
    got = (smoothed.noise, here.model, here.precision)
    if got != origin.network:
        raise InvalidArgument(
            f"the triage was chosen for {origin}, and this service has {got[0].title}, the model {got[1]} and {got[2]}; "
            f"serve what was calibrated, or calibrate what is served"
        )
    copies_of("the n of the triage", triage.n, limits)


def _accepted(request: AnyServed, looks: list[int]) -> Event:
    """The request's name, for stopping it, and the input as it was understood."""
    return {
        "event": "accepted",
        "id": request.id,
        "n": request.wanted,
        "looks": looks,
        "input": pixels_view(request.x.numpy(), side=256),
    }


def _trouble(request: AnyServed) -> Event:
    return {} if request.error is None else {"error": str(request.error)}
