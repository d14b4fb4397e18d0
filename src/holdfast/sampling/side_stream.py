"""Counting beside the network: small work on a GPU that runs while the next batch is computed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache

import torch
from torch import Tensor

from holdfast.models.model import torch_threads


@contextmanager
def side_stream(device: torch.device) -> Iterator[Callable[..., AbstractContextManager[object]]]:
    """Gives a context for work on some tensors, in a stream of its own; when all is done, the main stream waits for it.

    The work starts when what was asked of the device so far is done, and nothing asked later waits for it. On a CPU
    it is done on the spot.
    """
    if device.type != "cuda":
        yield lambda *_: torch_threads(1)
        return
    main, side = torch.cuda.current_stream(device), _stream(device)

    @contextmanager
    def working(*tensors: Tensor) -> Iterator[None]:
        side.wait_stream(main)
        with torch.cuda.stream(side):
            yield
        for tensor in tensors:
            tensor.record_stream(side)  # its memory is not given away before it was read

    try:
        yield working
    finally:
        main.wait_stream(side)


@cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """One for all: memory is kept for each stream, and a new one would have to get its own from the driver first."""
    # A high priority: its few blocks are not kept waiting by a network's thousands.
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
