"""The GPU path; skipped where there is none."""

import numpy as np
import pytest
import torch

import holdfast as hf
from holdfast.models import TorchModel
from holdfast.noise import BlockKey, Gaussian, Stage
from holdfast.sampling import LocalEngine, Task
from networks import images, small_net

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
RADII = np.array([0.0, 0.1, 0.25, 0.5])


def nothing(_: int) -> None:
    pass


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


def test_spans_merge_and_a_seed_repeats_itself() -> None:
    engine = LocalEngine(TorchModel(small_net(), device="cuda"), Gaussian(0.3), seed=9, batch=256)
    x = torch.from_numpy(images(1)[0])
    whole = engine.estimate([Task(3, x, 0, 3_000, 1)], on_copies=nothing)[0]
    parts = engine.estimate([Task(3, x, 0, 1_000, 1), Task(3, x, 1_000, 3_000, 1)], on_copies=nothing)
    assert (parts[0] + parts[1]).n == whole.n
    assert np.abs(np.cumsum((parts[0] + parts[1]).score.counts - whole.score.counts)).max() <= 3
    assert engine.estimate([Task(3, x, 0, 3_000, 1)], on_copies=nothing)[0] == whole


def test_noise_is_standard_normal_and_keyed() -> None:
    device = torch.device("cuda")
    noise = Gaussian(1.0)
    blocks = [noise.standard_block(BlockKey(7, 0, Stage.ESTIMATION, k), (1_000,), device) for k in range(4)]
    draws = torch.cat(blocks).double()
    assert abs(float(draws.mean())) < 4 / draws.numel() ** 0.5
    assert abs(float(draws.var()) - 1) < 6 / draws.numel() ** 0.5
    tail = float((draws > 3).double().mean())
    assert tail == pytest.approx(0.00134990, rel=0.1)
    assert torch.equal(blocks[1], noise.standard_block(BlockKey(7, 0, Stage.ESTIMATION, 1), (1_000,), device))
    assert not torch.equal(blocks[1], noise.standard_block(BlockKey(7, 0, Stage.SELECTION, 1), (1_000,), device))


def test_memory_does_not_grow_with_n() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, device="cuda")
    peaks = []
    for n in (20_000, 200_000):
        torch.cuda.reset_peak_memory_stats()
        smoothed.certify(images(1)[0], n=n, seed=1)
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks[1] <= 1.05 * peaks[0]
