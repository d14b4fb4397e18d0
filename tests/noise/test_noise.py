"""Counter-based noise: the numbers are the published generator's, normal, and a function of key, copy and place alone."""

import numpy as np
import pytest
import torch
from scipy import stats

import holdfast as hf
from holdfast.certificates.evidence import Evidence, Selection
from holdfast.measures import DEFAULT_MEASURES
from holdfast.models import TorchModel
from holdfast.noise import Gaussian, Stage
from holdfast.noise.drawing.counter import add_noise, key_words
from holdfast.noise.drawing.philox import philox, standard_normals
from holdfast.sampling.accumulate import Accumulator
from holdfast.sampling.batches import CounterBatches
from holdfast.sampling.local import LocalSampler
from holdfast.sampling.span import Counting, NoiseSpan
from networks import images, small_net

SIGMA = 0.3
NOISE = Gaussian(SIGMA)


def words(*values: int) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor([value]) for value in values)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_the_generator_gives_the_published_answers(
    counter: tuple[int, ...], key: tuple[int, ...], expected: str
) -> None:
    a, b, c, d = words(*counter)
    k0, k1 = words(*key)
    assert " ".join(f"{int(word):08x}" for word in philox((a, b, c, d), (k0, k1))) == expected


def test_numbers_are_standard_normal_and_uncorrelated() -> None:
    keys = torch.tensor([[3, 1, 4], [1, 5, 9]]).repeat_interleave(100, 0)
    draws = standard_normals(keys, torch.arange(100).repeat(2), 1_002).double().numpy()
    assert stats.kstest(draws.ravel(), "norm").pvalue > 1e-3
    assert abs(float((draws > 3).mean()) - 0.00134990) < 3e-4
    # Copies, neighbouring places, the four words of a counter, and two inputs.
    for one, other in ((draws[:-1], draws[1:]), (draws[:, :-1], draws[:, 1:]), (draws[:, :251], draws[:, 251:502])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / one.size**0.5
    assert abs(np.corrcoef(draws[:100].ravel(), draws[100:].ravel())[0, 1]) < 5 / (draws.size / 2) ** 0.5


def test_a_number_depends_on_its_key_copy_and_place_alone() -> None:
    keys, copies = torch.tensor([[1, 2, 3]] * 5), torch.tensor([7, 2**32 + 7, 8, 9, 10])
    whole = standard_normals(keys, copies, 30)
    assert torch.equal(whole[3:4], standard_normals(keys[3:4], copies[3:4], 30))
    assert len({tuple(row.tolist()) for row in whole}) == 5  # copies 7 and 7 + 2^32 are not the same


def test_stages_inputs_and_seeds_have_keys_of_their_own() -> None:
    keys = [key_words(seed, index, stage) for seed in (0, 2**127) for index in (0, 1) for stage in Stage]
    assert len({tuple(key) for key in keys}) == len(keys)


def test_noisy_copies_are_inputs_plus_sigma_times_the_numbers() -> None:
    inputs, keys = torch.rand(2, 10), torch.tensor([[1, 2, 3], [4, 5, 6]])
    slots, copies = torch.tensor([1, 0, 1]), torch.tensor([0, 0, 5])
    out = torch.empty(3, 10)
    add_noise(inputs, keys, slots, copies, SIGMA, out)
    assert torch.allclose(out, inputs[slots] + SIGMA * standard_normals(keys[slots], copies, 10), atol=1e-6)


def sampler(batch: int) -> LocalSampler:
    model, x = TorchModel(small_net()), torch.from_numpy(images(1)[0])
    return LocalSampler(model, NOISE, DEFAULT_MEASURES, x=x, copies=1_000, batch=batch, kind=CounterBatches)


def span(k: int, start: int, stop: int, target: int | NoiseSpan, counting: Counting = Counting.EVIDENCE) -> NoiseSpan:
    return NoiseSpan(torch.from_numpy(images(3)[k]), 5, 2 * k, counting, start, stop, target)


@pytest.mark.parametrize("batch", [8, 96, 1_000])
def test_counted_copies_do_not_depend_on_batches_workers_or_company(batch: int, two_threads: None) -> None:
    spans = [span(0, 0, 700, 1), span(1, 250, 600, 2), span(2, 0, 55, 0)]
    together = sampler(batch).count(spans)
    torch.set_num_threads(1)
    assert together == [sampler(64).count([each])[0] for each in spans]


def test_counted_copies_of_a_span_are_those_of_the_whole() -> None:
    ours = sampler(50)
    (whole,) = ours.count([span(0, 0, 900, 1)])
    first, second = ours.count([span(0, 317, 900, 1), span(0, 0, 317, 1)])
    assert isinstance(first, Evidence)
    assert isinstance(second, Evidence)
    assert first + second == whole


@pytest.mark.parametrize("batch", [8, 96, 1_000])
@pytest.mark.parametrize("n0", [1, 40, 130])
def test_one_pass_finds_what_selection_and_then_estimation_find(batch: int, n0: int) -> None:
    ours = sampler(batch)
    choosing = [span(k, 0, n0, 0, Counting.SELECTION) for k in range(3)]
    counted = 0

    def count(copies: int) -> None:
        nonlocal counted
        counted += copies

    found = ours.count([*choosing, *(span(k, 0, 300, choosing[k]) for k in range(3))], count)
    assert counted == 3 * (n0 + 300)
    chosen = [each for each in ours.count(choosing) if isinstance(each, Selection)]
    expected = ours.count([span(k, 0, 300, each.predicted) for k, each in enumerate(chosen)])
    assert found[3:] == expected
    sums = [each.sums.tolist() for each in found[:3] if isinstance(each, Selection)]
    assert sums == [each.sums.tolist() for each in chosen]


def test_the_leading_class_is_the_first_of_equals() -> None:
    choosing = [span(k, 0, 2, 0, Counting.SELECTION) for k in range(2)]
    spans = [*choosing, *(span(k, 0, 1, choosing[k]) for k in range(2))]
    counts = Accumulator(spans, DEFAULT_MEASURES, torch.device("cpu"))
    rows = [[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.0, 0.25, 0.75], [0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]
    counts.add(torch.tensor([*rows, rows[4]]), torch.tensor([0, 0, 1, 1, 2, 3]))
    first, second, of_first, of_second = counts.results("a model", NOISE)
    assert isinstance(first, Selection)
    assert isinstance(second, Selection)
    assert (first.predicted, second.predicted) == (0, 2)
    assert isinstance(of_first, Evidence)
    assert isinstance(of_second, Evidence)
    assert (of_first.votes, of_second.votes) == (1, 0)
    assert of_first["score"] == hf.ScoreSamples([0.5], noise=NOISE).histogram()
    assert of_second["score"] == hf.ScoreSamples([0.25], noise=NOISE).histogram()


def test_a_colour_image_gets_each_of_its_numbers_once() -> None:
    x = torch.rand(3, 4, 5)
    batches = CounterBatches([NoiseSpan(x, 1, 0, Counting.EVIDENCE, 0, 6)], NOISE, 8, x[None])
    (batch,) = batches.of_worker(0, 1, torch.device("cpu"))
    key = torch.tensor([key_words(1, 0, Stage.ESTIMATION)]).expand(6, 3)
    numbers = standard_normals(key, torch.arange(6), 60).reshape(6, 4, 5, 3).permute(0, 3, 1, 2)
    assert torch.allclose(batch.copies[:6], x + NOISE.multiplier * numbers, atol=1e-6)
    assert batch.copies.is_contiguous(memory_format=torch.channels_last)
    assert (batch.count, batch.last, batch.slots.tolist()) == (6, True, [0] * 6 + [1] * 2)
    assert torch.equal(batch.copies[7], x), "the probe's row comes last"
