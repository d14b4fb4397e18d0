"""The service without its HTTP: a model, its device, and what is made of a body and a question."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from holdfast.bands.calibration import not_kept
from holdfast.certificates.certificate import Certificate, format_confidence
from holdfast.errors import InvalidArgument
from holdfast.measures import MeasureInfo
from holdfast.noise import noise_fields, secret_seed
from holdfast.noise.drawing.blocks import block_rows
from holdfast.sampling import Task
from holdfast.sampling.inputs import as_input
from holdfast.sequential import SequentialTest
from holdfast.sequential.looks import Look, plan_looks
from holdfast.serve.certificate_upload import read_certificate
from holdfast.serve.device import Device
from holdfast.serve.jobs import Asked, CertifyJob, DecideJob, Job
from holdfast.serve.limits import Limits
from holdfast.serve.metrics import Metrics
from holdfast.serve.questions import CertifyQuestion, DecideQuestion, claims_of, copies_of, measure_of
from holdfast.serve.refusals import OutOfTime, Unknown
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
from holdfast.smoothed import Settings, SmoothedClassifier, triage_settings
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
        # Asking the model once refuses one that is no classifier before the first visitor comes.
        self._like = np.full(served.shape, 0.5, dtype=np.float32)
        engine = served.smoothed.engine(self._like)
        self.device = Device(engine, queue=limits.queue, block=block_rows(served.shape))
        self.metrics = Metrics(self.device)
        self._reader = ThreadPoolExecutor(1, "holdfast-reader")
        self._desk = ThreadPoolExecutor(1, "holdfast-desk")
        self._archive = ThreadPoolExecutor(1, "holdfast-archive")
        self._open: dict[str, Job] = {}

    def start(self) -> None:
        """Begin to work."""
        self.device.start()

    def close(self) -> None:
        """Stop all work and wait for the threads."""
        self.device.close()
        self._reader.shutdown(cancel_futures=True)
        self._desk.shutdown(cancel_futures=True)
        self._archive.shutdown(cancel_futures=True)

    async def certify_job(self, content: bytes, kind: str, question: CertifyQuestion, *, watched: bool) -> "Certifying":
        """Check everything, and let the device begin."""
        n = copies_of("n", question.n, self.limits)
        seed = question.known_seed(self.limits)
        looks = plan_looks(n) if watched else (Look(n, 1.0),)
        settings = await self.at_desk(partial(_settings, question, looks[-1], self.measures))
        x = await self._read(content, kind)
        job = CertifyJob(Asked(x, seed, question.index, question.n0), looks, watched=SHOWN if watched else 0)
        self._submit(job)
        return Certifying(job, settings, question.alpha, _who_chose(question))

    async def decide_job(self, content: bytes, kind: str, question: DecideQuestion, *, watched: bool) -> DecideJob:
        """Check everything, and let the device begin."""
        n_max = copies_of("n_max", question.n_max, self.limits)
        seed = question.known_seed(self.limits)
        measure = measure_of(question.measure, self.measures)
        deciding = SequentialTest(
            at_least=question.at_least,
            radius=question.radius,
            noise=self.served.smoothed.noise,
            support=measure.support,
            alpha=question.alpha,
            n_max=n_max,
        )
        x = await self._read(content, kind)
        asked = Asked(x, seed, question.index, question.n0)
        job = DecideJob(asked, deciding, measure.name, seeded_by=_who_chose(question), watched=SHOWN if watched else 0)
        self._submit(job)
        return job

    async def triage_job(self, content: bytes, kind: str) -> "Certifying":
        """Check everything, and let the device begin. The seed is always secret: a caller who knew it could choose the input for it."""
        triage = self._triage()
        x = await self._read(content, kind, leeway=triage.radius)
        settings = triage_settings(triage)
        job = CertifyJob(Asked(x, secret_seed(), 0, triage.n0), (Look(triage.n, 1.0),), watched=0)
        self._submit(job)
        return Certifying(job, settings, settings.alpha, "service")

    async def verdict(self, certifying: "Certifying") -> bytes:
        """What is done with the finished job's input, as JSON."""
        job, triage = certifying.job, self._triage()
        self._check(job)
        self.metrics.took(job.seconds)
        found = await self.at_desk(lambda: triage.decide(self._certificate(certifying, len(job.looks))))
        return to_json(verdict_view(found, triage))

    def _triage(self) -> Triage:
        if self.served.triage is None:
            raise Unknown("this service was started without --triage: it has no rule by which to accept or hand over")
        return self.served.triage

    async def certificate(self, certifying: "Certifying") -> bytes:
        """The finished job's certificate, as JSON."""
        job = certifying.job
        self._check(job)
        self.metrics.took(job.seconds)
        return await self.at_desk(lambda: to_json(self._document(certifying, len(job.looks))))

    async def read(self, content: bytes) -> bytes:
        """The curves of a certificate that was exported, as JSON."""
        work = partial(_curves, content, self.limits)
        return await asyncio.get_running_loop().run_in_executor(self._archive, work)

    async def decision(self, job: DecideJob) -> bytes:
        """The finished job's decision, as JSON."""
        self._check(job)
        self.metrics.took(job.seconds)
        return to_json(self._decision(job))

    def stop(self, identity: str) -> bool:
        """Stop a job; whether there was one of that name."""
        job = self._open.get(identity)
        if job is not None:
            job.stop()
        return job is not None

    def stop_all(self) -> None:
        """The service is about to close: streams end with what they have."""
        for job in list(self._open.values()):
            job.stop(OutOfTime("the service is closing"))

    def forget(self, job: Job) -> None:
        """Its caller has the answer, or has gone: the device must not work for it any longer."""
        job.stop()
        self._open.pop(job.id, None)

    async def certify_events(self, certifying: "Certifying", changed: asyncio.Event) -> AsyncIterator[Event]:
        """What a watcher sees: counts as they grow, a certificate at each planned look, and the last one to keep.

        A look's certificate has its share of alpha; whoever stops keeps that of the last look.
        """
        job = certifying.job
        yield _accepted(job, [look.n for look in job.looks])
        told = 0
        async for event in self._sampling(job, changed):
            yield event
            if told < len(job.looked) and not job.over:
                told = len(job.looked)
                yield {"event": "look", **(await self.at_desk(partial(self._view, certifying, told, last=False)))}
        kind, looked = "done" if job.error is None else "stopped", len(job.looked)
        if looked:
            self.metrics.took(job.seconds)
            document = await self.at_desk(partial(self._document, certifying, looked))
            view = await self.at_desk(partial(self._view, certifying, looked, last=True))
            yield {"event": kind, "certificate": document, "view": view, **_trouble(job)}
        else:
            yield {"event": kind, "certificate": None, "view": None, **_trouble(job)}

    async def decide_events(self, job: DecideJob, changed: asyncio.Event) -> AsyncIterator[Event]:
        """What a watcher sees of a question on the way to its answer."""
        yield _accepted(job, [])
        async for event in self._sampling(job, changed):
            if event["event"] == "progress":
                event["evidence"] = job.deciding.progress
            yield event
        if job.error is None:
            self.metrics.took(job.seconds)
            decision = self._decision(job)
            yield {"event": "done", "decision": decision, "sure": format_confidence(decision["alpha"])}
        else:
            yield {"event": "stopped", "decision": None, **_trouble(job)}

    async def _sampling(self, job: Job, changed: asyncio.Event) -> AsyncIterator[Event]:
        """The chosen class, some copies, and where the counts stand; a slow watcher misses steps, and delays nobody."""
        chosen = shown = False
        counted = 0
        while True:
            over = job.over
            if not chosen and job.selection is not None:
                chosen = True
                yield {"event": "chosen", **selection_view(job.selection)}
            if not shown and job.peeked is not None:
                shown = True
                if not job.peeked:  # the device could not show any
                    continue
                yield {"event": "copies", "copies": await self._on_reader(partial(self._copies, job))}
            evidence = job.evidence
            if evidence is not None and evidence.n > counted:
                counted = evidence.n
                yield {"event": "progress", **progress_view(evidence, job.wanted)}
            if over:
                return
            await changed.wait()
            changed.clear()

    def _copies(self, job: Job) -> list[dict[str, Any]]:
        asked, device = job.asked, torch.device(self.served.smoothed.provenance(0, 0, 0.0).device)
        assert job.peeked is not None
        task = Task(asked.index, asked.x, 0, len(job.peeked), seed=asked.seed)
        return copies_view(task, job.peeked, self.served.smoothed.noise, device)

    def _certificate(self, certifying: "Certifying", looked: int) -> Certificate:
        """Of the counts as they stood at the last of so many looks."""
        job, settings = certifying.job, certifying.settings
        assert job.selection is not None
        return Certificate(
            predicted=job.selection.predicted,
            n0=settings.n0,
            alpha=certifying.alpha,
            claims=tuple(settings.claims or ()),
            sides="both" if settings.sides == "both" else "lower",
            method=settings.method,
            evidence=job.looked[looked - 1],
            provenance=self.served.smoothed.provenance(job.asked.seed, job.asked.index, job.seconds),
            share=job.looks[looked - 1].share,
        )

    def _document(self, certifying: "Certifying", looked: int) -> Event:
        """The certificate for JSON, and who chose its seed."""
        return {**self._certificate(certifying, looked).to_dict(), "seeded_by": certifying.seeded_by}

    def _view(self, certifying: "Certifying", looked: int, *, last: bool) -> Event:
        return certificate_view(self._certificate(certifying, looked), seeded_by=certifying.seeded_by, last=last)

    def _decision(self, job: DecideJob) -> Event:
        decision, selection = job.deciding.decision, job.selection
        assert decision is not None
        assert selection is not None
        asked = job.asked
        return {
            **decision_view(replace(decision, predicted=selection.predicted, seed=asked.seed)),
            "measure": job.measure,
            "index": asked.index,
            "n0": asked.n0,
            **noise_fields(self.served.smoothed.noise),
            "seeded_by": job.seeded_by,
        }

    def _submit(self, job: Job) -> None:
        self.device.submit(job)
        self._open[job.id] = job

    def _check(self, job: Job) -> None:
        if job.error is not None:
            raise job.error

    async def _read(self, content: bytes, kind: str, *, leeway: float | None = None) -> torch.Tensor:
        return await self._on_reader(partial(self._input, content, kind, leeway))

    def _input(self, content: bytes, kind: str, leeway: float | None) -> torch.Tensor:
        given = read_input(content, kind, self.served.shape)
        smoothed = self.served.smoothed
        return as_input(given, smoothed.inputs, smoothed.sigma, leeway=leeway)

    async def _on_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._reader, work)

    async def at_desk(self, work: Callable[[], T]) -> T:
        """Run what computes bounds, one after the other."""
        return await asyncio.get_running_loop().run_in_executor(self._desk, work)


@dataclass(frozen=True, eq=False)
class Certifying:
    """A certificate on the way: its job, what is asked of its last look, the alpha of all looks, and who chose the seed."""

    job: CertifyJob
    settings: Settings
    alpha: float
    seeded_by: str


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


def _settings(question: CertifyQuestion, last: Look, measures: Sequence[MeasureInfo]) -> Settings:
    """What is asked of the last look; refused if it could certify nothing."""
    claims = claims_of(question.claims, measures)
    return Settings(last.n, question.n0, question.alpha * last.share, claims, question.sides, measures=measures)


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


def _accepted(job: Job, looks: list[int]) -> Event:
    """The request's name, for stopping it, and the input as it was understood."""
    return {
        "event": "accepted",
        "id": job.id,
        "n": job.wanted,
        "looks": looks,
        "input": pixels_view(job.asked.x.numpy(), side=256),
    }


def _trouble(job: Job) -> Event:
    return {} if job.error is None else {"error": str(job.error)}
