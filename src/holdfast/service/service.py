"""The service without its HTTP: a model, its device, and what is made of a body and a question."""

import secrets
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch

from holdfast.bands.calibration import not_kept
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.describe import format_confidence
from holdfast.certificates.settings import Settings
from holdfast.inputs import GridInput, grid_input
from holdfast.noise import derived_seed, sampled_noise, secret_seed
from holdfast.sampling import CertifyRequest, DecideRequest
from holdfast.sampling.engine import Workload
from holdfast.sampling.local import LocalSampler
from holdfast.sampling.requests import LooksRequest
from holdfast.sequential import SequentialTest
from holdfast.sequential.looks import Look, plan_looks
from holdfast.service.batch_scheduler import BatchScheduler
from holdfast.service.certificate_upload import read_certificate
from holdfast.service.connection import Upload
from holdfast.service.limits import Limits
from holdfast.service.questions import CertifyQuestion, DecideQuestion, Question, copies_of, measure_of
from holdfast.service.refusals import Refusal
from holdfast.service.requests import AnyServed, R, ServedRequest
from holdfast.service.shares import FairPool
from holdfast.service.uploads import read_input
from holdfast.service.views import (
    certificate_view,
    copies_view,
    curve_view,
    decision_view,
    pixels_view,
    progress_view,
    selection_view,
    verdict_view,
)
from holdfast.smoothed import SmoothedClassifier
from holdfast.triage import Triage
from holdfast.triage.drift import DriftWatch
from holdfast.zoo.datasets.labelled import LabelledData

_THREADS = 4
SHOWN = 18
"""Noisy copies that a watcher gets to see."""

Event = dict[str, Any]
Watched = tuple[AnyServed, AsyncIterator[Event]]
"""A request, and what a watcher sees of it."""


@dataclass(frozen=True, eq=False)
class Served:
    """What is served: a smoothed classifier for inputs of one shape, and what is known about it.

    ``samples`` are inputs that a visitor may pick. ``triage`` says from which confidence on a class is accepted; each next
    ``drift_every`` of its inputs are compared with the calibration inputs.
    """

    smoothed: SmoothedClassifier
    shape: tuple[int, ...]
    name: str = "model"
    labels: tuple[str, ...] = ()
    samples: LabelledData | None = field(default=None, repr=False)
    triage: Triage | None = field(default=None, repr=False)
    drift_every: int = 500


