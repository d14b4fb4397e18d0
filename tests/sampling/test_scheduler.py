"""The scheduler: requests of every kind, cut into jobs that come back in any order; no cluster needed."""

import gc
import pickle
import random
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.certificates.evidence import Evidence, Selection
from holdfast.errors import ModelError, UnsteadyModel
from holdfast.models import TorchModel
from holdfast.noise import BYTE, Gaussian
from holdfast.sampling import CertifyRequest, DecideRequest, Local, RadiusRequest
from holdfast.sampling.requests import AnyRequest, ClassesRequest, LooksRequest, Sampled, Step
from holdfast.sampling.scheduler import Done, Executor, Job, JobSizer, Scheduler
from holdfast.sampling.span import Counting, Counts, NoiseSpan
from holdfast.sequential import SequentialTest
from holdfast.sequential.looks import plan_looks
from holdfast.sequential.radius import RadiusSearch
from networks import images, small_net
from spans import sampler

NOISE = Gaussian(0.2)
MODEL = TorchModel(small_net())
INPUTS = [torch.from_numpy(image) for image in images(7)]
SAMPLER = sampler(MODEL, NOISE)
BLOCK = 1_000


class OutOfOrder(Executor):
    """Runs jobs in a random order, a few under way at a time and one or two coming back at once; some are run twice."""

    def __init__(
        self, seed: int = 0, in_flight: int = 4, count: Callable[[list[NoiseSpan]], list[Counts]] = SAMPLER.count
    ) -> None:
        self._chance = random.Random(seed)
        self._in_flight = in_flight
        self._count = count
        self._under_way: list[Job] = []
        self.jobs: list[Job] = []

    @property
    def has_room(self) -> bool:
        return len(self._under_way) < self._in_flight

    def submit(self, job: Job) -> None:
        assert self.has_room
        self._under_way.append(job)
        self.jobs.append(job)

    def wait(self) -> list[Done]:
        self._chance.shuffle(self._under_way)
        back = [self._under_way.pop() for _ in range(min(self._chance.choice((1, 2)), len(self._under_way)))]
        return [self._run(job) for job in back]

    def _run(self, job: Job) -> Done:
        for _ in range(self._chance.choice((1, 1, 1, 2))):  # a lost worker's counts are never seen
            try:
                counts: Sequence[Counts] | Exception = pickle.loads(
                    pickle.dumps(self._count(pickle.loads(pickle.dumps(job.spans))))
                )
            except ModelError as error:
                counts = error
        return Done(job, counts, 0.01)


class Fixed(JobSizer):
    """Never learns."""

    def learn(self, copies: int, seconds: float) -> None:
        pass


def sizer(copies: int, *, together: bool = True, sharing: int = 1, most_open: int = 64) -> JobSizer:
    return Fixed(copies, 1.0, together=together, sharing=sharing, most_open=most_open)


def certify(k: int, n: int = 1_700) -> CertifyRequest:
    return CertifyRequest(INPUTS[k % 7], 5, 3 * k, 40, n, position=k)


def decide(k: int) -> DecideRequest:
    test = SequentialTest(at_least=0.3, radius=0.1, noise=NOISE, support=(0.0, 1.0), alpha=0.001, n_max=2_000)
    return DecideRequest(INPUTS[k], 5, k, 40, 2_000, test, "score", position=k)


def radius(k: int) -> RadiusRequest:
    search = RadiusSearch(at_least=0.3, within=0.02, alpha=0.001, n_max=2_000)
    return RadiusRequest(INPUTS[k], 5, k, 40, 2_000, search, "score", NOISE, position=k)


def classes(k: int) -> ClassesRequest:
    return ClassesRequest(INPUTS[k], 5, k, 40, 1_300, position=k)


def looks(k: int) -> LooksRequest:
    return LooksRequest(INPUTS[k], 5, k, 40, 1_700, plan_looks(1_700), position=k)


KINDS: list[Callable[[int], AnyRequest]] = [certify, decide, radius, classes, looks]


def by_hand(request: AnyRequest) -> object:
    """The result of a request whose spans are counted one step after the other, without any scheduler."""
    steps = request.steps()
    spans = next(steps)
    while True:
        try:
            spans = steps.send(SAMPLER.count(spans))
        except StopIteration as end:
            return end.value


def plain(result: object) -> object:
    """What can be compared."""
    if isinstance(result, Sampled):
        return plain(result.selection), result.evidence
    return (result.n0, result.sums.tolist()) if isinstance(result, Selection) else result


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_chooses_its_class_first_and_counts_no_copy_twice(kind: Callable[[int], AnyRequest]) -> None:
    executor, request = OutOfOrder(), kind(1)
    list(Scheduler(executor, sizer(10**9)).run([request]))
    choosing, *counting = (span for job in executor.jobs for span in job.spans)
    assert (choosing.counting, choosing.start, choosing.stop) == (Counting.SELECTION, 0, request.n0)
    assert [span.start for span in counting] == [0, *(span.stop for span in counting[:-1])]
    assert counting[-1].stop <= request.n


