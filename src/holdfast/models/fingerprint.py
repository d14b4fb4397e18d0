"""Which network is this? A short name for a module's weights, so that a run is continued with the network it was begun with."""

import hashlib
import re

import torch
from torch import Tensor, nn

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def fingerprint(net: nn.Module) -> str:
    """SHA-256 of the module's structure as printed, and of every tensor of its state by name."""
    digest = hashlib.sha256(_ADDRESS.sub("", repr(net)).encode())
    for name, value in sorted(net.state_dict().items()):
        digest.update(f"\n{name} ".encode())
        if isinstance(value, Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)} ".encode())
            plain = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            digest.update(plain.numpy().data)
        else:  # a module may keep any object as its extra state
            digest.update(repr(value).encode())
    return digest.hexdigest()
