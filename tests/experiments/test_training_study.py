"""The comparison of objectives: the certified Brier score is a worst case, and the commands are complete."""

from pathlib import Path

import numpy as np
import pytest

from experiments.training import reproduce
from experiments.training.brier import largest_sum_of_squares
from experiments.training.table import Difference
from holdfast.triage.attack_bounds import AttackBounds


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.2, 0.3), (0.6, 0.95), (0.1, 0.9)])
def test_no_average_scores_within_the_bounds_have_a_larger_brier_score(low: float, high: float, right: bool) -> None:
    one = np.ones(1)
    bounds = AttackBounds(0.001, np.array([right]), low * one, high * one, one, np.array([False]), low * one)
    worst = float(largest_sum_of_squares(bounds, 0.0)[0])
    rng = np.random.default_rng(0)
    q = np.concatenate([[low, high], rng.uniform(low, high, 20_000)])
    shares = rng.dirichlet([0.2, 0.2, 0.2], len(q))
    shares[:2] = [0.0, 1.0, 0.0]
    p = np.column_stack([q, (1 - q)[:, None] * shares])
    truth = np.eye(4)[0 if right else 1]
    scores = ((p - truth) ** 2).sum(axis=1)
    assert scores.max() <= worst + 1e-12
    assert scores.max() == pytest.approx(worst)  # and it is reached


def test_a_difference_is_ours_minus_theirs_with_an_interval_around_it() -> None:
    rng = np.random.default_rng(0)
    theirs = rng.random(400)
    found = Difference.of(theirs - 0.1 + rng.normal(0, 0.1, 400), theirs)
    assert found.low < found.mean < found.high < 0
    assert found.high - found.low == pytest.approx(2 * 1.96 * 0.1 / 20, rel=0.2)


@pytest.mark.parametrize("study", reproduce.STUDIES)
def test_every_objective_is_trained_certified_and_compacted_alike(study: str) -> None:
    chains = reproduce.chains(study, "d", Path("w"))
    chosen = reproduce.STUDIES[study]
    assert len(chains) == sum(map(len, chosen.objectives.values()))
    for title, chain in chains.items():
        train, certify, compact, softmax = (" ".join(step.argv) for step in chain)
        assert f"w/training/{study}/{title}.safetensors" in train
        assert chosen.training in train
        assert chosen.certifying in certify
        assert f"compact/{title}" in compact
        assert "experiments.paper.softmax" in softmax
        assert f"compact/{title}" in " ".join(reproduce.table_step(study, "d", Path("w")).argv)
