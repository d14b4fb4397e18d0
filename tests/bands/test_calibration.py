"""The exact failure probability of a band: against fractions, known distributions and a million samples."""

import json
import sys
import tracemalloc
from fractions import Fraction
from importlib.resources import files
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ksone, kstwo

import holdfast as hf
from holdfast.bands import calibration
from holdfast.bands.calibration import bounds_at, cache_folder, calibrate, failure_probability, order_statistics, solve
from holdfast.bands.crossing_probability import crossing_probability
from holdfast.validation import Sides


def exactly(n: int, times: list[Fraction], least: list[int], most: list[int]) -> Fraction:
    """By the multinomial law, in fractions: the number up to each time, on the paths that stayed inside."""
    inside, before = {0: Fraction(1)}, Fraction(0)
    for t, low, high in zip(times, least, most, strict=True):
        p = (t - before) / (1 - before)
        reached: dict[int, Fraction] = {}
        for m, chance in inside.items():
            for more in range(n - m + 1):
                if low <= m + more <= high:
                    step = comb(n - m, more) * p**more * (1 - p) ** (n - m - more)
                    reached[m + more] = reached.get(m + more, Fraction(0)) + chance * step
        inside, before = reached, t
    return 1 - sum(inside.values(), Fraction(0))


@given(st.data(), st.integers(1, 12))
@settings(max_examples=150)
def test_the_escape_probability_is_exact_and_on_the_safe_side(data: st.DataObject, n: int) -> None:
    count = data.draw(st.integers(1, n))
    places = sorted(data.draw(st.sets(st.integers(1, 2**16 - 1), min_size=count, max_size=count)))
    times = [Fraction(place, 2**16) for place in places]
    least = sorted(data.draw(st.lists(st.integers(0, n), min_size=count, max_size=count)))
    most = sorted(data.draw(st.lists(st.integers(0, n), min_size=count, max_size=count)))
    truth = float(exactly(n, times, least, most))
    found = crossing_probability(n, np.array(times, dtype=float), np.array(least), np.array(most), about=1e-3)
    assert truth <= found + 1e-16
    assert found <= truth * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("n", [5, 40, 300, 3_000])
@pytest.mark.parametrize("d", [0.5, 1.0, 2.0, 3.0])
def test_kolmogorovs_one_sided_distribution_is_reproduced(n: int, d: float) -> None:
    width = d / np.sqrt(n)
    i = np.arange(1, n + 1)
    times = (i - 1) / n + width
    inside = times < 1
    found = crossing_probability(n, times[inside], i[inside], np.full(int(inside.sum()), n), about=1e-3)
    assert found == pytest.approx(float(ksone.sf(width, n)), rel=1e-6, abs=1e-10)
    # DKW's inequality (Massart): never above exp(-2 d^2), and close to it.
    assert found <= np.exp(-2 * d**2) + 1e-9


