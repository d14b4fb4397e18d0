"""Noise on the grid: an exact table, whole numbers that depend on key, copy and place alone, and inputs off the grid."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

import holdfast as hf
from distributions import NOISES
from holdfast.inputs import on_grid
from holdfast.noise import BYTE, Stage, default_step, describe_step, rounded_table, sampled_noise
from holdfast.noise.drawing.steps import draw_steps, key_words
from holdfast.noise.rounded import AliasTable
from holdfast.sampling.batches import Share, step_batches
from networks import images, small_net
from spans import sampler, span

KEY = key_words(1, 2, Stage.ESTIMATION)


def weights(table: AliasTable) -> dict[int, int]:
    """How many of the 2^64 words give each number."""
    full, found = 2 ** (64 - table.bits), dict[int, int]()
    for column, packed in enumerate(table.columns.tolist()):
        bound, alias = divmod(packed, 2**table.bits)
        mine = full if alias == column else bound
        for number, share in ((column, mine), (alias, full - mine)):
            found[table.first + number] = found.get(table.first + number, 0) + share
    return {number: share for number, share in found.items() if share}


@pytest.mark.parametrize("sigma", [0.0006, 0.001, 0.0013, 0.002, 0.003, 0.12, 0.25, 0.5, 1.0])
def test_the_table_is_within_two_to_the_minus_52_of_the_rounded_gaussian(sigma: float) -> None:
    found = weights(rounded_table(hf.Gaussian(sigma), BYTE))
    assert sum(found.values()) == 2**64
    with mpmath.workdps(40):
        off, reach = mpmath.mpf(0), max(map(abs, found)) + 40
        for number in range(-reach, reach + 1):
            low, high = (
                (abs(number) + side) / (255 * mpmath.mpf(sigma)) for side in (-mpmath.mpf("0.5"), mpmath.mpf("0.5"))
            )
            exact = mpmath.ncdf(-low) - mpmath.ncdf(-high)
            off += abs(exact - mpmath.mpf(found.get(number, 0)) / 2**64)
        assert off / 2 < mpmath.mpf(2) ** -52


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("share", [0.7, 0.015, 1 / 4_096])
def test_every_table_gives_each_number_its_probability(noise: hf.Noise, share: float) -> None:
    step = share * noise.scale
    found = weights(rounded_table(noise, step))
    numbers = np.arange(min(found) - 9, max(found) + 10)
    p = noise.probability(np.multiply(numbers, step, dtype=np.float64), step) * 2.0**64
    off = sum(
        abs(found.get(number, 0) - Fraction(each)) for number, each in zip(numbers.tolist(), p.tolist(), strict=True)
    )
    assert sum(found.values()) == 2**64
    assert off / 2**65 < 2.0**-49


@pytest.mark.parametrize(
    ("noise", "step"), [(hf.Gaussian(0.25), BYTE), (hf.Uniform(0.5), BYTE), (hf.Gaussian(1.0), 0.05)]
)
def test_every_word_next_to_a_change_has_the_number_that_its_column_says(noise: hf.Noise, step: float) -> None:
    table = rounded_table(noise, step)
    rest = 64 - table.bits
    words, meant = list[int](), list[int]()
    for column, packed in enumerate(map(int, table.columns)):
        bound, alias = packed >> table.bits, packed & (2**table.bits - 1)
        for below in {0, bound - 1, bound, bound + 1, 2**rest - 1}:
            if 0 <= below < 2**rest:
                words.append(column << rest | below)
                meant.append(table.first + (column if below < bound else alias))
    drawn = table.draw(np.array(words, dtype=np.uint64))
    assert drawn.tolist() == meant
    # Words with the same first bits have the number of the nearest of these below them.
    ends = np.concatenate([np.arange(2**16, dtype=np.uint64) << np.uint64(48)] * 2)
    ends[2**16 :] |= np.uint64(2**48 - 1)
    order = np.argsort(np.array(words, dtype=np.uint64), kind="stable")
    near = np.searchsorted(np.array(words, dtype=np.uint64)[order], ends, side="right") - 1
    assert np.array_equal(table.draw(ends), np.array(meant)[order][near])


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_drawn_numbers_pass_a_chi_square_test_and_do_not_correlate(noise: hf.Noise) -> None:
    step = 0.1 * noise.scale
    drawn = draw_steps(rounded_table(noise, step), KEY, 0, 1_000, 1_002)
    numbers, counts = np.unique(drawn, return_counts=True)
    expected = drawn.size * noise.probability(np.multiply(numbers, step, dtype=np.float64), step)
    common = expected > 10
    assert (
        stats.chisquare(counts[common], expected[common] * counts[common].sum() / expected[common].sum()).pvalue > 1e-3
    )
    for one, other in ((drawn[:-1], drawn[1:]), (drawn[:, :-1], drawn[:, 1:]), (drawn[:, :-4], drawn[:, 4:])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / one.size**0.5


def test_a_number_depends_on_key_copy_and_place_alone() -> None:
    table = rounded_table(hf.Gaussian(0.25), BYTE)
    whole = draw_steps(table, KEY, 2**33, 9, 30)
    assert np.array_equal(draw_steps(table, KEY, 2**33 + 4, 3, 30), whole[4:7])
    keys = [key_words(seed, index, stage) for seed in (0, 2**127) for index in (0, 1) for stage in Stage]
    assert len({draw_steps(table, key, 0, 1, 8).tobytes() for key in keys}) == len(keys)


@pytest.mark.parametrize("shape", [(3, 4, 5), (7,), (2, 3)], ids=str)
def test_copies_are_whole_steps_and_no_two_numbers_share_their_noise(shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape)
    share = Share([(0, span(x, 0, 400, seed=1))], 1, hf.Gaussian(0.3), BYTE, 400, x[None][:0], x.device)
    steps = next(step_batches(share)).copies.double() / BYTE
    assert float((steps - steps.round()).abs().max()) < 1e-4
    flat = steps.reshape(400, -1)
    correlations = np.corrcoef(flat.numpy().T) - np.eye(flat.shape[1])
    assert np.abs(correlations).max() < 5.5 / 20
    assert float(flat.std()) * BYTE == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize("batch", [8, 96, 1_000])
def test_counts_do_not_depend_on_batches_or_workers(batch: int) -> None:
    xs = [torch.from_numpy(image) for image in images(3)]
    spans = [span(xs[0], 0, 700, 1, index=4), span(xs[1], 250, 600, 2, index=9), span(xs[2], 0, 55, 0, index=2)]
    alone = [sampler().count([each])[0] for each in spans]
    assert sampler(batch=batch).count(spans) == alone
    for threads in (2, 3):
        torch.set_num_threads(threads)
        together = sampler(batch=batch).count(spans)
        torch.set_num_threads(1)
        assert together == alone


def test_images_of_bytes_have_bytes_for_a_grid_and_others_a_power_of_two() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3)
    image = images(1)[0]
    cert = smoothed.certify(image, n=200, seed=1)
    assert (cert.provenance.step, cert.provenance.shift) == (BYTE, 0.0)
    assert "in steps of 1/255" in str(cert)
    other = smoothed.certify(image * 0.999, n=200, seed=1)
    assert other.provenance.step == default_step(hf.Gaussian(0.3), bytes_=False) == 2.0**-14
    assert describe_step(2.0**-14) == "2^-14"
    assert 0 < other.provenance.shift <= 2.0**-15 * 6
    assert smoothed.certify(image.astype(np.float64), n=200, seed=1).provenance.shift < 1e-6


@pytest.mark.parametrize("noise", [hf.Gaussian(0.25), hf.Uniform(0.5)], ids=str)
def test_an_input_off_the_grid_has_its_distance_subtracted_from_every_radius(noise: hf.Noise) -> None:
    smoothed = hf.SmoothedClassifier(small_net(), noise=noise, step=BYTE)
    image = images(1)[0].astype(np.float64)
    moved = np.where(np.arange(36).reshape(1, 6, 6) < 9, image + 0.4 / 255, image)
    shift = 9 * 0.4 / 255 if noise.norm == "l1" else 3 * 0.4 / 255
    at, off = (smoothed.certify(x, n=3_000, seed=1, sides="both") for x in (image, moved))
    assert off.evidence == at.evidence
    assert off.provenance.shift == pytest.approx(shift, rel=1e-4)
    radii = np.array([0.0, 0.05, 0.3])
    for name in ("score", "margin"):
        assert off.curve(name).lower(radii) == pytest.approx(at.curve(name).lower(radii + shift), abs=1e-6)
        assert off.curve(name).upper(radii) == pytest.approx(at.curve(name).upper(radii + shift), abs=1e-6)
    threshold = at.score.lower(0.1)
    assert off.score.radius(at_least=threshold) == pytest.approx(at.score.radius(at_least=threshold) - shift, abs=1e-6)
    assert off.label_radius == pytest.approx(max(0.0, at.label_radius - shift), abs=1e-6)
    assert f"radii reduced by {shift:.4f}"[:-1] in str(off)
    found = [smoothed.find_radius(x, at_least=threshold, n_max=2_000, seed=1) for x in (image, moved)]
    assert found[1].radius == pytest.approx(max(0.0, found[0].radius - shift), abs=1e-6)
    # A question is decided as if it were asked about the larger radius.
    for radius in (0.0, 0.1, 0.2):
        asked, larger = (
            smoothed.decide(x, at_least=threshold, radius=r, n_max=2_000, seed=1)
            for x, r in ((moved, radius), (image, radius + off.provenance.shift))
        )
        assert (asked.certified, asked.samples, asked.radius) == (larger.certified, larger.samples, radius)
    classes = [smoothed.certify_classes(x, n=2_000, seed=1) for x in (image, moved)]
    assert classes[1].lower(0.1) == pytest.approx(classes[0].lower(0.1 + shift), abs=1e-6)


def test_what_samples_know_of_a_noise_is_a_valid_curve_below_the_noises_own() -> None:
    p, radii = np.linspace(0, 1, 2_001), np.array([[0.0], [0.1], [0.7]])
    for noise in NOISES.values():
        seen = sampled_noise(noise, BYTE, 0.01)
        curve = seen.least_probability(p, radii)
        assert (curve <= noise.least_probability(p, radii)).all()
        assert (np.diff(curve, axis=1) >= 0).all()
        assert (np.diff(curve, 2, axis=1) >= -1e-12).all()
        at = seen.least_probability(p[:, None], 0.1) - (
            seen.least_probability(p, 0.1) + seen.slope(p, 0.1) * (p[:, None] - p)
        )
        inside = (p > 1e-3) & (p < 1 - 1e-3)
        assert (at[:, inside] >= -1e-9).all(), "slopes are those of tangents"
        assert seen.radius(0.9, 0.5) == pytest.approx(noise.radius(0.9, 0.5) - 0.01, abs=1e-6)


def test_an_input_of_more_numbers_than_the_error_allows_for_is_refused() -> None:
    with pytest.raises(hf.InvalidInput, match="at most 1,048,576 numbers, got 1,100,000"):
        hf.SmoothedClassifier(small_net(), 0.3).certify(np.zeros(1_100_000, dtype=np.float32), n=200)


@pytest.mark.parametrize("size", [3.0, 300.0, 900.0, 3_000.0, 1e5, 1e9])
@pytest.mark.parametrize("step", [2.0**-14, 2.0**-9, BYTE])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_the_shift_is_the_distance_to_the_point_that_is_sampled_or_the_input_is_refused(
    size: float, step: float, kind: type[np.floating]
) -> None:
    x = (size * np.random.default_rng(0).uniform(-1, 1, 200)).astype(kind)
    try:
        found, shift, _ = on_grid(x, step, hf.Gaussian(0.25))
    except hf.InvalidInput:
        assert size / step > 2**22
        return
    share = Share([(0, span(found, 0, 1, seed=1))], 1, hf.Gaussian(1e-9), step, 1, found[None][:0], found.device)
    sampled = np.rint(next(step_batches(share)).copies[0].double().numpy() / step) * step  # without any noise
    assert np.linalg.norm(x.astype(np.float64) - sampled) <= shift * (1 + 1e-12) + 2.0**-12 * step * 200**0.5


def test_a_triage_answers_every_image_however_far_it_is_from_the_grid() -> None:
    """Or an adversary could choose to be refused."""
    smoothed = hf.SmoothedClassifier(small_net(), 0.015)
    xs = images(40)
    certificates = smoothed.certify_many(xs, n=300, seed=1, progress=False)
    labels = [cert.predicted for cert in certificates]
    triage = hf.choose_threshold(zip(certificates, labels, strict=True), radius=0.01, epsilon=0.3, delta=0.3)
    assert "in steps of 1/255" in str(triage)
    between = xs[0] + np.float32(0.4 / 255)
    with pytest.raises(hf.InvalidInput, match="finer grid"):
        hf.SmoothedClassifier(small_net(), 0.015, step=BYTE).certify(between, n=300)
    with pytest.warns(RuntimeWarning, match="cannot be checked"):
        verdicts = [smoothed.triage(x, triage, seed=3) for x in (xs[0], between)]
    assert verdicts[0] == verdicts[1]


def test_a_certificate_does_not_depend_on_the_inputs_beside_it() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3)
    image, between = images(2)[0], images(2)[1] * np.float32(0.999)
    alone = [smoothed.certify(x, n=300, seed=5, index=k) for k, x in enumerate((image, between, image))]
    assert smoothed.certify_many([image, between, image], n=300, seed=5, progress=False) == alone
    assert [cert.provenance.step for cert in alone] == [BYTE, 2.0**-14, BYTE]
    question = {"at_least": 0.3, "radius": 0.05, "seed": 5, "n_max": 2_000}
    decided = [smoothed.decide(x, index=k, **question) for k, x in enumerate((between, image))]  # type: ignore[arg-type]
    assert smoothed.decide_many([between, image], progress=False, **question) == decided  # type: ignore[arg-type]


def test_a_noise_whose_probability_is_wrong_is_refused() -> None:
    class Endless(hf.Gaussian):
        kind = "test-endless"

        def probability(self, middle: np.typing.NDArray[np.float64], width: float) -> np.typing.NDArray[np.float64]:
            return np.ones_like(middle) * width

    class Halved(hf.Gaussian):
        kind = "test-halved"

        def probability(self, middle: np.typing.NDArray[np.float64], width: float) -> np.typing.NDArray[np.float64]:
            return super().probability(middle, width) / 2

    for noise, said in ((Endless(0.3), "hardly ever"), (Halved(0.3), "must sum to one")):
        with pytest.raises(hf.InvalidArgument, match=said):
            hf.SmoothedClassifier(small_net(), noise=noise).certify(images(1)[0], n=200)
