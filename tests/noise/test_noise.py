"""Counter-based noise: the numbers are the published generator's, normal, and a function of key, copy and place alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from holdfast.certificates import Selection
from holdfast.noise import Gaussian, Stage
from holdfast.noise.drawing.blocks import multiplier
from holdfast.noise.drawing.counter import add_noise, key_words
from holdfast.noise.drawing.philox import philox, standard_normals
from holdfast.sampling.accumulate import Accumulator
from holdfast.sampling.batches import Drawing, Share, block_batches, counter_batches
from networks import images
from spans import choosing, evidence_of_spans, sampler, selected, span

SIGMA = 0.3


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


@pytest.mark.parametrize("batch", [8, 96, 1_000])
def test_counted_copies_do_not_depend_on_batches_or_workers(batch: int) -> None:
    xs = [torch.from_numpy(image) for image in images(3)]
    spans = [span(xs[0], 0, 700, 1, index=4), span(xs[1], 250, 600, 2, index=9), span(xs[2], 0, 55, 0, index=2)]
    alone = [sampler(draw=counter_batches).count([each])[0] for each in spans]
    assert sampler(batch=batch, draw=counter_batches).count(spans) == alone
    for threads in (2, 3):
        torch.set_num_threads(threads)
        together = sampler(batch=batch, draw=counter_batches).count(spans)
        torch.set_num_threads(1)
        assert together == alone


def test_counted_copies_of_a_span_are_those_of_the_whole() -> None:
    x = torch.from_numpy(images(1)[0])
    spans = (span(x, *ends, 1, index=3) for ends in ((0, 900), (0, 317), (317, 900)))
    whole, first, second = evidence_of_spans(sampler(batch=50, draw=counter_batches), *spans)
    assert first + second == whole


@pytest.mark.parametrize("draw", [block_batches, counter_batches])
@pytest.mark.parametrize("batch", [8, 96, 1_000])
@pytest.mark.parametrize("n0", [1, 40, 130])
def test_one_pass_finds_what_selection_and_then_estimation_find(batch: int, n0: int, draw: Drawing) -> None:
    fixed = [span(torch.from_numpy(image), 0, 300, index=index) for index, image in enumerate(images(3))]
    chosen = [choosing(each, n0) for each in fixed]
    following = [replace(each, target=first) for each, first in zip(fixed, chosen, strict=True)]
    found = sampler(batch=batch, draw=draw).count([*chosen, *following])
    for each, first, selection, evidence in zip(fixed, chosen, found[:3], found[3:], strict=True):
        expected = selected(sampler(batch=batch, draw=draw), first)
        assert isinstance(selection, Selection)
        assert selection.sums.tolist() == expected.sums.tolist()
        aimed = replace(each, target=expected.predicted)
        assert [evidence] == evidence_of_spans(sampler(batch=batch, draw=draw), aimed)
    torch.set_num_threads(2)  # one of the two does both
    in_two = sampler(batch=batch, draw=draw).count([*chosen, *following])
    torch.set_num_threads(1)
    assert in_two[3:] == found[3:]


def test_the_leading_class_is_the_first_of_equals() -> None:
    rows = torch.tensor([[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    spans = [choosing(span(torch.zeros(1), 0, 1), 2), choosing(span(torch.zeros(1), 0, 1), 1)]
    accumulator = Accumulator(spans, (), torch.device("cpu"))
    accumulator.add(rows, torch.tensor([0, 0, 1]), 3)
    assert [each.predicted for each in accumulator.results("net", Gaussian(SIGMA))] == [0, 2]  # type: ignore[union-attr]


def test_a_colour_image_gets_each_of_its_numbers_once() -> None:
    x = torch.rand(3, 4, 5)
    share = Share([(0, span(x, 0, 6, seed=1))], 1, Gaussian(SIGMA), 0.0, 6, x[None][:0], torch.device("cpu"))
    batch = next(counter_batches(share))
    key = torch.tensor([key_words(1, 0, Stage.ESTIMATION)]).expand(6, 3)
    numbers = standard_normals(key, torch.arange(6), 60).reshape(6, 4, 5, 3).permute(0, 3, 1, 2)
    assert torch.allclose(batch.copies, x + multiplier(Gaussian(SIGMA)) * numbers, atol=1e-6)
