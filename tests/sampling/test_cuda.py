"""The GPU path; skipped where there is none."""

import time

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.certificates import Evidence
from holdfast.models import TorchModel
from holdfast.noise import BYTE
from holdfast.noise.drawing.counter import add_noise
from holdfast.noise.drawing.philox import standard_normals
from holdfast.sampling.batches import Share, step_batches
from holdfast.sampling.requests import LooksRequest
from holdfast.sampling.span import Counting, NoiseSpan
from holdfast.sequential.looks import plan_looks
from holdfast.service.batch_scheduler import BatchScheduler
from holdfast.service.requests import ServedRequest
from networks import images, small_net
from spans import evidence_of_spans, sampler, span

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
RADII = np.array([0.0, 0.1, 0.25, 0.5])


def test_the_certificate_is_below_the_closed_form_and_near_it() -> None:
    model = hf.ProbitModel(np.linspace(0.01, 0.3, 48), -5.7)
    x = np.full((3, 4, 4), 0.9, dtype=np.float32)
    cert = hf.SmoothedClassifier(model, 0.5, outputs="probabilities", device="cuda").certify(x, n=100_000, seed=1)
    truth = hf.ProbitModel(np.linspace(0.01, 0.3, 48), -5.7).worst_case(x, 0.5, RADII)
    assert (cert.score.lower(RADII) <= truth).all()
    assert (truth - cert.score.lower(RADII) < 0.05).all()
    assert cert.provenance.device.startswith("cuda")


def test_cpu_and_gpu_agree_within_sampling_error() -> None:
    x = images(1)[0]
    cpu = hf.SmoothedClassifier(small_net(), 0.3).certify(x, n=50_000, seed=1)
    gpu = hf.SmoothedClassifier(small_net(), 0.3, device="cuda").certify(x, n=50_000, seed=1)
    assert cpu.predicted == gpu.predicted
    assert gpu.score.lower(RADII) == pytest.approx(cpu.score.lower(RADII), abs=0.02)
    assert gpu.label_radius == pytest.approx(cpu.label_radius, abs=0.05)


def near(one: Evidence, other: Evidence, most: int = 3) -> bool:
    """Rows may be rounded otherwise in another place of a batch: a few of them cross the border of a bin."""
    return bool(np.abs(np.cumsum(one["score"].counts - other["score"].counts)).max() <= most)


def test_spans_merge_and_a_seed_repeats_itself() -> None:
    on_gpu = sampler(TorchModel(small_net(), device="cuda"), batch=256)
    x = torch.from_numpy(images(1)[0])
    ends = ((0, 3_000), (0, 1_000), (1_000, 3_000))
    whole, first, second = evidence_of_spans(on_gpu, *(span(x, *each, 1, index=3) for each in ends))
    assert (first + second).n == whole.n
    assert near(first + second, whole)
    assert on_gpu.count([span(x, 0, 3_000, 1, index=3)]) == on_gpu.count([span(x, 0, 3_000, 1, index=3)])


def test_questions_with_secrets_of_their_own_share_batches() -> None:
    xs = [torch.from_numpy(each) for each in images(3)]
    on_gpu = sampler(TorchModel(small_net(), device="cuda"), batch=256)
    shared = evidence_of_spans(on_gpu, *(span(x, 0, 2_500, 1, index=k, seed=50 + k) for k, x in enumerate(xs)))
    for k, x in enumerate(xs):
        (alone,) = evidence_of_spans(on_gpu, span(x, 0, 2_500, 1, index=k, seed=50 + k))
        (other,) = evidence_of_spans(on_gpu, span(x, 0, 2_500, 1, index=k, seed=9))
        assert near(shared[k], alone)
        assert shared[k] != other


def test_many_requests_at_once_get_what_each_would_get_alone() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, device="cuda", compile=False)
    xs = images(40)
    scheduler = BatchScheduler(sampler(smoothed.model, smoothed.noise, batch=None, copies=1), queue=64)
    requests = [
        ServedRequest(LooksRequest(torch.from_numpy(x), seed, 3, 100, 50_000, plan_looks(50_000)), watched=6)
        for seed, x in enumerate(xs)
    ]
    scheduler.start()
    for request in requests:
        scheduler.submit(request)
    until = time.monotonic() + 60
    while not all(request.over for request in requests) and time.monotonic() < until:
        time.sleep(0.01)
    scheduler.close()
    assert scheduler.metrics.text().count("holdfast_shared_rounds_total 0.0") == 0
    for seed, request in enumerate(requests):
        alone = smoothed.certify(xs[seed], n=50_000, seed=seed, index=3)
        assert request.error is None
        assert request.shown is not None
        assert request.answer.selection.predicted == alone.predicted
        assert near(request.answer.evidence, alone.evidence, most=10)


