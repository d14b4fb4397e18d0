"""Sampling: the same seed gives the same counts, however the copies are batched, split or ordered."""

import itertools
import resource
import sys
from threading import get_ident

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.certificates.classes import ClassCounts
from holdfast.certificates.evidence import SCORE_UNIT, Evidence, Selection
from holdfast.measures import Margin, PredictionScore
from holdfast.models import CallableModel, TorchModel
from holdfast.noise import BYTE, Gaussian, Stage, rounded_table
from holdfast.noise.drawing.blocks import BlockKey, multiplier, standard_block
from holdfast.sampling import CertifyRequest, Local
from holdfast.sampling.accumulate import Accumulator
from holdfast.sampling.batches import Drawing, Share, block_batches, counter_batches, step_batches
from holdfast.sampling.local import first_copies
from holdfast.sampling.span import Counting, Counts, NoiseSpan
from networks import images, small_net
from spans import sampler

SIGMA = 0.3
NOISE = Gaussian(SIGMA)
X = torch.from_numpy(images(1)[0])


def span(
    stop: int, *, start: int = 0, counting: Counting = Counting.EVIDENCE, target: int | NoiseSpan = 1
) -> NoiseSpan:
    return NoiseSpan(X, 9, 3, counting, start, stop, target)


def plain(counts: Counts) -> object:
    return (counts.n0, counts.sums.tolist()) if isinstance(counts, Selection) else counts


@pytest.mark.parametrize("batch", [1, 7, 33, 64, 1_000, 5_000])
def test_batch_size_changes_nothing(batch: int) -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    assert smoothed.certify(X, n=2_345, seed=5, batch=batch) == smoothed.certify(X, n=2_345, seed=5, batch=256)


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_changes_nothing_and_is_put_back(threads: int) -> None:
    xs = images(3)
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    alone = smoothed.certify_many(xs, n=2_500, seed=5)
    classes = smoothed.certify_classes(X, n=2_500, seed=5)
    few = smoothed.certify(X, n=30, n0=10, seed=5)
    torch.set_num_threads(threads)
    try:
        assert smoothed.certify_many(xs, n=2_500, seed=5) == alone
        assert smoothed.certify_classes(X, n=2_500, seed=5).counts == classes.counts
        assert smoothed.certify(X, n=30, n0=10, seed=5) == few
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(1)


def test_an_input_among_many_has_the_certificate_it_has_alone_under_its_index() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    xs = images(40)
    many = smoothed.certify_many(xs, n=500, seed=5)
    assert many[0] == smoothed.certify(xs[0], n=500, seed=5)
    assert many[7] == smoothed.certify(xs[7], n=500, seed=5, index=7)
    assert many[:3] == smoothed.certify_many(xs[:3], n=500, seed=5)
    assert [cert.provenance.index for cert in many] == list(range(40))


def test_a_list_and_a_dataset_of_pairs_are_certified_like_a_batch() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    xs = images(3)
    whole = smoothed.certify_many(torch.from_numpy(xs), n=300, seed=2)
    assert smoothed.certify_many(list(xs), n=300, seed=2) == whole
    assert smoothed.certify_many([(torch.from_numpy(x), 1) for x in xs], n=300, seed=2) == whole


@pytest.mark.parametrize("counting", Counting)
def test_spans_merge_to_the_whole_wherever_they_are_cut(counting: Counting) -> None:
    ours = sampler(batch=128)
    (whole,) = ours.count([span(3_500, counting=counting)])
    # Some of them in one job, in another order, and cut within a block of noise.
    cuts = [span(1_000, start=17), span(3_500, start=2_000), span(17), span(2_000, start=1_000)]
    spans = [NoiseSpan(X, each.seed, each.index, counting, each.start, each.stop, each.target) for each in cuts]
    first, second, third = ours.count(spans[:3])
    (fourth,) = ours.count(spans[3:])
    merged = second + fourth + first + third  # type: ignore[operator]
    assert plain(merged) == plain(whole)


