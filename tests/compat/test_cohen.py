from io import StringIO
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import beta, binom, binomtest, norm
from torch import Tensor, nn

import holdfast as hf
from holdfast.compat.cohen import Smooth
from holdfast.compat.votes import VoteTest
from networks import images, small_net

SIGMA = 0.25
THEIR_LOOPS = """
    from core import Smooth

    smoothed_classifier = Smooth(base_classifier, 4, sigma)
    print("idx", "label", "predict", "radius", "correct", sep="\\t", file=outfile)
    for i in range(len(dataset)):
        if i % skip != 0:
            continue
        x, label = dataset[i]
        prediction, radius = smoothed_classifier.certify(x, N0, N, alpha, batch)
        print(i, label, prediction, f"{radius:.3}", int(prediction == label), sep="\\t", file=outfile)
    for x, label in dataset[:2]:
        predictions.append(smoothed_classifier.predict(x, N, alpha, batch))
"""
"""How their certify.py and predict.py use their class."""


class Threshold(nn.Module):
    """Class 1 above a number, class 0 below: with noise around zero, votes and radii are known."""

    def __init__(self, at: float) -> None:
        super().__init__()
        self.at = at

    def forward(self, x: Tensor) -> Tensor:
        above = 1e3 * (x.flatten(1)[:, :1] - self.at)
        return torch.cat((-above, above), 1)


class Torn(nn.Module):
    """On half of the noise and more, class 0 wins narrowly; elsewhere, class 1 wins by far."""

    def forward(self, x: Tensor) -> Tensor:
        often = x.flatten(1)[:, 0] < 0.1
        return torch.where(often[:, None], torch.tensor([0.1, 0.0]), torch.tensor([0.0, 9.0]))


def peers_radius(votes: int, n: int, alpha: float) -> float:
    """Their formula: Clopper and Pearson's lower bound, and its normal quantile."""
    return float(SIGMA * norm.ppf(beta.ppf(alpha, votes, n - votes + 1)))


def at_most(errors: int, trials: int, alpha: float) -> bool:
    """Whether so many errors can be due to chance, if each happens with probability alpha."""
    return bool(binom.sf(errors - 1, trials, alpha) > 1e-4)


def test_their_loops_run_with_one_changed_import() -> None:
    script = dedent(THEIR_LOOPS).replace("from core import", "from holdfast.compat.cohen import")
    dataset = [(torch.from_numpy(x), 0) for x in images(4)]
    names: dict[str, Any] = {"base_classifier": small_net(), "sigma": SIGMA, "dataset": dataset, "skip": 2}
    names |= {"outfile": StringIO(), "N0": 50, "N": 500, "alpha": 0.001, "batch": 100, "predictions": []}
    exec(script, names)
    rows = [line.split("\t") for line in names["outfile"].getvalue().splitlines()]
    assert [row[0] for row in rows] == ["idx", "0", "2"]
    assert all(-1 <= int(row[2]) < 4 and float(row[3]) >= 0 for row in rows[1:])
    assert all(type(each) is int and -1 <= each < 4 for each in names["predictions"])


@pytest.mark.parametrize("n", [100, 1_000, 20_000])
def test_radii_are_those_of_their_formula_from_the_same_counts(n: int) -> None:
    net, certified = small_net(), 0
    for seed, x in enumerate(torch.from_numpy(images(8))):
        predicted, radius = Smooth(net, 4, SIGMA).certify(x, 100, n, 0.001, 256, seed=seed)
        same = hf.SmoothedClassifier(net, SIGMA).certify(x, n=n, seed=seed)  # the same copies
        if predicted == same.predicted:
            theirs = peers_radius(same.evidence.votes, n, 0.001)
            assert theirs - 2e-5 * SIGMA <= radius <= theirs
            certified += 1
        elif predicted == Smooth.ABSTAIN:
            assert radius == 0.0
            assert peers_radius(same.evidence.votes, n, 0.001) < 0
    assert certified >= 3


def test_the_class_is_chosen_by_votes_as_theirs_is_and_not_by_average_scores() -> None:
    x = torch.zeros(1, 4, 4)
    assert hf.SmoothedClassifier(Torn(), SIGMA).certify(x, n=2_000, seed=0).predicted == 1
    predicted, radius = Smooth(Torn(), 2, SIGMA).certify(x, 100, 2_000, 0.001, 500, seed=0)
    assert predicted == 0
    assert radius > 0
    assert Smooth(Torn(), 2, SIGMA).predict(x, 2_000, 0.001, 500, seed=0) == 0


@pytest.mark.parametrize("votes", [(0, 10, 0), (4, 10, 7), (50, 50, 0), (9, 0, 1), (40, 60, 3)])
def test_the_p_value_is_the_binomial_tests_of_the_two_largest_counts(votes: tuple[int, ...]) -> None:
    test = VoteTest(np.array(votes), slack=0.0)
    second, first = sorted(votes)[-2:]
    assert test.p_value == pytest.approx(binomtest(first, first + second).pvalue, rel=1e-9)
    assert test.predicted == int(np.argmax(votes))
    assert test.certified(test.p_value)
    assert not test.certified(test.p_value * 0.999)
    assert not VoteTest(np.array(votes), slack=1e-6).certified(test.p_value)