@pytest.mark.parametrize("copies", [150, 2_000, 10**9])
@pytest.mark.parametrize("kind", KINDS)
def test_jobs_of_any_size_in_any_order_give_what_spans_counted_by_hand_give(
    kind: Callable[[int], AnyRequest], copies: int
) -> None:
    scheduler = Scheduler(OutOfOrder(copies), sizer(copies))
    found = [plain(request.answer) for request in scheduler.run([kind(k) for k in range(5)])]
    assert found == [plain(by_hand(kind(k))) for k in range(5)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_local_engine_gives_what_spans_counted_by_hand_give(kind: Callable[[int], AnyRequest]) -> None:
    found = [
        plain(request.answer) for request in Local().run(MODEL, NOISE, [kind(k) for k in range(3)], step=BYTE, batch=64)
    ]
    assert found == [plain(by_hand(kind(k))) for k in range(3)]


def test_requests_of_different_kinds_share_jobs_and_change_nothing() -> None:
    executor = OutOfOrder(3)
    mixed = [kind(k) for k in range(3) for kind in KINDS]
    found = [plain(request.answer) for request in Scheduler(executor, sizer(3_000)).run(mixed)]
    assert found == [plain(by_hand(kind(k))) for k in range(3) for kind in KINDS]
    assert any(len({type(request) for request in job.requests}) > 1 for job in executor.jobs)


def test_a_look_keeps_what_was_seen_by_then() -> None:
    request = looks(2)
    list(Scheduler(OutOfOrder(1), sizer(600)).run([request]))
    assert [seen.evidence.n for seen in request.looked] == [look.n for look in plan_looks(1_700)]
    for seen in request.looked:
        early = CertifyRequest(INPUTS[2], 5, 2, 40, seen.evidence.n)
        assert plain(seen) == plain(by_hand(early))


@pytest.mark.parametrize("in_order", [True, False])
def test_requests_come_back_in_their_order_or_as_soon_as_they_are_finished(in_order: bool) -> None:
    requests = [certify(0, n=9_000), *(certify(k, n=300) for k in range(1, 7))]
    scheduler = Scheduler(OutOfOrder(2), sizer(1_000), in_order=in_order)
    places = [request.position for request in scheduler.run(requests)]
    assert sorted(places) == list(range(7))
    assert (places == list(range(7))) == in_order


def test_the_last_jobs_are_smaller_where_several_run_at_once() -> None:
    executor = OutOfOrder()
    list(Scheduler(executor, Fixed(4_000, 1.0, least=100, parallel=4)).run(certify(k, n=9_000) for k in range(3)))
    sizes = [job.copies for job in executor.jobs]
    assert sum(sizes) == 3 * 9_040
    assert 3_000 <= max(sizes) <= 4_100
    assert max(sizes[-4:]) < 500


def test_cuts_are_where_blocks_of_noise_end() -> None:
    executor = OutOfOrder()
    list(Scheduler(executor, sizer(2_400)).run([certify(0, n=10_500)]))
    spans = [(span.start, span.stop) for job in executor.jobs for span in job.spans]
    assert spans == [(0, 40), (0, 2_000), *((k, k + 2_000) for k in range(2_000, 10_000, 2_000)), (10_000, 10_500)]


@pytest.mark.parametrize("together", [True, False])
def test_a_class_is_chosen_in_the_job_that_counts_for_it_or_in_one_before(together: bool) -> None:
    executor = OutOfOrder(in_flight=1)
    list(Scheduler(executor, sizer(10**9, together=together)).run(certify(k) for k in range(7)))
    assert len(executor.jobs) == (1 if together else 2)
    assert [isinstance(span.target, NoiseSpan) for span in executor.jobs[-1].spans].count(True) == (
        7 if together else 0
    )


def test_requests_are_finished_one_after_the_other_unless_they_share() -> None:
    executor = OutOfOrder(in_flight=1)
    list(Scheduler(executor, sizer(2_000)).run(certify(k, n=9_000) for k in range(3)))
    last = {span.index: number for number, job in enumerate(executor.jobs) for span in job.spans}
    assert list(last.values()) == sorted(set(last.values()))
    assert last[0] < 6


def test_a_job_is_divided_among_those_who_wait_and_what_wants_little_comes_along_first() -> None:
    executor = OutOfOrder(in_flight=1)
    requests = [*(certify(k, n=20_000) for k in range(3)), certify(3, n=100)]
    next(Scheduler(executor, sizer(4_000, sharing=4), in_order=False).run(requests))
    copies = {request.position: 0 for request in requests}
    for piece in executor.jobs[0].pieces:
        copies[piece.open.request.position] += piece.span.copies
    assert copies[3] == 140
    assert all(0 < copies[k] <= BLOCK for k in range(3))


def test_callers_share_equally_however_many_requests_each_has() -> None:
    executor = OutOfOrder(in_flight=1)
    many = [replace(certify(k, n=20_000), caller="many") for k in range(20)]
    one = replace(certify(20, n=20_000), caller="one")
    late = replace(certify(21, n=6_000), caller="late")

    def arriving() -> Iterator[CertifyRequest | None]:
        yield from many
        yield one
        while len(executor.jobs) < 6:
            yield None
        yield late

    finished = Scheduler(executor, sizer(4_000, sharing=8, most_open=64), in_order=False).run(arriving())
    assert next(finished) is late
    assert next(finished) is one
    copies = Counter[str]()
    for piece in (piece for job in executor.jobs for piece in job.pieces):
        copies[piece.open.request.caller] += piece.span.copies
    assert copies["one"] == 20_040
    assert 0.7 * copies["one"] < copies["many"] < 1.5 * copies["one"]


def test_a_long_selection_takes_turns_as_everything_else_does_and_chooses_the_same_class() -> None:
    executor = OutOfOrder(in_flight=1)
    long = [replace(certify(k), n0=30_000, caller="many") for k in range(5)]
    one = replace(certify(5, n=20_000), caller="one")
    finished = Scheduler(executor, sizer(4_000, sharing=8), in_order=False).run([*long, one])
    assert next(finished) is one
    copies = Counter(
        piece.open.request.caller for job in executor.jobs for piece in job.pieces for _ in range(piece.span.copies)
    )
    assert copies["many"] < 1.5 * copies["one"]
    assert max(job.copies for job in executor.jobs) < 4_000 + BLOCK
    list(finished)
    assert plain(long[0].answer) == plain(by_hand(long[0]))


@pytest.mark.parametrize(("copies", "expected"), [(1_400, 5), (280, 2), (140, 1)])
def test_no_more_requests_are_open_than_may_be_or_the_next_job_has_room_for(copies: int, expected: int) -> None:
    read = finished = most = 0

    def many() -> Iterator[CertifyRequest]:
        nonlocal read, most
        for _ in range(200):
            read += 1
            most = max(most, read - finished)
            yield certify(read, n=100)

    scheduler = Scheduler(OutOfOrder(1, in_flight=1), sizer(copies, most_open=5))
    for request in islice(scheduler.run(many()), 30):
        finished += 1
        assert request.position == finished
    assert most == expected


def test_work_goes_on_while_a_source_has_nothing_at_the_moment() -> None:
    first, second = certify(0), certify(1)

    def source() -> Iterator[AnyRequest | None]:
        yield None
        yield first
        while not first.over:
            yield None
        yield second

    found = list(Scheduler(OutOfOrder(), sizer(500)).run(source()))
    assert found == [first, second]
    assert [plain(each.answer) for each in found] == [plain(by_hand(certify(k))) for k in range(2)]


def test_seconds_are_divided_by_copies() -> None:
    executor = OutOfOrder()
    found = list(Scheduler(executor, sizer(10**9)).run([certify(0, n=360), certify(1, n=3_960)]))
    assert [request.seconds for request in found] == pytest.approx([0.01 * 0.1 / 1.1, 0.01 / 1.1])


class Forgiving(CertifyRequest):
    """Keeps its error, as those of a service do; one that is ``leaving`` is given up when its first counts come."""

    error: Exception | None = None
    leaving = False

    def counted(self, _: Counts) -> None:
        self.over = self.over or self.leaving

    def fail(self, error: Exception) -> None:
        self.error, self.over = error, True


def forgiving(k: int, n: int = 1_700) -> Forgiving:
    return Forgiving(INPUTS[k], 5, 3 * k, 40, n, position=k)


def refusing(index: int) -> Callable[[list[NoiseSpan]], list[Counts]]:
    """Counts spans as a model would that fails on one input."""

    def count(spans: list[NoiseSpan]) -> list[Counts]:
        if any(span.index == index for span in spans):
            raise ModelError("the model failed on a batch")
        return SAMPLER.count(spans)

    return count


@pytest.mark.parametrize("copies", [700, 10**9])
def test_a_request_that_the_model_refuses_fails_alone(copies: int) -> None:
    requests = [forgiving(k) for k in range(4)]
    scheduler = Scheduler(OutOfOrder(count=refusing(6)), sizer(copies, sharing=4), isolate=True)
    assert list(scheduler.run(requests)) == requests
    for k, request in enumerate(requests):
        if k == 2:
            assert isinstance(request.error, ModelError)
            assert request.result is None
        else:
            assert request.error is None
            assert plain(request.answer) == plain(by_hand(certify(k)))


def test_what_an_unsteady_model_said_is_not_asked_again() -> None:
    def count(_: list[NoiseSpan]) -> list[Counts]:
        raise UnsteadyModel("the model answers otherwise from call to call")

    executor, requests = OutOfOrder(count=count), [forgiving(k) for k in range(4)]
    assert set(Scheduler(executor, sizer(10**9), isolate=True).run(requests)) == set(requests)
    assert all(isinstance(request.error, UnsteadyModel) for request in requests)
    assert len(executor.jobs) == 1


def test_without_isolation_a_refusal_ends_everything() -> None:
    scheduler = Scheduler(OutOfOrder(count=refusing(6)), sizer(10**9))
    with pytest.raises(ModelError, match="failed on a batch"):
        list(scheduler.run([forgiving(k) for k in range(4)]))


class Faulty(Forgiving):
    """Cannot make anything of its counts."""

    def steps(self) -> Step[Sampled]:
        yield (self._selection(),)
        raise ValueError("these counts make no sense")


def test_a_request_that_fails_at_its_own_counts_fails_alone() -> None:
    faulty = Faulty(INPUTS[0], 5, 0, 40, 100)
    other = forgiving(1)
    assert set(Scheduler(OutOfOrder(), sizer(10**9), isolate=True).run([faulty, other])) == {faulty, other}
    assert isinstance(faulty.error, ValueError)
    assert plain(other.answer) == plain(by_hand(certify(1)))
    with pytest.raises(ValueError, match="no sense"):
        list(Scheduler(OutOfOrder(), sizer(10**9)).run([Faulty(INPUTS[0], 5, 0, 40, 100)]))


@pytest.mark.parametrize("in_order", [True, False])
def test_an_abandoned_request_is_sampled_no_further_and_disturbs_no_other(in_order: bool) -> None:
    executor = OutOfOrder()
    other, left = forgiving(0, n=9_000), forgiving(1, n=50_000)
    left.leaving = True
    found = list(Scheduler(executor, sizer(2_000, sharing=2), in_order=in_order).run([other, left]))
    assert found == ([other, left] if in_order else [left, other])
    assert left.result is None
    assert plain(other.answer) == plain(by_hand(certify(0, n=9_000)))
    assert sum(span.copies for job in executor.jobs for span in job.spans if span.index == left.index) < 8_000


def test_jobs_grow_towards_their_seconds_and_no_faster_than_fourfold() -> None:
    learning = JobSizer(1, 0.5)
    for expected in (4, 16, 64, 100, 100):
        learning.learn(50, 0.25)
        assert learning.copies == expected
    learning.learn(5, 0.05)  # too short to tell
    assert learning.copies == 100
    learning.learn(50, 2.5)
    assert learning.copies == 10
    careful = JobSizer(300, 0.5, least=256)
    careful.learn(300, 50.0)
    assert careful.copies == 256


def test_the_scheduler_learns_from_its_jobs() -> None:
    executor = OutOfOrder(in_flight=1)
    list(Scheduler(executor, JobSizer(1, 0.02), in_order=False).run(certify(k, n=1_000) for k in range(7)))
    sizes = [job.copies for job in executor.jobs]
    assert sizes[0] == 40, "no more than a selection"
    assert max(sizes) > 1_000
    assert len(sizes) < 30


def test_counts_travel_without_their_zeros() -> None:
    histogram = hf.ScoreSamples(np.array([0.25, 0.5, 0.5]), noise=NOISE).histogram()
    assert pickle.loads(pickle.dumps(histogram)) == histogram
    assert len(pickle.dumps(histogram)) < 1_000
    evidence = by_hand(certify(0))
    assert isinstance(evidence, Sampled)
    assert isinstance(pickle.loads(pickle.dumps(evidence.evidence)), Evidence)
    assert len(pickle.dumps(evidence)) < 2 * 1_700 * 16


def test_nothing_of_a_finished_request_is_kept_while_the_source_waits_for_the_next() -> None:
    kept: list[weakref.ref[AnyRequest]] = []

    def arriving() -> Iterator[AnyRequest | None]:
        first = CertifyRequest(INPUTS[0], 1, 0, 50, 300)
        kept.append(weakref.ref(first))
        yield first
        del first
        while len(finished) < 1:
            yield None
        gc.collect()
        assert kept[0]() is None

    finished: list[int] = []
    scheduler = Scheduler(sampler(MODEL, NOISE), sizer(1_000, sharing=8), in_order=False)
    for request in scheduler.run(arriving()):
        finished.append(request.n)
        del request
    assert finished == [300]