def plain_noise(draw: Drawing, stage: Stage, n: int) -> torch.Tensor:
    """What is added to the first n copies, straight from the generators."""
    if draw is block_batches:
        blocks = [standard_block(NOISE, BlockKey(9, 3, stage, k), X.shape) for k in range(2)]
        return SIGMA * torch.cat(blocks)[:n]
    table, words = rounded_table(NOISE, BYTE), np.random.SeedSequence(9, spawn_key=(3, int(stage)))
    key = words.generate_state(3, np.uint64)
    counter = np.array([0, 0, *key[1:]], dtype=np.uint64)
    stream = np.random.Philox(key=np.array([key[0], 0], dtype=np.uint64), counter=counter)
    drawn = table.draw(stream.random_raw(n * X.numel())).reshape(n, *X.shape[1:], X.shape[0])
    return torch.from_numpy(BYTE * np.moveaxis(drawn, -1, 1)).float()


@pytest.mark.parametrize("draw", [step_batches, block_batches])
def test_counts_are_those_of_a_plain_loop_over_the_same_noise(draw: Drawing) -> None:
    net, n = small_net(), 1_500
    evidence, classes = sampler(TorchModel(net), batch=100, draw=draw).count(
        [span(n, target=2), span(n, target=2, counting=Counting.CLASSES)]
    )
    assert isinstance(evidence, Evidence)
    assert isinstance(classes, ClassCounts)
    with torch.inference_mode():
        probabilities = net(X + plain_noise(draw, Stage.ESTIMATION, n)).softmax(1)
    own, others = probabilities[:, 2], probabilities[:, [0, 1, 3]].amax(1)
    assert evidence.votes == int((probabilities.argmax(1) == 2).sum())
    expected = hf.ScoreSamples(own.double().numpy(), sigma=SIGMA).histogram()
    assert np.abs(np.cumsum(evidence["score"].counts - expected.counts)).max() <= 2
    margin = hf.ScoreSamples((own - others).double().numpy(), support=(-1, 1), sigma=SIGMA).histogram()
    assert np.abs(np.cumsum(evidence["margin"].counts - margin.counts)).max() <= 2
    for k in range(4):
        score = hf.ScoreSamples(probabilities[:, k].double().numpy(), sigma=SIGMA).histogram(bins=4_096)
        assert np.abs(np.cumsum(classes.scores[k].counts - score.counts)).max() <= 2
        gap = hf.ScoreSamples((own - probabilities[:, k]).double().numpy(), support=(-1, 1), sigma=SIGMA)
        assert np.abs(np.cumsum(classes.gaps[k].counts - gap.histogram(bins=4_096).counts)).max() <= 2


@pytest.mark.parametrize("draw", [step_batches, block_batches])
def test_the_class_is_the_one_with_the_largest_average_score_over_the_selection_copies(draw: Drawing) -> None:
    net, step = small_net(), 0.0 if draw is block_batches else None
    (selection,) = sampler(TorchModel(net), batch=50, draw=draw).count([span(300, counting=Counting.SELECTION)])
    assert isinstance(selection, Selection)
    with torch.inference_mode():
        averages = net(X + plain_noise(draw, Stage.SELECTION, 300)).softmax(1).double().mean(0).numpy()
    assert selection.averages == pytest.approx(averages, abs=2 / SCORE_UNIT + 1e-6)
    assert selection.predicted == int(averages.argmax())
    smoothed = hf.SmoothedClassifier(net, SIGMA, step=step)
    assert smoothed.certify(X, n=100, n0=300, seed=9, index=3).predicted == selection.predicted


@pytest.mark.parametrize("threads", [1, 2])
def test_evidence_is_counted_for_the_class_that_its_selection_chooses(threads: int) -> None:
    torch.set_num_threads(threads)
    try:
        ours = sampler()
        choosing = span(150, counting=Counting.SELECTION)
        found = ours.count([span(900, target=choosing), choosing])
        (selection,) = ours.count([choosing])
        assert isinstance(selection, Selection)
        (evidence,) = ours.count([span(900, target=selection.predicted)])
    finally:
        torch.set_num_threads(1)
    assert [plain(each) for each in found] == [plain(evidence), plain(selection)]


def test_spans_with_seeds_of_their_own_share_batches_and_change_nothing() -> None:
    ours = sampler()
    spans = [NoiseSpan(torch.from_numpy(x), k, k % 2, Counting.EVIDENCE, 0, 1_234, 1) for k, x in enumerate(images(4))]
    shared = ours.count(spans)
    assert [ours.count([each])[0] for each in spans] == shared
    assert ours.count([NoiseSpan(spans[2].x, 9, 0, Counting.EVIDENCE, 0, 1_234, 1)])[0] != shared[2]