def test_radii_exceed_the_true_radius_at_most_as_often_as_alpha_says() -> None:
    smooth, x, trials, alpha = Smooth(Threshold(0.1), 2, SIGMA), torch.zeros(1, 1, 1), 400, 0.1
    found = [smooth.certify(x, 20, 100, alpha, 128, seed=seed) for seed in range(trials)]
    wrong = sum(radius > 0.1 for _, radius in found)  # class 0 wins strictly within 0.1, and nowhere beyond
    assert at_most(wrong, trials, alpha)
    assert wrong > 0.3 * alpha * trials  # nothing is given away
    assert not at_most(sum(radius > 0.08 for _, radius in found), trials, alpha)
    assert all(predicted in (0, Smooth.ABSTAIN) for predicted, radius in found if radius > 0.0)


def test_predict_names_a_loser_at_most_as_often_as_alpha_says() -> None:
    smooth, x, trials, alpha = Smooth(Threshold(0.004), 2, SIGMA), torch.zeros(1, 1, 1), 500, 0.2
    named = [smooth.predict(x, 60, alpha, 64, seed=seed) for seed in range(trials)]
    assert at_most(named.count(1), trials, alpha)
    assert named.count(1) > 0.2 * alpha * trials
    unchecked = [smooth.predict(x, 60, 0.5, 64, seed=seed) for seed in range(trials)]
    assert named.count(Smooth.ABSTAIN) > unchecked.count(Smooth.ABSTAIN)


def test_certain_votes_are_predicted_and_ties_abstained_on() -> None:
    x = torch.zeros(1, 1, 1)
    assert Smooth(Threshold(1.0), 2, SIGMA).predict(x, 100, 0.001, 50) == 0
    assert Smooth(Threshold(-1.0), 2, SIGMA).predict(x, 100, 0.001, 50) == 1
    assert Smooth(Threshold(0.0), 2, SIGMA).predict(x, 100, 1e-9, 50) == Smooth.ABSTAIN
    assert Smooth(Threshold(0.0), 2, SIGMA).certify(x, 10, 100, 1e-9, 50) == (Smooth.ABSTAIN, 0.0)


def test_every_call_draws_its_own_noise_unless_a_seed_is_given() -> None:
    smooth, x = Smooth(Threshold(0.1), 2, SIGMA), torch.zeros(1, 1, 1)
    assert len({smooth.certify(x, 20, 1_000, 0.001, 500) for _ in range(4)}) > 1
    assert len({smooth.certify(x, 20, 1_000, 0.001, size, seed=3) for size in (100, 999)}) == 1


def test_an_image_may_come_as_a_batch_of_one_and_as_an_array() -> None:
    smooth, x = Smooth(small_net(), 4, SIGMA), torch.from_numpy(images(1))
    ways = {smooth.certify(each, 20, 100, 0.001, 64, seed=0) for each in (x, x[0], x[0].numpy())}
    assert len(ways) == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_inputs_may_be_on_another_device_than_the_model() -> None:
    x = torch.from_numpy(images(1))[0]
    smooth = Smooth(small_net().cuda(), 4, SIGMA)
    assert smooth.predict(x, 100, 0.001, 64, seed=0) == smooth.predict(x.cuda(), 100, 0.001, 64, seed=0)


@pytest.mark.parametrize(
    ("message", "given"),
    [
        ("has 4 classes, and 10 were given", {"num_classes": 10}),
        ("number of classes must be a whole number, at least 2", {"num_classes": 1}),
        ("sigma must be a positive number", {"sigma": 0}),
        ('outputs must be "logits"', {"outputs": "scores"}),
        ("can never certify the label", {"n": 5}),
        ("alpha must be in", {"alpha": 2.0}),
        ("batch must be", {"batch_size": 0}),
    ],
)
def test_wrong_arguments_are_refused_in_words(message: str, given: dict[str, Any]) -> None:
    made = {"base_classifier": small_net(), "num_classes": 4, "sigma": SIGMA}
    asked = {"n0": 10, "n": 100, "alpha": 0.001, "batch_size": 64}
    for name, value in given.items():
        (asked if name in asked else made)[name] = value
    with pytest.raises(hf.HoldfastError, match=message):
        Smooth(**made).certify(torch.from_numpy(images(1))[0], **asked)  # type: ignore[arg-type]


def test_a_batch_of_several_images_is_refused() -> None:
    with pytest.raises(hf.InvalidInput, match="must be one image, got a batch of 3; call once for each"):
        Smooth(small_net(), 4, SIGMA).certify(torch.from_numpy(images(3)), 10, 100, 0.001, 64)


def test_predict_refuses_more_copies_than_are_drawn_exactly_enough() -> None:
    smooth = Smooth(small_net(), 4, SIGMA)
    with pytest.raises(hf.InvalidArgument, match="not drawn exactly enough for alpha = 1e-09; give a smaller n"):
        smooth.predict(torch.from_numpy(images(1))[0], 100_000, 1e-9, 64)
