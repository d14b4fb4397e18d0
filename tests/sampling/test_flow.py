"""Cutting work into jobs and adding up what comes back, in any order: no cluster needed."""

import pickle
import random
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from holdfast.sampling.flow import Answers, Done, Flow, Pace, Spread
from holdfast.sampling.jobs import CountingClasses, Estimating, Job, Selecting, TaskJob

import holdfast as hf
from holdfast.certificates.evidence import Selection
from holdfast.models import TorchModel
from holdfast.noise import Gaussian
from holdfast.progress import ignore
from holdfast.sampling import Answer, LocalEngine, Question, Task
from networks import images, small_net

SIGMA = 0.2
ENGINE = LocalEngine(TorchModel(small_net()), Gaussian(SIGMA), 5, 64)
INPUTS = [torch.from_numpy(image) for image in images(7)]


def out_of_order(flow: Flow[object], seed: int, in_flight: int = 4) -> Iterator[object]:
    """Jobs are done in a random order, a few under way at a time, and sometimes twice."""
    chance, under_way = random.Random(seed), list[Job]()
    while True:
        while len(under_way) < in_flight and (job := flow.next_job()) is not None:
            under_way.append(job)
        for some in flow.finished():
            yield from some
        if not under_way and (job := flow.next_job()) is not None:
            under_way.append(job)
        if not under_way:
            return
        job = under_way.pop(chance.randrange(len(under_way)))
        if chance.random() < 0.2:
            job.run(ENGINE)  # a worker was lost with it: nobody sees these results
        flow.take(job, Done(pickle.dumps(job.run(ENGINE)), 0.01))


def plain(result: object) -> object:
    return (result.n0, result.sums.tolist()) if isinstance(result, Selection) else result


def fixed(copies: int) -> Pace:
    pace = Pace(copies)
    pace.learn = lambda *_: None  # type: ignore[method-assign]
    return pace


@pytest.mark.parametrize("copies", [1, 700, 2_000, 10**9])
@pytest.mark.parametrize(
    ("kind", "whole"),
    [(Selecting, ENGINE.select), (Estimating, ENGINE.estimate), (CountingClasses, ENGINE.count_classes)],
)
def test_spans_of_any_size_in_any_order_add_up_to_the_whole(kind: type[TaskJob], whole: object, copies: int) -> None:
    tasks = [
        Task(k, x, start, stop, target=k % 4)
        for k, (x, start, stop) in enumerate(
            zip(INPUTS, (0, 0, 500, 0, 1_000, 7, 0), (300, 3_200, 2_700, 1_000, 2_000, 8, 64), strict=True)
        )
    ]
    flow: Spread[object] = Spread(kind, tasks, fixed(copies), 2)
    found = list(out_of_order(flow, copies))
    expected = whole(tasks, on_copies=ignore)  # type: ignore[operator]
    assert [plain(each) for each in found] == [plain(each) for each in expected]


@pytest.mark.parametrize("copies", [1, 900, 5_000, 10**9])
def test_answers_come_in_order_and_are_those_of_the_local_engine(copies: int) -> None:
    questions = [Question(3 * k, x, 40, n) for k, (x, n) in enumerate(zip(INPUTS, [2_500] * 7, strict=True))]
    expected = [answer for some in ENGINE.answer(questions, on_copies=ignore) for answer in some]
    found = list(out_of_order(Answers(questions, fixed(copies), 3), copies))  # type: ignore[arg-type]
    for mine, theirs in zip(found, expected, strict=True):
        assert isinstance(mine, Answer)
        assert mine.evidence == theirs.evidence
        assert mine.selection.sums.tolist() == theirs.selection.sums.tolist()


def test_cuts_are_where_blocks_of_noise_end() -> None:
    flow: Spread[object] = Spread(Estimating, [Task(0, INPUTS[0], 0, 10_500)], fixed(2_400), 2)
    spans = [(task.start, task.stop) for job in iter(flow.next_job, None) for task in job.tasks]  # type: ignore[attr-defined]
    assert spans == [(0, 2_000), (2_000, 4_000), (4_000, 6_000), (6_000, 8_000), (8_000, 10_000), (10_000, 10_500)]


def test_no_more_inputs_are_read_than_may_wait() -> None:
    read: list[int] = []

    def endless() -> Iterator[Question]:
        for k in range(10**9):
            read.append(k)
            yield Question(k, INPUTS[0], 10, 100)

    flow = Answers(endless(), fixed(110), most_open=5)
    jobs = list(iter(flow.next_job, None))
    assert len(read) == len(jobs) == 5
    for job in jobs[1:]:  # all but the first are done: they wait for it, and nothing new is read
        flow.take(job, Done(pickle.dumps(job.run(ENGINE)), 0.01))
    assert list(flow.finished()) == []
    assert flow.next_job() is None
    flow.take(jobs[0], Done(pickle.dumps(jobs[0].run(ENGINE)), 0.01))
    assert len(list(flow.finished())) == 5
    assert flow.next_job() is not None


def test_jobs_grow_towards_half_a_second_and_no_faster_than_fourfold() -> None:
    pace = Pace(1)
    for expected in (4, 16, 64, 100, 100):
        pace.learn(50, 0.25)
        assert pace.copies == expected
    pace.learn(5, 0.05)  # too short to tell
    assert pace.copies == 100
    pace.learn(50, 2.5)
    assert pace.copies == 10


def test_a_histogram_travels_without_its_zeros() -> None:
    histogram = hf.ScoreSamples(np.array([0.25, 0.5, 0.5]), sigma=SIGMA).histogram()
    packed = pickle.dumps(histogram)
    assert pickle.loads(packed) == histogram
    assert len(packed) < 1_000
