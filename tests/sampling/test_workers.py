"""Workers: how large their batches are, what happens when memory runs out, and that devices agree."""

import pytest
import torch
from torch import Tensor

import holdfast as hf
from holdfast.errors import ModelError
from holdfast.models import Model, TorchModel
from holdfast.noise import BYTE
from holdfast.sampling import CertifyRequest
from holdfast.sampling.batch_size import default_batch
from networks import images, small_net

X = images(1)[0]


class Small(Model):
    """A model with memory for a few rows only, at first or later."""

    name = "Small"
    device = torch.device("cpu")

    def __init__(self, room: int, *, from_call: int = 0) -> None:
        self.inner, self.room, self.left = TorchModel(small_net()), room, from_call

    def probabilities(self, batch: Tensor) -> Tensor:
        self.left -= 1
        if self.left < 0 and len(batch) > self.room:
            raise torch.OutOfMemoryError("out of memory")
        return self.inner.probabilities(batch)


@pytest.mark.parametrize("from_call", [0, 4])
def test_out_of_memory_halves_the_batch_and_counts_nothing_twice(from_call: int) -> None:
    done: list[int] = []
    request = CertifyRequest(torch.from_numpy(X), 4, 0, 100, 3_000)
    small = Small(40, from_call=from_call)
    (found,) = hf.Local().run(small, hf.Gaussian(0.3), [request], step=BYTE, batch=256, on_copies=done.append)
    meant = hf.SmoothedClassifier(small_net(), 0.3, batch=32).certify(X, n=3_000, seed=4)
    assert found.answer.evidence == meant.evidence
    assert sum(done) == 3_100


@pytest.mark.parametrize("from_call", [0, 4])
def test_a_model_that_does_not_fit_at_all_is_refused(from_call: int) -> None:
    with pytest.raises(ModelError, match="Small runs out of memory on cpu even with 8 copies at a time"):
        hf.SmoothedClassifier(Small(3, from_call=from_call), 0.3, batch=64).certify(X, n=3_000)


class Elsewhere(Model):
    """A model whose second replica is on another device; no further GPU is needed to see it."""

    name = "Elsewhere"

    def __init__(self, device: str = "cpu", *, sign: float = 1.0, sign_elsewhere: float = 1.0) -> None:
        self.net, self.device = small_net(), torch.device(device)
        self.sign, self.sign_elsewhere, self.made = sign, sign_elsewhere, 0

    def probabilities(self, batch: Tensor) -> Tensor:
        with torch.inference_mode():
            return (self.sign * self.net(batch)).softmax(1)  # type: ignore[no-any-return]

    def replicate(self, device: torch.device) -> Model:  # noqa: ARG002
        self.made += 1
        return Elsewhere() if self.made == 1 else Elsewhere("cpu:1", sign=self.sign_elsewhere)


@pytest.mark.usefixtures("two_threads")
def test_the_model_on_a_further_device_is_compared_with_the_first() -> None:
    assert hf.SmoothedClassifier(Elsewhere(), 0.3).certify(X, n=300).n == 300
    with pytest.raises(ModelError, match=r"answers otherwise on cpu:1 than on cpu .*use one GPU"):
        hf.SmoothedClassifier(Elsewhere(sign_elsewhere=-1.0), 0.3).certify(X, n=300)


@pytest.mark.parametrize(
    ("device", "shape", "flops", "size"),
    [
        ("cuda", (3, 32, 32), 5.1e8, 2_512),  # ResNet-110
        ("cuda", (3, 224, 224), 8.2e9, 512),  # ResNet-50
        ("cuda", (1, 28, 28), 1.2e6, 10_024),
        ("cuda", (3, 4_096, 4_096), 1e13, 16),
        ("cpu", (3, 32, 32), 5.1e8, 64),
        ("cpu", (3, 224, 224), 8.2e9, 8),
    ],
)
def test_batches_keep_a_device_busy_and_the_last_one_is_nearly_full(
    device: str, shape: tuple[int, ...], flops: float, size: int
) -> None:
    copies, probe = 100_100, max(1, min(8, size // 256))
    assert default_batch(torch.device(device), torch.Size(shape), flops) == size
    if size >= 200:
        assert -(-copies // (size - probe)) * size <= 1.01 * copies
