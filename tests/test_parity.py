"""Published numbers, to every digit they have."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import holdfast as hf
from holdfast.runs.imported import ImportedRun, import_log
from holdfast.runs.tsv import PAPER_RADII, log_numbers, read_log

# Certified accuracy at R = 0, .25, .5, .75, 1, 1.25 (strictly above the threshold), as published.
TABLE = {
    ("cifar10_pred_score_sigma0.25", 0.5): (".708 .542 .336 0 0 0", ".708 .450 .230 0 0 0"),
    ("cifar10_pred_score_sigma0.50", 0.5): (".534 .428 .342 .244 .146 .014", ".534 .374 .244 .140 .070 .008"),
    ("imagenet_margin_sigma0.25", 0.0): (".672 .570 .388 0 0 0", ".672 .422 .190 0 0 0"),
    ("imagenet_margin_sigma0.50", 0.0): (".570 .512 .438 .386 .282 .072", ".570 .426 .320 .228 .146 .026"),
}
# Label radii, R = 0, .25, .5, .75, 1, 1.25, 1.5.
LABELS = {"cifar10_sigma0.25": ".748 .600 .428 .266 0 0 0", "cifar10_sigma0.50": ".652 .546 .414 .320 .234 .152 .094"}
N, ALPHA = 100_000, 0.001


def floats(text: str) -> list[float]:
    return [float(part) for part in text.split()]


def imported(path: Path, out: Path) -> ImportedRun:
    return import_log(path, out)


@pytest.mark.parametrize(("name", "threshold"), TABLE)
def test_the_papers_certified_accuracy(published: Path, tmp_path: Path, name: str, threshold: float) -> None:
    run = imported(published / "cdf-smoothing" / f"{name}.tsv", tmp_path / "run")
    assert run.sigma == float(name[-4:])
    assert run.measures == (("margin",) if "margin" in name else ("score",))
    for method, expected in zip(("cdf-dkw", "naive-hoeffding"), TABLE[name, threshold], strict=True):
        found = run.certified_accuracy(run.measures[0], radii=PAPER_RADII[:6], thresholds=[threshold], method=method)
        assert found[0].tolist() == floats(expected)


@pytest.mark.parametrize("name", LABELS)
def test_cohens_certified_accuracy(published: Path, tmp_path: Path, name: str) -> None:
    run = imported(published / "cohen" / f"{name}.tsv", tmp_path / "run")
    assert run.certified_accuracy("label", radii=PAPER_RADII)[0].tolist() == floats(LABELS[name])


@pytest.mark.parametrize("name", [name for name, _ in TABLE])
def test_the_naive_columns_follow_from_the_first_one(published: Path, name: str) -> None:
    log = read_log(published / "cdf-smoothing" / f"{name}.tsv")
    sigma = float(name[-4:])
    support = (-1.0, 1.0) if "margin" in name else (0.0, 1.0)
    rows = log_numbers(log)[log.column("predict").to_numpy() >= 0, 7:]

    def naive(mean: float) -> NDArray[np.float64]:
        # One score at the mean's own value: its plug-in naive curve is Theorem 1 with e = mean.
        sample = hf.ScoreSamples([mean], support=support, sigma=sigma)
        return hf.bound(sample, alpha=0.5, method=hf.Naive(hf.EmpiricalMean())).lower(np.array(PAPER_RADII))

    assert len(rows) > 300
    for row in rows:
        # The first column has three digits: the others lie between what its two ends give, give or take their own digits.
        half = 0.5 * 10.0 ** (np.floor(np.log10(abs(row[0]))) - 2) if row[0] else 0.0005
        low, high = (naive(float(np.clip(row[0] + side, *support))) for side in (-half, half))
        own = np.array([0.5 * 10.0 ** (np.floor(np.log10(max(abs(v), 1e-300))) - 2) for v in row])
        assert ((low - own - 1e-12 <= row) & (row <= high + own + 1e-12)).all()


@pytest.mark.parametrize("name", [name for name, _ in TABLE])
def test_the_largest_published_entries_sit_on_the_dkw_ceiling(published: Path, name: str) -> None:
    log = read_log(published / "cdf-smoothing" / f"{name}.tsv")
    sigma = float(name[-4:])
    a, b = (-1.0, 1.0) if "margin" in name else (0.0, 1.0)
    # Abstentions were written as 0.0, which is not a bound on a margin.
    best = log_numbers(log)[log.column("predict").to_numpy() >= 0, :7].max(axis=0)
    ceiling = a + (b - a) * ndtr(ndtri(1 - hf.DKW().epsilon(N, ALPHA)) - np.array(PAPER_RADII) / sigma)
    most = hf.ScoreSamples(np.full(N, b), support=(a, b), sigma=sigma)
    ours = hf.bound(most, alpha=ALPHA, method=hf.CDF(hf.DKW())).lower(np.array(PAPER_RADII))
    assert ours == pytest.approx(ceiling, abs=1e-8)
    rounding = 0.5 * 10.0 ** (np.floor(np.log10(np.abs(best))) - 2) + 1e-12
    assert (best <= ceiling + rounding).all()
    # The most confident inputs nearly reach it: their scores are almost all next to b.
    assert (best >= a + 0.97 * (ceiling - a) - rounding).all()
