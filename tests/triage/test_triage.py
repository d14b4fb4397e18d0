"""Triage piece by piece: the service's rule, what certificates say about an input, the test, and scores under attack."""

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

import holdfast as hf
from evidence import evidence_of
from holdfast.cli.app import run as holdfast
from holdfast.errors import InvalidInput, NoThreshold
from holdfast.measures import DEFAULT_MEASURES, SUM_TOLERANCE
from holdfast.runs.folder import RunFolder, record
from holdfast.runs.imported import import_log
from holdfast.runs.store import Entry, write_part
from holdfast.runs.tsv import COHEN_COLUMNS
from holdfast.scores.rounding import ceil_decimals, floor_decimals, format_number
from holdfast.triage import AcceptanceRule, AttackBounds
from holdfast.triage.attack_bounds import bound_attacks
from holdfast.triage.choose import threshold_test
from holdfast.triage.promise import Promise
from holdfast.triage.reliability import BINS, Option, largest_ece, largest_squares, options_of, reliability
from holdfast.triage.rule import kl
from holdfast.triage.threshold_test import ThresholdTest, certified_among, fallback, starting_levels

SIGMA = 0.5
_INDICES = itertools.count()


def certificate(
    scores: np.ndarray, *, predicted: int = 0, margins: np.ndarray | None = None, n0: int = 100
) -> hf.Certificate:
    """Of one class with these scores; of two classes, if no margins are given."""
    leads = 2 * scores - 1 if margins is None else margins
    evidence = evidence_of(
        scores.size,
        int((leads > 0).sum()),
        hf.ScoreSamples(scores, sigma=SIGMA).histogram(),
        hf.ScoreSamples(leads, support=(-1.0, 1.0), sigma=SIGMA).histogram(),
    )
    made = hf.Provenance(1, next(_INDICES), "none", "net", "cpu", "float32", "0", seconds=0.0)
    return hf.Certificate(predicted, n0, 0.001, ("score",), "lower", hf.CDF(), evidence, made)


def population(count: int, rng: np.random.Generator, n: int = 1_000) -> list[tuple[hf.Certificate, int]]:
    """Probit scores of two classes around random inputs; most are right."""
    found = []
    for middle in rng.normal(2.0, 1.0, count):
        scores = ndtr(np.abs(middle) + SIGMA * rng.normal(size=n))
        found.append((certificate(scores), int(rng.random() > ndtr(2 * np.abs(middle)))))
    return found


@pytest.mark.parametrize("n", [100, 1_000, 20_000])
@pytest.mark.parametrize("threshold", [0.5, 0.8, 0.98])
def test_the_rules_two_promises_hold_exactly_for_votes(threshold: float, n: int) -> None:
    rule = AcceptanceRule(threshold, n, 100, 0.01)
    if not rule.possible:
        assert n * math.log(1 / threshold) < math.log(100)
        return
    least = math.ceil(n * rule.needed)
    assert binom.sf(least - 1, n, threshold) <= rule.alpha  # a wrong class just below the threshold
    if rule.sure_from < 1:
        unlucky = binom.cdf(least - 1, n, rule.sure_from) + binom.cdf(50, 100, rule.sure_from)
        assert unlucky <= rule.missed
    # Not far from what votes need: Hoeffding's bound is within a few standard deviations.
    assert rule.sure_from - threshold < 10 * math.sqrt(0.25 / n)


def test_the_confidence_shown_is_the_threshold_that_would_just_accept() -> None:
    for average in (0.6, 0.9, 0.999):
        shown = AcceptanceRule(0.5, 2_000, 100, 0.01).confidence(average)
        assert kl(average, shown) == pytest.approx(math.log(100) / 2_000)
        assert AcceptanceRule(shown - 1e-6, 2_000, 100, 0.01).accepts(average)
        assert not AcceptanceRule(shown + 1e-6, 2_000, 100, 0.01).accepts(average)


def test_reach_covers_the_probit_models_true_range_and_comes_close() -> None:
    rng, radius, short = np.random.default_rng(3), 0.3, 0
    for middle, label in itertools.product((-0.5, 0.4, 1.5), (0, 1)):
        scores = ndtr(middle + SIGMA * rng.normal(size=20_000))
        reach, _ = bound_attacks([(certificate(scores), label)], radius=radius, alpha=0.01)
        low, high = (ndtr((middle + way * radius) / math.hypot(1, SIGMA)) for way in (-1, 1))
        wrong, sure = (1 - low, low) if label == 0 else (max(high, 1 - low), 0.0)
        short += int(reach.wrong[0] < wrong or reach.sure[0] > sure)
        assert reach.wrong[0] == pytest.approx(wrong, abs=0.06)
        assert reach.sure[0] == pytest.approx(sure, abs=0.06)
    assert short == 0


