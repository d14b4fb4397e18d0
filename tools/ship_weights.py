"""Weights to ship: convolutions and linear layers in bfloat16, which halves the file, the rest as it is.

    python tools/ship_weights.py trained.safetensors src/holdfast/zoo/data/NAME.safetensors

At precision bfloat16 the network is the same, number for number, since these weights are cast there anyway.
"""

import sys
from pathlib import Path

import torch
from torch import nn

from holdfast.zoo.checkpoint import load_checkpoint, save_checkpoint


def main(source: Path, target: Path) -> None:
    """Write ``source`` again, smaller."""
    checkpoint = load_checkpoint(source)
    for module in checkpoint.net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.to(torch.bfloat16)
    notes = {**checkpoint.notes, "stored": "convolutions and linear layers rounded to bfloat16"}
    save_checkpoint(target, checkpoint.net, checkpoint.architecture, notes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