def test_kolmogorovs_two_sided_distribution_is_reproduced() -> None:
    n, width = 20, 0.3  # small enough for SciPy to compute it exactly, too
    i = np.arange(1, n + 1)
    low, high = (i - 1) / n + width, i / n - width
    times = np.concatenate((low[low < 1], high[high > 0]))
    least = np.concatenate((i[low < 1], np.zeros(int((high > 0).sum()), dtype=np.int64)))
    most = np.concatenate((np.full(int((low < 1).sum()), n), i[high > 0] - 1))
    order = np.argsort(times, kind="stable")
    found = crossing_probability(
        n, times[order], np.maximum.accumulate(least[order]), np.minimum.accumulate(most[order][::-1])[::-1], about=1e-3
    )
    assert found == pytest.approx(float(kstwo.sf(width, n)), rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("alpha", [1e-12, 1e-9, 0.05])
@pytest.mark.parametrize("sides", ["lower", "both"])
def test_the_true_failure_probability_of_a_calibrated_band_is_at_most_alpha_in_fractions(
    n: int, alpha: float, sides: Sides
) -> None:
    bounds = [Fraction(float(each)) for each in bounds_at(n, solve(n, alpha, sides))]
    corridor = {1 - low: [index, n] for index, low in enumerate(bounds, start=1) if 0 < low < 1}
    if sides == "both":
        for index, low in enumerate(bounds, start=1):
            if 0 < low < 1:
                corridor[low] = [corridor.get(low, [0, n])[0], n - index]
    times = sorted(corridor)
    least = [max(corridor[t][0] for t in times[: k + 1]) for k in range(len(times))]
    most = [min(corridor[t][1] for t in times[k:]) for k in range(len(times))]
    assert exactly(n, times, least, most) <= Fraction(alpha)


@pytest.mark.slow
@pytest.mark.parametrize("sides", ["lower", "both"])
def test_a_million_simulated_samples_agree(sides: Sides) -> None:
    n, alpha, repeats = 40, 0.02, 1_000_000
    lower = hf.BerkJones().lower(np.arange(n, 0, -1), n, alpha, sides)
    rng = np.random.default_rng(0)
    wrong = 0
    for _ in range(10):
        ordered = np.sort(rng.random((repeats // 10, n)), axis=1)
        bad = (lower > 1 - ordered).any(axis=1)
        if sides == "both":
            bad |= (lower > ordered[:, ::-1]).any(axis=1)
        wrong += int(bad.sum())
    sd = np.sqrt(alpha * (1 - alpha) / repeats)
    assert abs(wrong / repeats - alpha) < 4 * sd


@pytest.mark.parametrize("n", [10, 11, 100, 1_000, 10_000])
@pytest.mark.parametrize("alpha", [1e-9, 1e-3, 0.05, 0.5])
@pytest.mark.parametrize("sides", ["lower", "both"])
def test_a_calibration_spends_all_of_alpha_and_no_more(n: int, alpha: float, sides: Sides) -> None:
    spent = failure_probability(n, solve(n, alpha, sides), sides, about=alpha)
    assert alpha * (1 - 1e-6) < spent <= alpha


def test_the_shipped_table_is_what_the_calibration_gives() -> None:
    table = json.loads(files("holdfast.bands").joinpath("calibrations.json").read_text())
    assert len(table) > 100
    keys = [key for key in sorted(table) if int(key.split("/")[1]) <= 10_000]
    for key in keys[:: max(1, len(keys) // 25)]:
        version, n, alpha, sides = key.split("/")
        assert int(version) == calibration.VERSION
        gamma = table[key]
        spent = failure_probability(int(n), gamma, "both" if sides == "both" else "lower", about=float(alpha))
        assert float(alpha) * (1 - 1e-6) < spent <= float(alpha)


def test_bounds_descend_and_the_extremes_are_known_in_closed_form() -> None:
    n, gamma = 1_000, 1e-5
    lower = bounds_at(n, gamma)
    assert (np.diff(lower) <= 0).all()
    # The smallest order statistic: P(U_(1) > b) = (1 - b)^n.
    assert lower[0] == pytest.approx(gamma ** (1 / n), rel=1e-12)
    indices = order_statistics(n)
    assert indices[0] == 1
    assert indices[-1] == n
    assert (np.diff(indices) > 0).all()


def test_calibrations_are_kept_and_a_broken_cache_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    calibrate.cache_clear()
    first = calibrate(37, 0.0123, "lower")
    (kept,) = (tmp_path / "cache").rglob("*.json")
    whole = kept.read_text()
    assert float(whole) == first
    nonsense = (
        "",
        "[]",
        '"x"',
        "-1",
        "0",
        "0.5",
        "1e999",
        "NaN",
        "[0.0123, 1]",
        "9" * 10_000,
        whole[::-1],
        f"{whole}0",
    )
    believable = (repr(first * (1 + 1e-5)), repr(first * (1 - 1e-5)), repr(first / 100))
    for forged in (*nonsense, *believable):
        kept.write_text(forged)
        calibrate.cache_clear()
        assert calibrate(37, 0.0123, "lower") == first
    kept.write_text(whole)
    monkeypatch.setattr(calibration, "solve", lambda *_: pytest.fail("a kept calibration was computed again"))
    calibrate.cache_clear()
    assert calibrate(37, 0.0123, "lower") == first
    calibrate.cache_clear()


def test_the_folder_of_calibrations_holds_so_many_and_nothing_else_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path))
    monkeypatch.setattr(calibration, "_MOST", 5)
    folder = tmp_path / "calibrations"
    folder.mkdir()
    (folder / "mine.json").write_text("mine")
    for number in range(12):
        calibrate.cache_clear()
        calibrate(20, (10 + number) / 1000, "lower")
    calibrate.cache_clear()
    assert len(list(folder.iterdir())) == 6
    assert (folder / "mine.json").read_text() == "mine"
    assert any("0.021" in path.name for path in folder.iterdir()), "the newest is kept"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems keep caches elsewhere")
def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDFAST_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "holdfast"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == tmp_path / ".cache" / "holdfast"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "holdfast"
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "file"))
    calibrate.cache_clear()
    assert 0 < calibrate(38, 0.0123, "lower") < 0.0123
    calibrate.cache_clear()


@pytest.mark.parametrize("sides", ["lower", "both"])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 10])
def test_a_few_samples_at_a_tiny_alpha_keep_it_also_where_they_can_tell_nothing(n: int, sides: Sides) -> None:
    for alpha in (0.5, 1e-12, 1e-28, 2 * 1e-12**n, 1e-12**n / 2, 1e-120):
        gamma = solve(n, alpha, sides)
        bounds = bounds_at(n, gamma)
        assert failure_probability(n, gamma, sides, about=alpha) <= alpha
        assert bounds.max() <= alpha ** (1 / n)
        assert bounds.max() >= 0.02 * alpha ** (1 / n) or alpha ** (1 / n) < 1e-11, "and alpha is spent where it can be"


def test_what_is_kept_for_each_of_many_alphas_is_small_however_many_samples_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A service is asked with a new alpha each time; the calibrations themselves would take seconds here."""
    monkeypatch.setattr("holdfast.bands.berk_jones.calibrate", lambda _, alpha, *sides: alpha / (30 * len(sides)))
    n, counts = 1_000_000, np.arange(0, 1_000_001, 100)
    hf.BerkJones().lower(counts, n, 1e-3)
    tracemalloc.start()
    for k in range(30):
        hf.BerkJones().lower(counts, n, 1e-3 + 1e-6 * k)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 10e6


@pytest.mark.parametrize("n", [1, 100, 3_000, 100_000])
def test_the_bound_of_a_count_is_that_of_the_first_chosen_order_statistic_at_or_beyond_the_threshold(n: int) -> None:
    counts, found = np.arange(n + 1), hf.BerkJones().lower(np.arange(n + 1), n, 1e-3)
    chosen, bounds = order_statistics(n), bounds_at(n, calibrate(n, 1e-3, "lower"))
    for count in {0, 1, 2, n // 3, n // 2, n - 1, n} & set(counts.tolist()):
        beyond = [bound for index, bound in zip(chosen, bounds, strict=True) if index >= n - count + 1]
        assert found[count] == (beyond[0] if beyond else 0.0)