def test_margins_tell_that_no_single_other_class_can_win() -> None:
    # The class has 0.4, and two others 0.3 each: all others together could reach 1 - 0.4, one of them cannot.
    many = certificate(np.full(20_000, 0.4), margins=np.full(20_000, 0.1))
    reach, _ = bound_attacks([(many, 0)], radius=0.0, alpha=0.01)
    assert 0.45 < reach.wrong[0] < 0.46


def test_a_tally_is_exactly_binomial_where_nothing_else_can_fail() -> None:
    counted = ThresholdTest(10**9, 3, 200, 0.0, 0.0)
    assert counted.error_bound(0.05) == pytest.approx(_clopper_upper(3, 203, 0.045), rel=1e-6)
    assert counted.passes(counted.error_bound(0.05) + 1e-9, 0.05)
    assert not counted.passes(counted.error_bound(0.05) - 1e-6, 0.05)


def _clopper_upper(k: int, n: int, alpha: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if binom.cdf(k, n, middle) > alpha else (low, middle)
    return high


def test_the_certificates_alpha_makes_the_test_stricter() -> None:
    plain = ThresholdTest(500, 5, 400, 0.0, 0.0).error_bound(0.05)
    assert (
        plain
        < ThresholdTest(500, 5, 400, 0.001, 0.001).error_bound(0.05)
        < ThresholdTest(500, 5, 400, 0.01, 0.01).error_bound(0.05)
    )
    assert ThresholdTest(500, 5, 400, 0.001, 0.001).error_bound(0.05) < ThresholdTest(
        500, 5, 400, 0.001, 0.1
    ).error_bound(0.05)
    assert not ThresholdTest(500, 0, 0, 0.0, 0.0).passes(0.5, 0.5)


def test_what_passes_hands_its_level_on_and_what_fails_loses_it() -> None:
    tested: list[tuple[int, float]] = []

    def passes(number: int, level: float) -> bool:
        tested.append((number, round(level, 9)))
        return number != 2

    assert fallback([0.01, 0.0, 0.0, 0.02, 0.0, 0.01], passes) == [True, True, False, True, True, True]
    assert tested == [(0, 0.01), (1, 0.01), (2, 0.01), (3, 0.02), (4, 0.02), (5, 0.03)]
    for count in (1, 3, 40, 41):
        levels = starting_levels([False, False] + [True] * count + [False], 0.1)
        assert sum(levels) == pytest.approx(0.1)
        assert levels[2] > 0
        assert levels[0] == levels[1] == levels[-1] == 0
    assert starting_levels([False, False], 0.1) == [0.0, 0.0]


def test_no_level_is_left_with_thresholds_that_so_few_copies_could_never_reach() -> None:
    # From 180 copies nothing is accepted at 0.98: half of delta would be lost on it.
    rules = [AcceptanceRule(threshold, 180, 100, 0.001) for threshold in (0.98, 0.8)]
    assert [rule.possible for rule in rules] == [False, True]
    first, second = (ThresholdTest(200, k, 190 * k, rule.alpha, rule.missed) for k, rule in enumerate(rules))
    epsilon = (second.error_bound(0.05) + second.error_bound(0.025)) / 2
    assert certified_among([first, second], epsilon, 0.05) == [False, True]
    # Which ones are able is told by numbers alone, never by how the inputs turned out.
    assert certified_among([replace(second, surely_right=0), second], epsilon, 0.05) == [False, False]


def test_who_is_sure_has_room_for_the_services_own_sampling() -> None:
    rule = AcceptanceRule(0.8, 1_000, 100, 0.01)
    lower = np.array([0.79, 0.81, rule.needed, rule.sure_from, 0.99])
    upper, right = np.ones(5), np.ones(5, dtype=np.bool_)
    reach = AttackBounds(0.01, right, lower, upper, 1 - lower, right, lower)
    assert (threshold_test(reach, rule).could_be_wrong, threshold_test(reach, rule).surely_right) == (0, 2)
    other_way = replace(reach, right=~right, upper=np.array([0.7, 0.79, 0.8, 0.9, 1.0]))
    assert (threshold_test(other_way, rule).could_be_wrong, threshold_test(other_way, rule).surely_right) == (3, 0)


def test_the_worst_answer_within_reach() -> None:
    yes, no = np.array([True]), np.array([False])

    def worst(right: np.ndarray, leads: np.ndarray) -> float:
        low, high, other = np.array([0.35]), np.array([0.5]), np.array([0.6])
        return float(largest_squares(AttackBounds(0.01, right, low, high, other, leads, low))[0])

    assert worst(yes, yes) == pytest.approx(0.65**2)  # as unsure as can be, and right
    assert worst(no, yes) == pytest.approx(0.5**2)  # as sure as can be, and wrong
    assert worst(yes, no) == pytest.approx(0.65**2)  # another class would be sure of less
    assert worst(no, no) == pytest.approx(0.65**2)  # the right class wins, unsure


def test_the_largest_calibration_error_is_what_trying_every_assignment_finds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        n = 3
        low = rng.uniform(0, 1, n)
        high = np.minimum(1, low + rng.uniform(0, 0.35, n))
        leads = rng.random(n) < 0.5
        reach = AttackBounds(0.0, rng.random(n) < 0.5, low, high, np.minimum(high, 1 - low), leads, low)
        options = options_of(reach)

        def choices(i: int, options: Sequence[Option] = options) -> list[tuple[int, float, float]]:
            found = []
            for each in options:
                for b in range(BINS):
                    a, c = max(each.low[i], b / BINS), min(each.high[i], (b + 1) / BINS)
                    if each.open[i] and a <= c:
                        found += [(b, a, each.right[i]), (b, c, each.right[i])]
            return found

        tried = 0.0
        for config in itertools.product(*(choices(i) for i in range(n))):
            sums = np.zeros(BINS)
            for b, z, r in config:
                sums[b] += r - z
            tried = max(tried, float(np.abs(sums).sum()) / n)
        assert largest_ece(options) == pytest.approx(tried)


@pytest.mark.slow
def test_brier_and_calibration_bounds_hold_for_the_population_under_attack() -> None:
    # Probit scores of class 0, which is predicted; one input in five belongs to class 1. Its reach is known exactly.
    rng, radius, delta, repeats, alpha = np.random.default_rng(8), 0.2, 0.1, 100, 0.02
    middles = np.repeat([0.1, 1.2, 2.5], 5)
    right = np.tile([True, True, True, True, False], 3)
    low, high = (ndtr((middles + way * radius) / math.hypot(1, SIGMA)) for way in (-1, 1))
    exact = AttackBounds(0.0, right, low, high, 1 - low, middles > radius, low)
    squares = np.where(right, (1 - low) ** 2, np.maximum(high**2, np.where(middles < radius, (1 - low) ** 2, 0.0)))
    assert largest_squares(exact) == pytest.approx(squares)
    true_brier, true_ece = float(squares.mean()), largest_ece(options_of(exact))
    pool, _ = bound_attacks(
        ((certificate(ndtr(m + SIGMA * rng.normal(size=500))), 0) for m in middles for _ in range(20)),
        radius=radius,
        alpha=alpha,
    )
    brier = ece = 0
    for _ in range(repeats):
        who = rng.integers(len(pool), size=200)
        each = {name: getattr(pool, name)[who] for name in ("lower", "upper", "other", "leads", "average")}
        found = reliability(replace(pool, right=right[who // 20], **each), delta=delta)
        brier += found.brier_upper < true_brier
        ece += found.ece_upper < true_ece
        assert found.brier <= found.brier_upper <= true_brier + 0.25
        assert found.ece <= found.ece_worst <= found.ece_upper
    assert binom.sf(brier - 1, repeats, delta) > 1e-3, f"{brier} of {repeats}"
    assert binom.sf(ece - 1, repeats, delta) > 1e-3, f"{ece} of {repeats}"


def test_choosing_deciding_and_reading_back() -> None:
    rng = np.random.default_rng(1)
    people = population(400, rng)
    triage = hf.choose_threshold(people, radius=0.05, epsilon=0.1)
    assert triage.threshold is not None
    assert triage.chosen is not None
    assert "Accept from confidence" in str(triage)
    again = hf.Triage.from_dict(json.loads(json.dumps(triage.to_dict())))
    assert again == triage
    accepted = triage.decide(certificate(np.full(1_000, 0.999), predicted=7))
    assert (accepted.accepted, accepted.predicted) == (True, 7)
    assert not triage.decide(certificate(np.full(1_000, 0.4))).accepted
    for ask in (triage.decide, triage.score):
        with pytest.raises(InvalidInput, match="expected a Certificate"):
            ask("x")  # type: ignore[arg-type]
    verdicts = [triage.decide(each) for each, _ in people]
    assert sum(each.accepted for each in verdicts) == triage.chosen.clean_accepted
    assert all((each.confidence >= triage.threshold) == each.accepted for each in verdicts)
    with pytest.raises(hf.InvalidInput, match="certify with n=1000"):
        triage.decide(certificate(np.full(999, 0.999)))
    for bins, allowed in ((2 * 16_384, True), (3 * 16_384, False), (8_192, False), (16_385, False)):
        asked = replace(triage.origin, bins=bins)
        assert triage.origin.allows(asked) == allowed, bins
    assert triage.figure().axes


def test_a_larger_radius_never_helps() -> None:
    people = population(300, np.random.default_rng(2), n=500)
    rows = [hf.choose_threshold(people, radius=r, epsilon=0.2, thresholds=[0.9, 0.7]).rows for r in (0.0, 0.1, 0.3)]
    for near, far in itertools.pairwise(rows):
        for a, b in zip(near, far, strict=True):
            assert a.could_be_wrong <= b.could_be_wrong
            assert a.surely_right >= b.surely_right


def test_without_a_certified_threshold_everything_is_handed_over() -> None:
    people = [(each, 1 - label) for each, label in population(200, np.random.default_rng(4))]
    triage = hf.choose_threshold(people, radius=0.1)
    assert triage.threshold is None
    assert "hand everything to a human" in str(triage)
    assert not triage.decide(certificate(np.full(1_000, 1.0))).accepted


def test_what_cannot_be_done_is_refused_with_the_reason() -> None:
    people = population(30, np.random.default_rng(5), n=500)
    with pytest.raises(hf.InvalidInput, match=r"30 labelled inputs are too few .* at least 94 are needed"):
        hf.choose_threshold(people, radius=0.1)
    with pytest.raises(hf.InvalidInput, match="got none"):
        hf.choose_threshold([], radius=0.1)
    with pytest.raises(hf.InvalidInput, match="labelled"):
        hf.choose_threshold([(people[0][0], -1)], radius=0.1)
    with pytest.raises(hf.InvalidInput, match="one model") as caught:
        hf.choose_threshold([people[0], (certificate(np.full(400, 0.9)), 0)], radius=0.1)
    assert "the model net at float32 with sigma = 0.5 (400 + 100 noisy copies" in str(caught.value)
    assert "Origin(" not in str(caught.value)
    with pytest.raises(hf.InvalidArgument, match="epsilon must be"):
        hf.choose_threshold(people, radius=0.1, epsilon=0.0)
    with pytest.raises(hf.InvalidArgument, match=r"alpha = 0\.05 is too large"):
        hf.choose_threshold(people, radius=0.1, epsilon=0.05, alpha=0.05)
    with pytest.raises(hf.InvalidArgument, match="thresholds"):
        hf.choose_threshold(people, radius=0.1, thresholds=[0.4])
    with pytest.raises(hf.InvalidInput, match="too few to accept anything"):
        hf.choose_threshold([(certificate(np.full(5, 0.9)), 0)], radius=0.1)
    with pytest.raises(hf.InvalidArgument, match="format"):
        hf.Triage.from_dict({})


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        ({"epsilon": 0.01}, "certified at threshold"),
        ({"epsilon": 0.0999}, "epsilon is 0.0999"),
        ({"radius": 0.5}, "radius is 0.5"),
        ({"delta": 0.001}, "certified|error_bound"),
        ({"threshold": 0.51}, "threshold is 0.51"),
        ({"inputs": 4_000}, "error_bound"),
        ({"alpha": 1e-9}, "error_bound|sure_from"),
        ({"epsilon": "0.1"}, "epsilon must be"),
        ({"rows": []}, "rows must be"),
    ],
)
def test_a_file_whose_numbers_were_edited_is_refused(edit: dict[str, Any], complaint: str) -> None:
    triage = hf.choose_threshold(population(300, np.random.default_rng(1), n=500), radius=0.05, epsilon=0.1)
    written = json.loads(json.dumps(triage.to_dict()))
    assert hf.Triage.from_dict(written) == triage
    with pytest.raises(hf.InvalidArgument, match=complaint):
        hf.Triage.from_dict({**written, **edit})
    for name, value in {"certified": True, "error_bound": 0.001, "coverage": 0.999, "surely_right": 299}.items():
        rows = [{**row, name: value} for row in written["rows"]]
        with pytest.raises(hf.InvalidArgument):
            hf.Triage.from_dict({**written, "rows": rows})
    nearly_false = [{**row, "certified": row["certified"] or 1e-9} for row in written["rows"]]
    with pytest.raises(hf.InvalidArgument, match="certified at threshold"):
        hf.Triage.from_dict({**written, "rows": nearly_false})


def test_certificates_that_share_their_noise_are_refused() -> None:
    people = population(120, np.random.default_rng(9), n=500)
    with pytest.raises(hf.InvalidInput, match="share their noise"):
        hf.choose_threshold([*people, people[3]], radius=0.1)
    with pytest.raises(hf.InvalidInput, match="share their noise"):
        hf.choose_threshold([(replace(c, provenance=people[0][0].provenance), y) for c, y in people], radius=0.1)
    others = [(replace(c, provenance=replace(c.provenance, seed=2)), y) for c, y in people]
    assert hf.choose_threshold([*people, *others], radius=0.1).inputs == 240


def test_numbers_of_any_kind_become_plain_ones_and_labels_must_be_numbers() -> None:
    people = population(100, np.random.default_rng(10), n=500)
    plain = hf.choose_threshold(people, radius=0.125, epsilon=0.25, delta=0.25, alpha=0.0078125, thresholds=[0.75])
    given: dict[str, Any] = {
        "radius": np.float32(0.125),
        "epsilon": np.float32(0.25),
        "delta": np.float64(0.25),
        "alpha": np.float32(0.0078125),
        "thresholds": np.array([0.75], dtype=np.float32),
    }
    labels: list[Any] = [np.int32(label) for _, label in people]
    typed = hf.choose_threshold(zip((each for each, _ in people), labels, strict=True), **given)
    assert typed == plain
    assert json.dumps(typed.to_dict()) == json.dumps(plain.to_dict())
    column = np.array([[label] for _, label in people])
    for bad in (column[0], 0.5, "cat", None):
        with pytest.raises(hf.InvalidInput, match="one whole number for each"):
            hf.choose_threshold([(people[0][0], bad)], radius=0.1)  # type: ignore[list-item]


def test_what_is_written_is_plain_json_and_reads_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = population(150, np.random.default_rng(11), n=180)  # too few copies for the highest thresholds
    triage = hf.choose_threshold(people, radius=0.05, epsilon=0.2)
    assert triage.rows[0].sure_from == math.inf
    text = json.dumps(triage.to_dict(), allow_nan=False)
    assert hf.Triage.from_dict(json.loads(text)) == triage
    run, out = stored(tmp_path / "run", people, n=180), tmp_path / "triage.json"
    asked = ["triage", str(run), "--radius", "0.05", "--epsilon", "0.2"]
    assert holdfast([*asked, "--format", "json", "--out", str(out)]) == 0
    for written in (capsys.readouterr().out, out.read_text()):
        assert "Infinity" not in written
        assert hf.Triage.from_dict(json.loads(written)).rows == triage.rows


def test_alphas_below_what_can_be_computed_with_are_refused() -> None:
    people = population(2, np.random.default_rng(12), n=500)
    for name in ("alpha", "delta", "epsilon"):
        small: dict[str, Any] = {name: 1e-300}
        with pytest.raises(hf.InvalidArgument, match=f"{name} must be"):
            hf.choose_threshold(people, radius=0.1, **small)
    scores = hf.ScoreSamples(np.full(500, 0.9), sigma=SIGMA)
    with pytest.raises(hf.InvalidArgument, match="alpha must be at least"):
        hf.bound(scores, alpha=1e-300)
    smallest = replace(people[0][0], alpha=1e-100, claims=("label", "score", "margin"))
    assert 0 <= smallest.score.lower(0.1) <= smallest.evidence["score"].survival_lower().mean
    votes = smallest.evidence.votes
    assert smallest.label_radius == hf.LabelCertificate(votes, 500, SIGMA, 1e-100 / 3).radius


def test_an_epsilon_that_needs_too_many_inputs_is_not_blamed_on_alpha() -> None:
    people = population(2, np.random.default_rng(13), n=500)
    with pytest.raises(hf.InvalidArgument, match="more than 1,000,000 labelled inputs") as caught:
        hf.choose_threshold(people, radius=0.1, epsilon=1e-9)
    assert "too large" not in str(caught.value)


def test_a_refusal_does_not_invite_to_name_the_best_threshold_afterwards() -> None:
    # Enough for one threshold alone, and not for a fifth of delta.
    sure, wrong = certificate(np.full(5_000, 0.9999)), certificate(np.full(5_000, 0.9999))
    rows = [replace(sure, provenance=replace(sure.provenance, index=10**6 + k)) for k in range(120)]
    people = [*((each, 0) for each in rows), (wrong, 1)]
    many = hf.choose_threshold(people, radius=0.0)
    assert many.threshold is None
    assert min(row.error_bound for row in many.rows) <= 0.05
    assert "fixed beforehand" in str(many)
    assert "only bounded by" not in str(many)
    assert hf.choose_threshold(people, radius=0.0, thresholds=[0.9]).threshold == 0.9
    worse = hf.choose_threshold([(each, 1 - label) for each, label in people], radius=0.0)
    assert "only bounded by 1.000" in str(worse)


def test_error_and_coverage_are_two_statements() -> None:
    triage = hf.choose_threshold(population(400, np.random.default_rng(1)), radius=0.05, epsilon=0.1, delta=0.03)
    assert "(with probability at least 0.97)" in str(triage)
    assert "both hold with at least 0.94" in str(triage)


def written_by_0_1_0(certificate: hf.Certificate) -> hf.Certificate:
    """The same counts, in a file without a description of the measures."""
    document = certificate.to_dict()
    del document["evidence"]["measures"]
    return hf.Certificate.from_dict(document)


def test_certificates_of_0_1_0_are_taken_with_the_tolerance_they_were_checked_to() -> None:
    people = population(150, np.random.default_rng(11))
    old = [(written_by_0_1_0(each), label) for each, label in people]
    (before, origin), (after, later) = (bound_attacks(some, radius=0.05, alpha=0.001) for some in (old, people))
    assert origin.sum_tolerance == pytest.approx(1e-3, abs=1e-12)
    assert later.sum_tolerance == SUM_TOLERANCE
    assert (before.other[after.other < 1] > after.other[after.other < 1]).all()
    triage = hf.choose_threshold(old, radius=0.05, epsilon=0.2)
    assert triage.origin == origin
    assert hf.Triage.from_dict(json.loads(json.dumps(triage.to_dict()))) == triage
    rule = AcceptanceRule(triage.rows[-1].threshold, 1_000, 100, triage.alpha, 1e-3)
    test = threshold_test(bound_attacks(old, radius=0.05, alpha=triage.alpha)[0], rule)
    assert triage.rows[-1].error_bound == test.error_bound(triage.delta)
    triage.decide(people[0][0])
    with pytest.raises(hf.InvalidInput, match="the threshold was chosen for"):
        hf.choose_threshold(people, radius=0.05, epsilon=0.2).decide(old[0][0])


def stored(path: Path, people: list[tuple[hf.Certificate, int]], status: str = "complete", **more: object) -> Path:
    config = {
        "kind": "certified",
        "status": status,
        "inputs": len(people),
        **record(hf.Gaussian(SIGMA), [measure.info for measure in DEFAULT_MEASURES]),
        "n": 1_000,
        "n0": 100,
        "alpha": 0.001,
        "claims": ["score"],
        "sides": "lower",
        "method": "cdf-berk-jones",
        "data": "made up",
        "provenance": {
            "seed": "0x1",
            "noise": "none",
            "model": "net",
            "device": "cpu",
            "precision": "float32",
            "version": "0",
        },
        **more,
    }
    folder = RunFolder.create(path, config)
    write_part(folder, 0, [Entry(k, label, each) for k, (each, label) in enumerate(people)])
    return path


def test_the_command_writes_a_rule_and_applies_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(6)
    run, other = stored(tmp_path / "a", population(300, rng)), stored(tmp_path / "b", population(50, rng))
    out, figure = tmp_path / "triage.json", tmp_path / "triage.png"
    asked = ["triage", str(run), "--radius", "0.05", "--epsilon", "0.1", "--apply", str(other)]
    assert holdfast([*asked, "--out", str(out), "--figure", str(figure)]) == 0
    said = capsys.readouterr().out
    assert "Accept from confidence" in said
    assert "handed over" in said
    document = json.loads(out.read_text())
    assert figure.stat().st_size > 10_000
    triage = hf.Triage.from_dict(document)
    python = hf.choose_threshold(hf.Run.open(run).labelled(), radius=0.05, epsilon=0.1)
    assert (triage.threshold, triage.rows) == (python.threshold, python.rows)
    applied = document["applied"]
    assert applied["accepted"] + applied["handed_over"] == applied["inputs"] == len(applied["decisions"]) == 50
    assert holdfast([*asked, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["threshold"] == triage.threshold
    assert holdfast([*asked, "--out", str(out)]) == hf.RunError.exit_code
    assert f"{out} exists already and is left as it is" in capsys.readouterr().err
    assert holdfast([*asked, "--out", str(tmp_path / "nowhere" / "triage.json")]) == hf.RunError.exit_code
    assert "does not exist; create it first" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tri.jpg", "tri", "there.png"])
def test_the_command_refuses_a_figure_it_cannot_write_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    run, out = stored(tmp_path / "a", population(300, np.random.default_rng(6))), tmp_path / "triage.json"
    (tmp_path / "there.png").write_bytes(b"mine")
    asked = ["triage", str(run), "--radius", "0.05", "--epsilon", "0.1", "--out", str(out)]
    assert holdfast([*asked, "--figure", str(tmp_path / name)]) in (2, 7)
    assert "--figure " in capsys.readouterr().err
    assert not out.exists()
    assert (tmp_path / "there.png").read_bytes() == b"mine"


@pytest.mark.parametrize("columns", [30, 45, 59, 80])
def test_the_table_keeps_every_digit_in_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    run = stored(tmp_path / "a", population(300, np.random.default_rng(6)))
    assert holdfast(["triage", str(run), "--radius", "0.05", "--epsilon", "0.1"]) == 0
    said = capsys.readouterr().out
    found = hf.choose_threshold(hf.Run.open(run).labelled(), radius=0.05, epsilon=0.1)
    row = found.chosen
    assert row is not None
    numbers = [
        format_number(row.threshold),
        str(row.could_be_wrong),
        str(row.surely_right),
        ceil_decimals(row.error_bound, 3),
        floor_decimals(row.coverage, 3),
        str(row.clean_accepted),
        str(row.clean_wrong),
        "chosen",
    ]
    assert numbers in [line.split() for line in said.splitlines()]


def test_the_table_has_words_for_columns_and_a_row_for_the_threshold_that_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = stored(tmp_path / "a", population(300, np.random.default_rng(6)))
    for radius, code in (("0.05", 0), ("0.9", NoThreshold.exit_code)):
        assert holdfast(["triage", str(run), "--radius", radius, "--epsilon", "0.1"]) == code
        said = capsys.readouterr()
        found = hf.choose_threshold(hf.Run.open(run).labelled(), radius=float(radius), epsilon=0.1)
        named = format_number((found.chosen or found.best).threshold)
        assert f"{'from confidence' if found.chosen else 'The best,'} {named}" in " ".join(said.out.split())
        assert [line for line in said.out.splitlines() if line.split()[:1] == [named]]
        header = " ".join(said.out.split("─")[0].splitlines()[-2:])
        words = "threshold, could be wrong, surely accepted, error at most, share accepted, accepted as is, wrong as is"
        assert sorted(header.split()) == sorted(words.replace(",", "").split())
        assert ("no threshold is certified" in said.err) is (code == 13)
    assert "another try with these spends delta again" in said.err


def test_how_many_inputs_and_copies_it_takes_is_said_before_anything_is_certified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert holdfast(["triage", "--epsilon", "0.05", "--delta", "0.05"]) == 0
    said = capsys.readouterr().out
    assert "at least 94 labelled inputs" in said
    lines = [line.split() for line in said.splitlines()]
    assert ["500", "13"] in lines  # inputs, and how many of them could be wrong
    promise = Promise.of()
    for wrong, passes in ((13, True), (14, False)):
        assert ThresholdTest(500, wrong, 500 - wrong, 0.001, 0.001).passes(0.05, 0.01) is passes
    assert promise.could_be_wrong(93) is None
    row = next(line for line in lines if line[:1] == ["10,000"])
    assert float(row[3]) == pytest.approx(AcceptanceRule(0.9, 10_000, 100, 0.001).sure_from, abs=1e-3)
    # With a run, its own numbers come first, before what is computed from it.
    run = stored(tmp_path / "a", population(300, np.random.default_rng(6)))
    assert holdfast(["triage", str(run), "--radius", "0.05", "--epsilon", "0.1"]) == 0
    most = Promise.of(epsilon=0.1).could_be_wrong(300)
    assert f"300 labelled inputs: a threshold can pass if at most {most} could be wrong" in capsys.readouterr().out
    for refused in (["triage", str(run)], ["triage", "--radius", "0.1"], ["triage", "--format", "json"]):
        assert holdfast(refused) == hf.InvalidArgument.exit_code
        assert "expected" in capsys.readouterr().err


def test_the_figure_shows_where_nothing_is_shown_and_hides_no_line() -> None:
    triage = hf.choose_threshold(population(150, np.random.default_rng(11), n=180), radius=0.05, epsilon=0.2)
    assert any(row.error_bound == 1 for row in triage.rows)
    figure = triage.figure()
    drawn = figure.axes[0].get_lines()[0].get_ydata()
    assert sorted(np.asarray(drawn).tolist()) == sorted(row.error_bound for row in triage.rows)
    figure.draw_without_rendering()
    for axes in figure.axes:
        legend = axes.get_legend()
        assert legend is not None
        assert legend.get_window_extent().y1 <= axes.get_window_extent().y0


def test_the_command_refuses_runs_it_cannot_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    people = population(20, np.random.default_rng(7))
    unfinished = stored(tmp_path / "unfinished", people, status="interrupted")
    assert holdfast(["triage", str(unfinished), "--radius", "0.1"]) == hf.RunError.exit_code
    assert "not complete" in capsys.readouterr().err
    with pytest.raises(hf.RunError, match="not complete"):
        hf.Run.open(unfinished).labelled()
    few = stored(tmp_path / "few", people)  # refused later than what it is to be applied to
    assert holdfast(["triage", str(few), "--radius", "0.1", "--apply", str(unfinished)]) == hf.RunError.exit_code
    assert "not complete" in capsys.readouterr().err
    part_lost = stored(tmp_path / "lost", people, inputs=21)
    with pytest.raises(hf.RunError, match="holds 20 certificates of 21 inputs"):
        hf.Run.open(part_lost).labelled()
    seen: dict[str, Any] = {"weights": {"images": "a1"}, "fingerprints": {"images": "a1"}}
    trained_on = stored(tmp_path / "trained", people, **seen)
    with pytest.raises(hf.RunError, match="trained on"):
        hf.Run.open(trained_on).labelled()
    assert holdfast(["triage", str(few), "--radius", "0.1"]) == hf.InvalidInput.exit_code
    assert "too few" in capsys.readouterr().err
    log = tmp_path / "log.tsv"
    log.write_text("\t".join(COHEN_COLUMNS) + "\n0\t1\t1\t0.5\t1\t0:00:01\n")
    import_log(log, tmp_path / "imported", sigma=0.5)
    assert holdfast(["triage", str(tmp_path / "imported"), "--radius", "0.1"]) == hf.InvalidArgument.exit_code
    assert "imported log" in capsys.readouterr().err


def test_the_command_compares_networks_and_says_when_it_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people = population(300, np.random.default_rng(14))
    known = stored(tmp_path / "known", people, fingerprints={"weights": "a1"}, max=300)
    same = stored(tmp_path / "same", people[:20], fingerprints={"weights": "a1"})
    other = stored(tmp_path / "other", people[:20], fingerprints={"weights": "b2"})
    unknown = stored(tmp_path / "unknown", people[:20], fingerprints={"weights": None})
    asked = ["triage", "--radius", "0.05", "--epsilon", "0.1", "--format", "json"]
    assert holdfast([*asked, str(known), "--apply", str(same)]) == 0
    said = capsys.readouterr()
    assert hf.Triage.from_dict(json.loads(said.out)).fingerprint == "a1"
    assert "cannot be told" not in said.err
    assert "certified with --max" in said.err
    assert holdfast([*asked, str(known), "--apply", str(other)]) == hf.RunError.exit_code
    assert "other weights" in capsys.readouterr().err
    unlike = stored(tmp_path / "unlike", people, max=301)
    for calibrated, applied in ((known, unknown), (unlike, same), (unlike, unknown)):
        assert holdfast([*asked, str(calibrated), "--apply", str(applied)]) == 0
        assert "cannot be told" in capsys.readouterr().err
    assert holdfast([*asked, str(unlike)]) == 0
    assert "--max" not in capsys.readouterr().err  # there were fewer than that
