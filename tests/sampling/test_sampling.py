"""Sampling: the same seed gives the same counts, however the copies are batched, split or ordered."""

import resource
import sys

import numpy as np
import pytest
import torch
from holdfast.sampling.windows import first_copies, in_windows
from torch import nn

import holdfast as hf
from holdfast.certificates.evidence import SCORE_UNIT
from holdfast.measures import Margin, PredictionScore
from holdfast.models import TorchModel
from holdfast.noise import Gaussian, Stage
from holdfast.noise.drawing.blocks import BlockKey, standard_block
from holdfast.sampling import LocalEngine, Task
from holdfast.sampling.engine import Answer, Question
from networks import Recorder, images, small_net

SIGMA = 0.3
CPU = torch.device("cpu")


def nothing(_: int) -> None:
    pass


@pytest.mark.parametrize("batch", [1, 7, 33, 64, 1_000, 5_000])
def test_batch_size_changes_nothing(batch: int) -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    x = images(1)[0]
    assert smoothed.certify(x, n=2_345, seed=5, batch=batch) == smoothed.certify(x, n=2_345, seed=5, batch=256)


def test_an_input_among_many_has_the_certificate_it_has_alone_under_its_index() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    xs = images(40)
    many = smoothed.certify_many(xs, n=500, seed=5)
    assert many[0] == smoothed.certify(xs[0], n=500, seed=5)
    assert many[:3] == smoothed.certify_many(xs[:3], n=500, seed=5)
    assert [cert.provenance.index for cert in many] == list(range(40))


def test_a_list_and_a_dataset_of_pairs_are_certified_like_a_batch() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    xs = images(3)
    whole = smoothed.certify_many(torch.from_numpy(xs), n=300, seed=2)
    assert smoothed.certify_many(list(xs), n=300, seed=2) == whole
    assert smoothed.certify_many([(torch.from_numpy(x), 1) for x in xs], n=300, seed=2) == whole


def test_spans_of_one_input_merge_to_the_whole() -> None:
    model = TorchModel(small_net())
    engine = LocalEngine(model, Gaussian(SIGMA), seed=9, batch=128)
    x = torch.from_numpy(images(1)[0])
    whole = engine.estimate([Task(3, x, 0, 3_500, target=1)], on_copies=nothing)[0]
    parts = engine.estimate(
        [Task(3, x, 0, 1_000, 1), Task(3, x, 2_000, 3_500, 1), Task(3, x, 1_000, 2_000, 1)], on_copies=nothing
    )
    assert parts[0] + parts[1] + parts[2] == whole
    chosen = engine.select([Task(3, x, 0, 2_000)], on_copies=nothing)[0]
    halves = engine.select([Task(3, x, 1_000, 2_000), Task(3, x, 0, 1_000)], on_copies=nothing)
    assert np.array_equal((halves[0] + halves[1]).sums, chosen.sums)
    assert (halves[0] + halves[1]).n0 == chosen.n0 == 2_000


def test_more_copies_extend_fewer() -> None:
    engine = LocalEngine(TorchModel(small_net()), Gaussian(SIGMA), seed=9, batch=64)
    x = torch.from_numpy(images(1)[0])
    short, long = (engine.estimate([Task(0, x, 0, n, 0)], on_copies=nothing)[0] for n in (1_200, 2_000))
    assert (long["score"].counts >= short["score"].counts).all()


def test_counts_are_those_of_a_plain_loop_over_the_same_noise() -> None:
    net, noise = small_net(), Gaussian(SIGMA)
    x = torch.from_numpy(images(1)[0])
    n = 1_500
    evidence = LocalEngine(TorchModel(net), noise, seed=4, batch=100).estimate(
        [Task(0, x, 0, n, 2)], on_copies=nothing
    )[0]
    blocks = [standard_block(noise, BlockKey(4, 0, Stage.ESTIMATION, k), x.shape) for k in range(2)]
    copies = x + SIGMA * torch.cat(blocks)[:n]
    with torch.inference_mode():
        probabilities = net(copies).softmax(1)
    own = probabilities[:, 2].double().numpy()
    others = probabilities[:, [0, 1, 3]].amax(1).double().numpy()
    assert evidence.votes == int((probabilities.argmax(1) == 2).sum())
    expected = hf.ScoreSamples(own, sigma=SIGMA).histogram()
    assert np.abs(np.cumsum(evidence["score"].counts - expected.counts)).max() <= 2
    margin = hf.ScoreSamples(
        (own.astype(np.float32) - others.astype(np.float32)).astype(float), support=(-1, 1), sigma=SIGMA
    )
    assert np.abs(np.cumsum(evidence["margin"].counts - margin.histogram().counts)).max() <= 2