@pytest.mark.parametrize("draw", [block_batches, counter_batches])
def test_selection_and_estimation_never_share_noise(draw: Drawing) -> None:
    zero = torch.zeros(3)

    def numbers(counting: Counting) -> Tensor:
        share = Share([(0, NoiseSpan(zero, 1, 0, counting, 0, 1_000))], 1, NOISE, 0.0, 128, zero[None], zero.device)
        return torch.cat([batch.copies[batch.slots == 0].clone() for batch in draw(share)])

    chosen, counted = numbers(Counting.SELECTION), numbers(Counting.EVIDENCE)
    assert chosen.shape == counted.shape == (1_000, 3)
    assert torch.equal(counted, numbers(Counting.CLASSES))
    # Numbers of the same precision meet by chance, whole copies do not.
    assert len(torch.unique(torch.cat((chosen, counted)), dim=0)) == 2_000


def test_noise_differs_by_seed_input_stage_and_block_and_by_nothing_else() -> None:
    keys = [(s, i, stage, b) for s in (1, 2**100) for i in (0, 1) for stage in Stage for b in (0, 1)]
    blocks = [standard_block(NOISE, BlockKey(*key), (2, 2)) for key in keys]
    assert len({block.numpy().tobytes() for block in blocks}) == len(keys)
    assert torch.equal(blocks[3], standard_block(NOISE, BlockKey(*keys[3]), (2, 2)))


@pytest.mark.parametrize("rows", [1, 100, 999])
def test_the_first_rows_of_a_block_are_the_same_however_many_are_drawn(rows: int) -> None:
    key = BlockKey(4, 0, Stage.ESTIMATION, 2)
    whole = standard_block(NOISE, key, (1, 6, 7))
    assert torch.equal(standard_block(NOISE, key, (1, 6, 7), rows), whole[:rows])


def test_noise_is_standard_normal_far_into_the_tails() -> None:
    from scipy.stats import kstest, norm

    draws = np.concatenate(
        [standard_block(NOISE, BlockKey(7, 0, Stage.ESTIMATION, k), (1_000,)).numpy().ravel() for k in range(2)]
    ).astype(np.float64)
    assert kstest(draws[:200_000], norm.cdf).pvalue > 1e-3
    for threshold in (2.0, 3.0, 4.0):
        expected = draws.size * norm.sf(threshold)
        for tail in ((draws > threshold).sum(), (draws < -threshold).sum()):
            assert abs(tail - expected) < 4.5 * np.sqrt(expected)


@pytest.mark.parametrize("sigma", [0.7, 0.25, 0.1, 1 / 3, 1e-3])
def test_noise_is_never_narrower_than_the_sigma_that_is_certified(sigma: float) -> None:
    wider = multiplier(Gaussian(sigma))
    assert sigma <= wider <= sigma * (1 + 1.2e-7)
    assert float(np.float32(wider)) == wider


def test_seeds_are_secret_unless_given_and_recorded_either_way() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    first, second = smoothed.certify(X, n=200), smoothed.certify(X, n=200)
    assert first.seed != second.seed
    assert first.seed > 2**64
    assert smoothed.certify(X, n=200, seed=first.seed) == first


ROWS: list[int] = []
THREADS: set[int] = set()


class Watched(nn.Module):
    """Remembers its batches' sizes and threads, and its replicas', where all of them can reach."""

    def __init__(self) -> None:
        super().__init__()
        self.net = small_net()

    def forward(self, x: Tensor) -> Tensor:
        ROWS.append(len(x))
        THREADS.add(get_ident())
        answer: Tensor = self.net(x)
        return answer