class Service:
    """Answers questions. One thread runs copies; others read uploads and make certificates of counts, one thing at a time for a caller.

    An answer is a coroutine: when it is cancelled, the device does not work for it any longer.
    """

    def __init__(self, served: Served, limits: Limits, secret: bytes | None = None) -> None:
        self.served = served
        self.limits = limits
        self.measures = tuple(measure.info for measure in served.smoothed.measures)
        smoothed, triage = served.smoothed, served.triage
        if triage is not None:
            copies_of("the n of the triage", triage.n, limits)
            smoothed.triage(np.full(served.shape, 0.5), triage)  # refused if it was chosen for something else
        self.drift = DriftWatch(triage.scores, served.drift_every) if triage and triage.scores else None
        # The model is checked here: one that is no classifier is refused before the first visitor comes.
        # One grid for all callers: the triage's, the classifier's, or that of images of bytes.
        usual, _, _ = smoothed.at(np.zeros(served.shape), 0, 0)
        self.step = usual.step if triage is None else triage.origin.step
        work = Workload(smoothed.noise, self.step, smoothed.measures, torch.full(served.shape, 0.5), copies=1)
        sampler = LocalSampler(smoothed.model, work)
        self.scheduler = BatchScheduler(sampler, queue=limits.queue)
        self.metrics = self.scheduler.metrics
        self._pool = FairPool(_THREADS, "holdfast-bounds")
        self._secret = secret or secrets.token_bytes(32)

    def close(self) -> None:
        """Stop all work and wait for the threads."""
        self.scheduler.close()
        self._pool.close()

    async def certify(self, upload: Upload, question: CertifyQuestion) -> Event:
        """A certificate with all of alpha."""
        pending = await self._pending(upload, question, watched=False)
        await self._sampled(pending.request)
        return await self._pool.run(upload.caller.name, lambda: self._document(pending, 1))

    async def decide(self, upload: Upload, question: DecideQuestion) -> Event:
        """A decision."""
        request = await self._decide_request(upload, question, watched=False)
        await self._sampled(request)
        return self._decided(request)

    async def triage(self, upload: Upload) -> Event:
        """What is done with an input.

        Its noise is drawn anew each time and never told: the rule's guarantee is about inputs that were chosen without
        having seen it, and whoever had found an input that is wrongly accepted could otherwise send it again and again.
        """
        triage = self.served.triage
        if triage is None:
            raise Refusal(404, "this service has no triage: no rule by which to accept an input or hand it over")
        at = await self._read(upload, leeway=triage.radius)
        inner = CertifyRequest(at.x, secret_seed(), 0, triage.n0, triage.n, shift=at.shift)
        request = ServedRequest(inner, caller=upload.caller.name)
        await self._sampled(request)
        made = self.served.smoothed.provenance(self.step, **request.keyed)
        certificate = triage.settings.certificate(request.answer.selection, request.answer.evidence, made)
        found = await self._pool.run(upload.caller.name, lambda: triage.decide(certificate))
        if self.drift is not None:
            await self._pool.run("drift", partial(self.drift.add, triage.score(certificate)))
        return {**verdict_view(found, triage), **self._named(found.predicted)}

    async def read(self, upload: Upload) -> Event:
        """The curves of a certificate that was exported. It takes turns of its own: it may take long."""
        return await self._pool.run(f"{upload.caller.name} reads", lambda: _curves(upload.content, self.limits))

    async def watch_certify(self, upload: Upload, question: CertifyQuestion) -> Watched:
        """A certificate while one watches: alpha is divided among the planned looks."""
        pending = await self._pending(upload, question, watched=True)
        self.scheduler.submit(pending.request)
        return pending.request, self._certify_events(pending)

    async def watch_decide(self, upload: Upload, question: DecideQuestion) -> Watched:
        """A decision while one watches, which costs no alpha."""
        request = await self._decide_request(upload, question, watched=True)
        self.scheduler.submit(request)
        return request, self._decide_events(request)

    async def _pending(self, upload: Upload, question: CertifyQuestion, *, watched: bool) -> "PendingCertificate":
        """Check everything about a certificate; refused if its last look could certify nothing."""
        n = copies_of("n", question.n, self.limits)
        looks = plan_looks(n) if watched else (Look(n, 1.0),)
        asked = Settings(n, question.n0, question.alpha * looks[-1].share, question.claims, question.sides)
        settings = await self._pool.run(
            upload.caller.name, lambda: asked.resolved(self.measures, self.served.smoothed.noise)
        )

        def make(at: GridInput, seed: int, index: int) -> LooksRequest:
            return LooksRequest(at.x, seed, index, question.n0, n, looks, shift=at.shift)

        request = await self._keyed("certify", upload, question, make, watched=watched)
        return PendingCertificate(request, settings, question)

    async def _decide_request(
        self, upload: Upload, question: DecideQuestion, *, watched: bool
    ) -> ServedRequest[DecideRequest]:
        """Check everything about a decision."""
        n_max = copies_of("n_max", question.n_max, self.limits)
        measure = measure_of(question.measure, self.measures)
        test = partial(
            SequentialTest,
            at_least=question.at_least,
            radius=question.radius,
            support=measure.support,
            alpha=question.alpha,
            n_max=n_max,
        )
        noise = self.served.smoothed.noise
        test(noise=noise)  # refused before the input is read

        def make(at: GridInput, seed: int, index: int) -> DecideRequest:
            deciding = test(noise=sampled_noise(noise, self.step, at.shift))
            return DecideRequest(at.x, seed, index, question.n0, n_max, deciding, measure.name)

        return await self._keyed("decide", upload, question, make, watched=watched)

    async def _keyed(
        self, kind: str, upload: Upload, question: Question, make: Callable[[GridInput, int, int], R], *, watched: bool
    ) -> ServedRequest[R]:
        """A request about the input in a body, with the noise that its caller is to have."""
        chosen = question.chosen_seed(self.limits, upload.caller)
        at = await self._read(upload)
        seed = derived_seed(self._secret, kind, at.x) if chosen is None else chosen
        inner = make(at, seed, question.index or 0)
        shown = SHOWN if watched else 0
        return ServedRequest(inner, caller=upload.caller.name, watched=shown, seeded_by=question.seeded_by)

    async def _read(self, upload: Upload, *, leeway: float | None = None) -> GridInput:
        smoothed = self.served.smoothed

        def read() -> GridInput:
            x = read_input(upload.content, upload.kind, self.served.shape)
            return grid_input(x, smoothed.inputs, smoothed.noise, self.step, leeway=leeway)

        return await self._pool.run(upload.caller.name, read)

    async def _sampled(self, request: AnyServed) -> None:
        """Have a request sampled to its end; if nobody waits for that any more, it is stopped."""
        self.scheduler.submit(request)
        try:
            async for _ in request.changes():
                pass
        finally:
            request.stop()
        if request.error is not None:
            raise request.error

    async def _certify_events(self, pending: "PendingCertificate") -> AsyncIterator[Event]:
        """What a watcher sees: counts as they grow, a certificate at each planned look, and the last one to keep.

        A look's certificate has its share of alpha; whoever stops keeps that of the last look.
        """
        request = pending.request
        yield _accepted(request, [look.n for look in request.inner.looks])
        told = 0
        async for event in self._sampling(request):
            yield event
            if told < len(request.inner.looked) and not request.over:
                told = len(request.inner.looked)
                look = await self._pool.run(request.caller, partial(self._view, pending, told, last=False))
                yield {"event": "look", **look}
        last: Event = {"certificate": None, "view": None}
        if looked := len(request.inner.looked):
            certificate = await self._pool.run(request.caller, lambda: self._document(pending, looked))
            view = await self._pool.run(request.caller, lambda: self._view(pending, looked, last=True))
            last = {"certificate": certificate, "view": view}
        yield _ended(request, last)

    async def _decide_events(self, request: ServedRequest[DecideRequest]) -> AsyncIterator[Event]:
        """What a watcher sees of a question on the way to its answer."""
        yield _accepted(request, [])
        async for event in self._sampling(request):
            if event["event"] == "progress":
                event["evidence"] = request.inner.test.progress
            yield event
        last: Event = {"decision": None}
        if request.error is None:
            last = {"decision": self._decided(request), "sure": format_confidence(request.answer.alpha)}
        yield _ended(request, last)

    def _decided(self, request: ServedRequest[DecideRequest]) -> Event:
        decision = decision_view(request, self.served.smoothed.noise)
        return {**decision, **self._named(decision["predicted"])}

    async def _sampling(self, request: AnyServed) -> AsyncIterator[Event]:
        """The chosen class, some copies, and where the counts stand; a slow watcher misses steps, and delays nobody."""
        chosen = shown = False
        counted = 0
        async for _ in request.changes():
            if not chosen and request.selection is not None and request.selection.n0 == request.n0:
                chosen = True
                chosen_class = selection_view(request.selection)
                yield {"event": "chosen", **chosen_class, **self._named(chosen_class["predicted"])}
            if not shown and request.shown is not None:
                shown = True
                copies = await self._pool.run(
                    request.caller, lambda: copies_view(request, self.served.smoothed, self.step)
                )
                yield {"event": "copies", "copies": copies}
            evidence = request.evidence
            if evidence is not None and evidence.n > counted:
                counted = evidence.n
                yield {"event": "progress", **progress_view(evidence, request.n)}

    def _certificate(self, pending: "PendingCertificate", looked: int) -> Certificate:
        """Of the counts as they stood at the last of so many looks."""
        request = pending.request
        found, look = request.inner.looked[looked - 1], request.inner.looks[looked - 1]
        made = self.served.smoothed.provenance(self.step, **request.keyed)
        whole = pending.settings.certificate(found.selection, found.evidence, made)
        return replace(whole, alpha=pending.question.alpha, share=look.share)

    def _view(self, pending: "PendingCertificate", looked: int, *, last: bool) -> Event:
        return certificate_view(self._certificate(pending, looked), seeded_by=pending.request.seeded_by, last=last)

    def _document(self, pending: "PendingCertificate", looked: int) -> Event:
        """The certificate for JSON; what the class is called, who chose its seed, and its bounds at the radii asked for."""
        certificate = self._certificate(pending, looked)
        document = {
            **certificate.to_dict(),
            "seeded_by": pending.request.seeded_by,
            **self._named(certificate.predicted),
        }
        if pending.question.radii is not None:
            radii = np.array(pending.question.radii, dtype=np.float64)
            curves = {name: curve_view(curve, radii) for name, curve in certificate.curves.items()}
            document["bounds"] = {"radii": radii.tolist(), **curves}
        return document

    def _named(self, predicted: int | None) -> Event:
        """What the class is called, if that is known."""
        labels = self.served.labels
        return {} if predicted is None or predicted >= len(labels) else {"label": labels[predicted]}


@dataclass(frozen=True, eq=False)
class PendingCertificate:
    """A certificate on the way: its request, and what is asked of its last look and of all looks."""

    request: ServedRequest[LooksRequest]
    settings: Settings
    question: CertifyQuestion


def _curves(content: bytes, limits: Limits) -> Event:
    with not_kept():
        certificate, seeded_by = read_certificate(content, limits)
        return certificate_view(certificate, seeded_by=seeded_by)


def _accepted(request: AnyServed, looks: list[int]) -> Event:
    """The request's name, for stopping it, and the input as it was understood."""
    return {
        "event": "accepted",
        "id": request.id,
        "n": request.n,
        "looks": looks,
        "input": pixels_view(request.x.numpy(), side=256),
    }


def _ended(request: AnyServed, last: Event) -> Event:
    """The last event: what there is, and why it ended early if it did."""
    trouble = {} if request.error is None else {"error": str(request.error)}
    return {"event": "stopped" if trouble else "done", **last, **trouble}
