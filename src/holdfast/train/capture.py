"""CUDA graphs and compiled blocks: what makes training fast on a GPU."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_DIRECT_CALLS = 3
_MOST_VARIANTS = 64
"""Of one compiled block: by width, stride, mode, and whether gradients of the weights are asked for."""


class Captured:
    """A function of tensors of fixed shapes that is recorded as one CUDA graph, after a few direct calls.

    A replay launches all kernels at once, without Python in between. It draws fresh random numbers, and writes to the tensors
    that the recorded call wrote to.

    Requires:
        The function reads no number back from the device, and returns nothing. Everything on one stream, as within
        :func:`training_stream`.
    """

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._calls = 0
        self._inputs: tuple[Tensor, ...] = ()
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, *inputs: Tensor) -> None:
        """Call the function, or replay it."""
        if self._calls < _DIRECT_CALLS:
            self._calls += 1
            self._function(*inputs)
            return
        if self._graph is None:
            self._inputs = tuple(each.clone() for each in inputs)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
                self._function(*self._inputs)
            self._graph = graph
        for fixed, given in zip(self._inputs, inputs, strict=True):
            fixed.copy_(given)
        self._graph.replay()


@contextmanager
def training_stream(device: torch.device) -> Iterator[None]:
    """On a GPU, a stream of its own, which graphs can be recorded on; elsewhere nothing."""
    if device.type != "cuda":
        yield
        return
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        yield
    torch.cuda.current_stream(device).wait_stream(stream)


def compile_blocks(net: nn.Module) -> None:
    """Compile the blocks that a network repeats, each kind once: seconds, where a whole deep network takes minutes."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _MOST_VARIANTS)
    for group in net.modules():
        for block in group.children() if isinstance(group, nn.Sequential) else ():
            if not type(block).__module__.startswith("torch."):
                block.compile(dynamic=False)