def test_every_forward_pass_has_the_same_number_of_rows() -> None:
    ROWS.clear()
    smoothed = hf.SmoothedClassifier(Watched(), SIGMA, batch=96)
    smoothed.certify_many(images(3), n=1_000, n0=50, seed=1)
    # The module itself is asked about a few rows, and its replica about the same in a batch of the size in use.
    assert ROWS[0] == 8
    assert set(ROWS[1:]) == {96}
    # Batches span inputs and stages; each has room for one row of the probe.
    assert len(ROWS) == 2 + -(-3 * 1_050 // 95)
    ROWS.clear()
    smoothed.certify(X, n=96 * 3 - 100, seed=1)
    assert ROWS == [96] * 4, "what was checked is not checked again"


def test_there_are_as_many_workers_as_torch_has_threads_at_the_time() -> None:
    smoothed = hf.SmoothedClassifier(Watched(), SIGMA)
    smoothed.certify(X, n=1_000)
    torch.set_num_threads(2)
    try:
        THREADS.clear()
        smoothed.certify(X, n=40_000)  # so much that one worker is not done before the other begins
        assert len(THREADS - {get_ident()}) == 2
    finally:
        torch.set_num_threads(1)
    THREADS.clear()
    smoothed.certify(X, n=1_000)
    assert {get_ident()} == THREADS


def test_memory_does_not_grow_with_n() -> None:
    smoothed = hf.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), SIGMA)
    smoothed.certify(X, n=5_000, seed=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    smoothed.certify(X, n=400_000, seed=1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    # 400,000 scores of two measures alone would take 3.2 MB as float32, the copies 58 MB.
    assert grown * (1 if sys.platform == "darwin" else 1_024) < 3_000_000


def test_the_module_is_evaluated_in_eval_mode_and_left_as_it_was() -> None:
    norm, drop = nn.BatchNorm1d(36), nn.Dropout(0.5)
    net = nn.Sequential(nn.Flatten(), norm, drop, nn.Linear(36, 3))
    net.train()
    norm.eval()
    assert norm.running_mean is not None
    before = norm.running_mean.clone()
    smoothed = hf.SmoothedClassifier(net, SIGMA)
    torch.set_num_threads(2)
    first, second = (smoothed.certify(X, n=3_000, seed=1) for _ in range(2))
    torch.set_num_threads(1)
    assert first == second
    assert net.training
    assert drop.training
    assert not norm.training
    assert torch.equal(norm.running_mean, before)


def test_probabilities_and_logits_of_the_same_network_give_nearly_the_same_certificate() -> None:
    net = small_net()
    logits = hf.SmoothedClassifier(net, SIGMA).certify(X, n=1_000, seed=3)
    softmax = nn.Sequential(net, nn.Softmax(1))
    probabilities = hf.SmoothedClassifier(softmax, SIGMA, outputs="probabilities").certify(X, n=1_000, seed=3)
    assert probabilities.predicted == logits.predicted
    for name in ("score", "margin"):
        apart = logits.evidence[name].counts - probabilities.evidence[name].counts
        assert np.abs(np.cumsum(apart)).max() <= 2


def test_the_margin_is_the_lead_over_the_best_other_class() -> None:
    probabilities = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]])
    target = torch.tensor([0, 1, 2])
    assert Margin()(probabilities, target).tolist() == pytest.approx([0.2, -0.5, -1.0])
    assert PredictionScore()(probabilities, target).tolist() == pytest.approx([0.5, 0.2, 0.0])


def test_the_first_job_is_a_matter_of_seconds_whatever_the_network() -> None:
    model = CallableModel(lambda batch: np.full((len(batch), 2), 0.5))
    assert first_copies(model) == 2**12
    model.flops = 5e8  # a ResNet-110: some hundred copies a second on a few cores
    assert first_copies(model) == 400
    jobs: list[int] = []
    requests = [CertifyRequest(X, 1, k, 10, 1_000) for k in range(40)]
    assert len(list(Local().run(model, NOISE, requests, on_copies=jobs.append))) == 40
    assert sum(jobs) == 40 * 1_010
    assert jobs[0] == 400
    assert all(later <= 4 * earlier for earlier, later in itertools.pairwise(jobs))
    assert max(jobs) > 4_000


def test_a_selection_that_lacks_copies_is_refused_also_without_assertions() -> None:
    whole = Accumulator([span(10, counting=Counting.SELECTION)], (), torch.device("cpu"))
    whole.add(torch.full((9, 4), 0.25), torch.zeros(9, dtype=torch.long), 9)
    with pytest.raises(hf.ModelError, match="the scores of 10 copies must sum to their number, got 9"):
        whole.results("toy", NOISE)
