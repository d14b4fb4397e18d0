"""Which network is this? A short name for a module's weights, so that a run is continued with the network it was begun with."""

import hashlib
import re

import torch
from torch import Tensor, nn

_PLAIN = (bool, int, float, str)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def fingerprint(net: nn.Module) -> str:
    """SHA-256 of the module's structure as printed, of its plain attributes, and of every tensor of its state by name."""
    digest = hashlib.sha256(_ADDRESS.sub("", repr(net)).encode())
    for name, module in net.named_modules():
        plain = {key: value for key, value in vars(module).items() if key != "training" and isinstance(value, _PLAIN)}
        digest.update(f"\n{name} {sorted(plain.items())}".encode())
    for name, value in sorted(net.state_dict().items()):
        digest.update(f"\n{name} ".encode())
        if isinstance(value, Tensor):
            digest.update(f"{value.dtype} {tuple(value.shape)} ".encode())
            digest.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
        else:  # a module may keep any object as its extra state
            digest.update(repr(value).encode())
    return digest.hexdigest()