def test_selection_and_estimation_never_share_noise() -> None:
    noise = Gaussian(1.0)
    first = standard_block(noise, BlockKey(1, 0, Stage.SELECTION, 0), (3,))
    second = standard_block(noise, BlockKey(1, 0, Stage.ESTIMATION, 0), (3,))
    assert not torch.isin(first.flatten(), second.flatten()).any()


def test_noise_differs_by_seed_input_stage_and_block_and_by_nothing_else() -> None:
    noise = Gaussian(1.0)
    keys = [(s, i, stage, b) for s in (1, 2**100) for i in (0, 1) for stage in Stage for b in (0, 1)]
    blocks = [standard_block(noise, BlockKey(*key), (2, 2)) for key in keys]
    assert len({block.numpy().tobytes() for block in blocks}) == len(keys)
    assert torch.equal(blocks[3], standard_block(noise, BlockKey(*keys[3]), (2, 2)))


def test_noise_is_standard_normal_far_into_the_tails() -> None:
    from scipy.stats import kstest, norm

    noise = Gaussian(1.0)
    draws = np.concatenate(
        [standard_block(noise, BlockKey(7, 0, Stage.ESTIMATION, k), (1_000,)).numpy().ravel() for k in range(2)]
    ).astype(np.float64)
    assert kstest(draws[:200_000], norm.cdf).pvalue > 1e-3
    for threshold in (2.0, 3.0, 4.0):
        expected = draws.size * norm.sf(threshold)
        for tail in ((draws > threshold).sum(), (draws < -threshold).sum()):
            assert abs(tail - expected) < 4.5 * np.sqrt(expected)


def test_seeds_are_secret_unless_given_and_recorded_either_way() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    x = images(1)[0]
    first, second = smoothed.certify(x, n=200), smoothed.certify(x, n=200)
    assert first.seed != second.seed
    assert first.seed > 2**64
    assert smoothed.certify(x, n=200, seed=first.seed) == first


def test_every_forward_pass_has_the_same_number_of_rows_and_none_has_more_than_asked() -> None:
    net = Recorder(small_net())
    hf.SmoothedClassifier(net, SIGMA, batch=96).certify_many(images(3), n=1_000, n0=50, seed=1)
    # The model is asked first whether it answers each row for itself, whether it keeps notes, and how much work a row is.
    assert net.rows[:6] == [16, 8, 8, 16, 16, 16]
    assert set(net.rows[6:]) == {96}
    # Batches span inputs: three inputs of 50 selection copies take two passes, not three.
    assert len(net.rows) == 6 + 2 + -(-3_000 // 96)


def test_memory_does_not_grow_with_n() -> None:
    smoothed = hf.SmoothedClassifier(nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), SIGMA)
    x = images(1)[0]
    smoothed.certify(x, n=5_000, seed=1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    smoothed.certify(x, n=400_000, seed=1)
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
    first, second = (smoothed.certify(images(1)[0], n=3_000, seed=1) for _ in range(2))
    torch.set_num_threads(1)
    assert first == second
    assert net.training
    assert drop.training
    assert not norm.training
    assert torch.equal(norm.running_mean, before)


def test_probabilities_and_logits_of_the_same_network_give_nearly_the_same_certificate() -> None:
    net, x = small_net(), images(1)[0]
    logits = hf.SmoothedClassifier(net, SIGMA).certify(x, n=1_000, seed=3)
    probabilities = hf.SmoothedClassifier(nn.Sequential(net, nn.Softmax(1)), SIGMA, outputs="probabilities").certify(
        x, n=1_000, seed=3
    )
    assert logits.evidence == probabilities.evidence


def test_the_class_is_the_one_with_the_largest_average_score_over_the_selection_copies() -> None:
    net, x = small_net(), torch.from_numpy(images(1)[0])
    engine = LocalEngine(TorchModel(net), Gaussian(SIGMA), seed=2, batch=50)
    selection = engine.select([Task(0, x, 0, 300)], on_copies=nothing)[0]
    block = standard_block(Gaussian(SIGMA), BlockKey(2, 0, Stage.SELECTION, 0), x.shape)[:300]
    with torch.inference_mode():
        averages = net(x + SIGMA * block).softmax(1).double().mean(0).numpy()
    assert selection.averages == pytest.approx(averages, abs=2 / SCORE_UNIT + 1e-6)
    assert selection.predicted == int(averages.argmax())
    assert hf.SmoothedClassifier(net, SIGMA).certify(x, n=100, n0=300, seed=2).predicted == selection.predicted


def test_the_margin_is_the_lead_over_the_best_other_class() -> None:
    probabilities = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [1.0, 0.0, 0.0]])
    target = torch.tensor([0, 1, 2])
    assert Margin()(probabilities, target).tolist() == pytest.approx([0.2, -0.5, -1.0])
    assert PredictionScore()(probabilities, target).tolist() == pytest.approx([0.5, 0.2, 0.0])


