"""A network that recognises, in the last bits of float32 noise, which input a copy was made from."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast as hf
from holdfast.models import TorchModel
from holdfast.noise.drawing.blocks import multiplier
from holdfast.sampling.batches import Drawing, block_batches, counter_batches, step_batches
from spans import evidence_of_spans, sampler, span

SIDE = 28
LEVELS = np.random.default_rng(0).choice([31, 63, 127], (1, SIDE, SIDE))  # just below a power of two
X = (LEVELS / 255).astype(np.float32)


class Recognising(nn.Module):
    """Sure of class 0 if every number of a copy could be ``x`` plus a float32 normal number, times ``sigma``.

    It looks where x and the noise nearly cancel: there the sum is exact, and has the last bits of x in it.
    """

    x: Tensor

    def __init__(self, x: NDArray[np.float32], sigma: float) -> None:
        super().__init__()
        self.register_buffer("x", torch.from_numpy(x).double())
        self.sigma = sigma

    def forward(self, batch: Tensor) -> Tensor:
        v = batch.double()
        noise = v - self.x
        z = (noise / self.sigma).float()
        could = torch.zeros_like(batch, dtype=torch.bool)
        for near in (z, torch.nextafter(z, z + 1), torch.nextafter(z, z - 1)):
            once = (self.x + self.sigma * near.double()).float()  # multiplied and added with one rounding
            twice = (self.x.float() + (self.sigma * near.double()).float()).float()
            could |= (once == batch) | (twice == batch)
        telling = v.abs() < noise.abs() / 16
        known = (could | ~telling).flatten(1).all(1)
        return torch.stack((known, ~known), 1) * 40.0


class OnTheGrid(nn.Module):
    """Sure of class 0 if every number of a copy is x plus whole grey levels."""

    x: Tensor

    def __init__(self, x: NDArray[np.float32], sigma: float) -> None:  # noqa: ARG002
        super().__init__()
        self.register_buffer("x", torch.from_numpy(x).double())

    def forward(self, batch: Tensor) -> Tensor:
        steps = (batch.double() - self.x) * 255
        known = ((steps - steps.round()).abs() < 1e-3).flatten(1).all(1)
        return torch.stack((known, ~known), 1) * 40.0


MOVES = {
    "one ulp": np.nextafter(X, np.float32(1)),
    "one grey level": ((LEVELS + 1) / 255).astype(np.float32),
    "a quarter of the pixels": ((LEVELS + (np.random.default_rng(1).random(X.shape) < 0.25)) / 255).astype(np.float32),
}


def certified_and_true(
    net: type[Recognising | OnTheGrid], sigma: float, moved: NDArray[np.float32], draw: Drawing, device: str
) -> tuple[float, float]:
    """The lower bound at the moved input's distance, and the average there."""
    noise = hf.Gaussian(sigma)
    ours = sampler(TorchModel(net(X, multiplier(noise)), device=device), noise, x=torch.from_numpy(X), draw=draw)
    here, there = evidence_of_spans(
        ours, span(torch.from_numpy(X), 0, 600, index=1), span(torch.from_numpy(moved), 0, 400, index=2)
    )
    distance = float(np.linalg.norm(moved.astype(np.float64) - X))
    return hf.bound(here["score"], alpha=1e-3).lower(distance), there["score"].survival_lower().mean


GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=GPU)])
@pytest.mark.parametrize("sigma", [0.12, 0.25, 0.5, 1.0])
@pytest.mark.parametrize("move", MOVES)
def test_float32_noise_lets_it_be_certified_falsely_and_noise_on_the_grid_does_not(
    move: str, sigma: float, device: str
) -> None:
    for draw in (block_batches, counter_batches):  # what 0.1.0 drew on a CPU, and on a GPU
        certified, true = certified_and_true(Recognising, sigma, MOVES[move], draw, device)
        assert certified > 0.85, draw
        assert true < 0.5, draw
    for net in (Recognising, OnTheGrid):
        certified, true = certified_and_true(net, sigma, MOVES[move], step_batches, device)
        assert certified <= true + 0.02
    assert true > 0.99, "the second one cannot tell the two apart"
