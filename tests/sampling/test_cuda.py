"""The GPU path; skipped where there is none."""

import time

import numpy as np
import pytest
import torch
from holdfast.serve.device import Device
from holdfast.serve.jobs import Asked, CertifyJob

import holdfast as hf
from holdfast.models import TorchModel
from holdfast.noise import Gaussian
from holdfast.noise.drawing.counter import add_noise
from holdfast.noise.drawing.philox import standard_normals
from holdfast.sampling import LocalEngine, Task
from holdfast.sequential.looks import plan_looks
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
    assert np.abs(np.cumsum((parts[0] + parts[1])["score"].counts - whole["score"].counts)).max() <= 3
    assert engine.estimate([Task(3, x, 0, 3_000, 1)], on_copies=nothing)[0] == whole


def test_questions_with_secrets_of_their_own_share_batches() -> None:
    xs = [torch.from_numpy(each) for each in images(3)]
    model = TorchModel(small_net(), device="cuda")
    shared = LocalEngine(model, Gaussian(0.3), seed=9, batch=256).estimate(
        [Task(k, x, 0, 2_500, 1, seed=50 + k) for k, x in enumerate(xs)], on_copies=nothing
    )
    for k, x in enumerate(xs):
        alone = LocalEngine(model, Gaussian(0.3), seed=50 + k, batch=256).estimate(
            [Task(k, x, 0, 2_500, 1)], on_copies=nothing
        )[0]
        other = LocalEngine(model, Gaussian(0.3), seed=9, batch=256).estimate(
            [Task(k, x, 0, 2_500, 1)], on_copies=nothing
        )[0]
        assert np.abs(np.cumsum(shared[k]["score"].counts - alone["score"].counts)).max() <= 3
        assert shared[k] != other


def test_a_device_with_many_jobs_gives_each_what_it_would_get_alone() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, device="cuda", compile=False)
    xs = images(40)
    device = Device(smoothed.engine(xs[0]), queue=64, block=1_000)
    jobs = [
        CertifyJob(Asked(torch.from_numpy(x), seed, 3, 100), plan_looks(50_000), watched=6) for seed, x in enumerate(xs)
    ]
    device.start()
    for job in jobs:
        device.submit(job)
    until = time.monotonic() + 60
    while not all(job.over for job in jobs) and time.monotonic() < until:
        time.sleep(0.01)
    device.close()
    assert device.shared > 0
    for seed, job in enumerate(jobs):
        alone = smoothed.certify(xs[seed], n=50_000, seed=seed, index=3)
        assert job.evidence is not None
        assert job.selection is not None
        assert job.peeked is not None
        assert job.error is None
        assert job.selection.predicted == alone.predicted
        assert np.abs(np.cumsum(job.evidence["score"].counts - alone.evidence["score"].counts)).max() <= 10


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
    engine = LocalEngine(TorchModel(Hungry(), device="cuda"), Gaussian(0.3), seed=9, batch=4_096)
    found = engine.estimate([Task(3, x, 0, 5_000, 1)], on_copies=nothing)[0]
    assert engine.batch < 4_096
    assert found.n == 5_000


def test_memory_does_not_grow_with_n() -> None:
    smoothed = hf.SmoothedClassifier(small_net(), 0.3, device="cuda")
    peaks = []
    for n in (200_000, 2_000_000):
        torch.cuda.reset_peak_memory_stats()
        smoothed.certify(images(1)[0], n=n, seed=1)
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks[1] <= 1.05 * peaks[0]