@pytest.mark.parametrize("sigma", [0.7, 0.25, 0.1, 1 / 3, 1e-3])
def test_noise_is_never_narrower_than_the_sigma_that_is_certified(sigma: float) -> None:
    multiplier = Gaussian(sigma).multiplier
    assert sigma <= multiplier <= sigma * (1 + 1.2e-7)
    assert float(np.float32(multiplier)) == multiplier


def test_the_number_of_threads_changes_nothing_and_is_put_back() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), SIGMA)
    xs = images(3)
    alone = smoothed.certify_many(xs, n=2_500, seed=5)
    torch.set_num_threads(3)
    try:
        together = smoothed.certify_many(xs, n=2_500, seed=5)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)
    assert together == alone


def test_questions_with_secrets_of_their_own_share_batches_and_change_nothing() -> None:
    xs = [torch.from_numpy(each) for each in images(4)]
    engine = LocalEngine(TorchModel(small_net()), Gaussian(SIGMA), seed=9, batch=64)
    tasks = [Task(k % 2, x, 0, 1_234, 1, seed=k) for k, x in enumerate(xs)]
    for k, shared in enumerate(engine.estimate(tasks, on_copies=nothing)):
        own = LocalEngine(TorchModel(small_net()), Gaussian(SIGMA), seed=k, batch=64)
        assert shared == own.estimate([Task(k % 2, xs[k], 0, 1_234, 1)], on_copies=nothing)[0]
        assert shared != engine.estimate([Task(k % 2, xs[k], 0, 1_234, 1)], on_copies=nothing)[0]


@pytest.mark.parametrize("rows", [1, 100, 999])
def test_the_first_rows_of_a_block_are_the_same_however_many_are_drawn(rows: int) -> None:
    key = BlockKey(4, 0, Stage.ESTIMATION, 2)
    whole = standard_block(Gaussian(SIGMA), key, (1, 6, 7))
    assert torch.equal(standard_block(Gaussian(SIGMA), key, (1, 6, 7), rows), whole[:rows])


def test_the_first_window_is_a_matter_of_seconds_whatever_the_network() -> None:
    model = TorchModel(small_net())
    assert first_copies(model) == 2**14
    model.operations(torch.zeros(4, 1, 6, 6))
    assert first_copies(model) == 2**14
    model._work = 5e8  # a ResNet-110: some hundred copies a second on a few cores
    assert first_copies(model) == 400
    sizes = []

    def answered(window: list[Question]) -> list[Answer]:
        sizes.append(len(window))
        return []

    questions = [Question(k, torch.zeros(1), 10, 1_000) for k in range(40)]
    list(in_windows(answered, questions, 400))
    list(in_windows(answered, questions))
    assert sizes == [1, 4, 16, 19, 16, 24]
