"""What the plain network says at the clean inputs of a run: no noise, no certificate, for comparison.

python -m experiments.paper.softmax --model net.safetensors --data cifar10.npz --run runs/a

writes ``softmax.npz`` into the run's folder: ``indices`` (int64, the inputs' indices in the dataset, ascending) and
``probabilities`` (float32, to seven decimals; one row an input, one column a class; each row sums to one).
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import holdfast as hf

if TYPE_CHECKING:
    from torch import nn

NAME = "softmax.npz"
_BATCH = 50
_DECIMALS = 7


@dataclass(frozen=True, eq=False)
class PlainSoftmax:
    """Class probabilities of the network itself at clean inputs."""

    indices: NDArray[np.int64]
    probabilities: NDArray[np.float32]

    def __post_init__(self) -> None:
        if self.probabilities.ndim != 2 or len(self.indices) != len(self.probabilities):
            raise hf.InvalidInput(
                f"expected one row of probabilities an index, got {self.probabilities.shape} for {len(self.indices)}"
            )
        if not np.allclose(self.probabilities.sum(axis=1), 1.0, atol=1e-3):
            raise hf.InvalidInput("the rows of probabilities must sum to one; were they logits?")

    def of(self, indices: Sequence[int], classes: Sequence[int]) -> NDArray[np.float64]:
        """The probability of one class at each of some inputs."""
        return np.asarray(self.probabilities[self._rows(indices), list(classes)], dtype=np.float64)

    def preferred(self, indices: Sequence[int]) -> list[int]:
        """The class with the largest probability at each of some inputs."""
        return [int(best) for best in self.probabilities[self._rows(indices)].argmax(axis=1)]

    def _rows(self, indices: Sequence[int]) -> list[int]:
        row = {index: k for k, index in enumerate(self.indices.tolist())}
        missing = [index for index in indices if index not in row]
        if missing:
            raise hf.InvalidInput(
                f"softmax.npz lacks {len(missing)} of the run's inputs, such as {missing[0]}; write it again"
            )
        return [row[index] for index in indices]

    def write(self, path: Path) -> Path:
        """As a compressed archive; digits that float32 has no room for next to one are cut, and a thousand classes are small."""
        np.savez_compressed(path, indices=self.indices, probabilities=self.probabilities.round(_DECIMALS))
        return path

    @classmethod
    def read(cls, path: Path) -> "PlainSoftmax":
        """The inverse of :meth:`write`."""
        with np.load(path, allow_pickle=False) as arrays:
            return cls(arrays["indices"].astype(np.int64), arrays["probabilities"].astype(np.float32))

    @classmethod
    def beside(cls, run: Path) -> "PlainSoftmax":
        """What is stored in a run's folder; refused with the command that writes it if nothing is."""
        if not (run / NAME).is_file():
            raise hf.RunError(
                f"{run} has no {NAME}, the network's own confidence without noise; write it with: "
                f"python -m experiments.paper.softmax --model MODEL --data DATA --run {run}"
            )
        return cls.read(run / NAME)


def plain_softmax(net: "nn.Module", images: NDArray[np.float32]) -> NDArray[np.float32]:
    """Class probabilities of a network that returns logits, at images in [0, 1]; on the CPU."""
    import torch

    net = net.to("cpu").eval()
    with torch.inference_mode():
        parts = [
            torch.softmax(net(torch.from_numpy(images[start : start + _BATCH])).double(), dim=1).float()
            for start in range(0, len(images), _BATCH)
        ]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float32)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    from holdfast.cli.models import open_model
    from holdfast.models.fingerprint import fingerprint
    from holdfast.report.thumbnails import check_same_inputs
    from holdfast.runs.certified import CertifiedRun
    from holdfast.zoo.datasets.open import open_dataset

    parser = argparse.ArgumentParser(description="Write the plain network's softmax at a run's inputs.")
    parser.add_argument("--model", required=True, help="the network that was certified: a name or a checkpoint")
    parser.add_argument("--data", required=True, help="the dataset that was certified")
    parser.add_argument("--run", type=Path, required=True, help="the run's folder")
    asked = parser.parse_args(arguments)
    try:
        run = hf.Run.open(asked.run)
        if not isinstance(run, CertifiedRun):
            raise hf.RunError(f"{asked.run} is an imported log; expected a run of 'holdfast certify'")
        indices, labels = run.answers.index, run.answers.label
        data = open_dataset(asked.data, split=str(run.config.get("split", "test")))
        images = data.batch(check_same_inputs(run, data))
        net = open_model(asked.model, data).net
        if run.fingerprint is not None and fingerprint(net) != run.fingerprint:
            raise hf.RunError(
                f"{asked.model} is not the network that {asked.run} was made with; give that one as --model"
            )
        probabilities = plain_softmax(net, images)
        target = PlainSoftmax(indices, probabilities).write(asked.run / NAME)
    except hf.HoldfastError as error:
        print(f"softmax: {error}", file=sys.stderr)
        return error.exit_code
    print(
        f"{target}: {len(indices)} inputs, {float((probabilities.argmax(axis=1) == labels).mean()):.3f} right without noise"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
