"""Counting beside the network: small work on a GPU that runs while the next batch is computed."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import torch
from torch import Tensor


@contextmanager
def beside(device: torch.device) -> Iterator[Callable[..., AbstractContextManager[None]]]:
    """Gives a context for work on some tensors, in a stream of its own; when all is done, the main stream waits for it.

    The work starts when what was asked of the device so far is done, and nothing asked later waits for it. On a CPU
    it is done on the spot.
    """
    if device.type != "cuda":
        yield lambda *_: nullcontext()
        return
    main = torch.cuda.current_stream(device)
    aside = _aside(device)

    @contextmanager
    def working(*tensors: Tensor) -> Iterator[None]:
        aside.wait_stream(main)
        with torch.cuda.stream(aside):
            yield
        for tensor in tensors:
            tensor.record_stream(aside)  # its memory is not given away before it was read

    try:
        yield working
    finally:
        main.wait_stream(aside)


@cache
def _aside(device: torch.device) -> torch.cuda.Stream:
    """One for all: memory is kept for each stream, and a new one would have to get its own from the driver first."""
    # A high priority: its few blocks are not kept waiting by a network's thousands.
    return torch.cuda.Stream(device, priority=-1)  # type: ignore[no-untyped-call]
