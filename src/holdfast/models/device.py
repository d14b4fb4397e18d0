"""Where a module runs."""

import torch
from torch import nn

from holdfast.errors import InvalidArgument


def resolve_device(device: str | torch.device | None, net: nn.Module | None = None) -> torch.device:
    """The device asked for, if it is there; ``auto`` is the GPU if there is one; None is where the module is."""
    if device is None:
        first = next(net.parameters(), None) if net is not None else None
        return torch.device("cpu") if first is None else first.device
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise InvalidArgument(f'device must be "auto", "cpu" or "cuda" (or "cuda:1", ...), got {device!r}') from error
    if found.type not in ("cpu", "cuda"):
        raise InvalidArgument(f'device must be "auto", "cpu" or "cuda" (or "cuda:1", ...), got {device!r}')
    if found.type == "cuda" and not torch.cuda.is_available():
        raise InvalidArgument(f"device {device!r} was asked for, but this torch sees no CUDA GPU; use the device 'cpu'")
    return found