def test_uniform_noise_gives_the_cpus_copies() -> None:
    x, noise = images(1)[0], hf.Uniform(0.5)
    cpu = hf.SmoothedClassifier(small_net(), noise=noise).certify(x, n=20_000, seed=1)
    gpu = hf.SmoothedClassifier(small_net(), noise=noise, device="cuda").certify(x, n=20_000, seed=1)
    assert gpu.provenance.noise == cpu.provenance.noise == "uniform/philox4x64-10"
    assert near(gpu.evidence, cpu.evidence, most=10)


@pytest.mark.filterwarnings("ignore:.*runs uncompiled:RuntimeWarning")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_networks_that_mix_rows_and_that_count_calls_are_refused(precision: str, compiled: bool) -> None:
    class Mixing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            answer: torch.Tensor = self.net(x)
            return answer + answer.mean(0, keepdim=True) if len(x) >= 32 else answer

    smoothed = hf.SmoothedClassifier(Mixing(), 0.3, device="cuda", precision=precision, compile=compiled)
    with pytest.raises(hf.ModelError, match="other rows of the batch"):
        smoothed.certify(images(1)[0], n=20_000)


def test_the_gpu_draws_the_numbers_that_the_definition_says() -> None:
    keys = torch.tensor([[1, 2, 3], [4, 5, 2**32 - 1], [2**32 - 1, 0, 7]], device="cuda")
    slots = torch.arange(600, device="cuda") % 3
    copies = torch.arange(600, device="cuda") + 2**32 - 300
    inputs = torch.rand(3, 1_001, device="cuda")
    out = torch.empty(600, 1_001, device="cuda")
    add_noise(inputs, keys, slots, copies, 0.25, out)
    expected = inputs[slots].cpu() + 0.25 * standard_normals(keys[slots].cpu(), copies.cpu(), 1_001)
    assert torch.allclose(out.cpu(), expected, atol=2e-3)
    assert float((out.cpu() - expected).abs().mean()) < 1e-6


@pytest.mark.parametrize("noise", [hf.Gaussian(0.25), hf.Gaussian(1.0), hf.Uniform(0.5)], ids=str)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 7, 5), (3, 5, 5), (1_001,), (2, 3)], ids=str)
@pytest.mark.parametrize("step", [BYTE, 2.0**-12])
def test_a_gpu_draws_the_very_numbers_that_a_cpu_draws(noise: hf.Noise, shape: tuple[int, ...], step: float) -> None:
    xs = [torch.from_numpy(np.rint(np.random.default_rng(k).random(shape) / step) * step).float() for k in range(3)]
    spans = [
        (0, NoiseSpan(xs[0], 2**127, 5, Counting.EVIDENCE, 100, 140)),
        (1, NoiseSpan(xs[1], 3, 2**40, Counting.SELECTION, 2**33, 2**33 + 77)),
        (2, NoiseSpan(xs[2], 3, 0, Counting.EVIDENCE, 0, 9)),
    ]

    def copies(device: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
        share = Share(spans, 3, noise, step, 24, xs[0][None], torch.device(device))
        return [(batch.copies.cpu().clone()[: batch.count], batch.slots.cpu().clone()) for batch in step_batches(share)]

    for (ours, mine), (theirs, other) in zip(copies("cpu"), copies("cuda"), strict=True):
        assert torch.equal(ours, theirs)
        assert torch.equal(mine, other)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16", "float16"])
@pytest.mark.parametrize("compiled", [False, True])
def test_every_precision_is_certified_and_recorded(precision: str, compiled: bool) -> None:
    x = images(1)[0]
    plain = hf.SmoothedClassifier(small_net(), 0.3, device="cuda").certify(x, n=20_000, seed=1)
    cert = hf.SmoothedClassifier(small_net(), 0.3, device="cuda", precision=precision, compile=compiled).certify(
        x, n=20_000, seed=1
    )
    assert cert.provenance.precision == precision
    assert cert.provenance.compiled == compiled
    assert cert.score.lower(RADII) == pytest.approx(plain.score.lower(RADII), abs=0.01)


def test_a_batch_that_does_not_fit_is_halved() -> None:
    class Hungry(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = small_net()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.empty(len(x) * 2**30, device=x.device)
            answer: torch.Tensor = self.net(x)
            return answer

    x = torch.from_numpy(images(1)[0])
    hungry = sampler(TorchModel(Hungry(), device="cuda"), batch=4_096)
    (found,) = evidence_of_spans(hungry, span(x, 0, 5_000, 1, index=3))
    assert hungry.batch < 4_096
    assert found.n == 5_000


def test_memory_does_not_grow_with_n() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, device="cuda")
    peaks = []
    for n in (200_000, 2_000_000):
        torch.cuda.reset_peak_memory_stats()
        smoothed.certify(images(1)[0], n=n, seed=1)
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks[1] <= 1.05 * peaks[0]
