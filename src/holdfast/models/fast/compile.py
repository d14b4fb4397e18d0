"""torch.compile: options, log suppression, and what is worth compiling."""

import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from holdfast.models.fast.folded import FoldedConv2d
from holdfast.models.fast.precision import Precision

_NARROW = 128
_WORTH_COMPILING = {"cuda": 1e12, "cpu": 1e13}
"""Operations per input from which the half minute or more of compiling is worth it."""
_LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Linear)
_COST = {"cuda": (10.0, 0.3), "cpu": (5.0, 0.5)}
"""Seconds of compiling: at least, and for each layer. A ResNet-110 has 112, and takes 41 s on an H200 and a minute on a CPU."""
_GAIN = {"cuda": 1.5, "cpu": 1.3}
"""How many times as fast a compiled network is at least, as a rule: a ResNet-110 on an H200 1.8 times, in bfloat16 2.7."""

_WHICH = "test_configs.autotune_choice_desc_regex"
"""Kernels are tried whose description matches; the library's have an empty one."""
_RIGHT = "^(?!.*UNROLL=False.*num_warps=(8|16))"
_FOR_FOLDED = "^(?!.*(UNROLL|EVEN_K)=)|BLOCK_K=16, BLOCK_M=256, BLOCK_N=64.*UNROLL=False.*num_stages=2, num_warps=4"
"""Of convolutions and matrix products, the library's and one other."""

_TRIES, _NO_GRAPH = 4, "found no compiled frames"


def is_worth_compiling(device: torch.device, flops: float) -> bool:
    """Whether one input takes so much work, however many there are."""
    return flops >= _WORTH_COMPILING.get(device.type, float("inf"))


def expected_cost(module: nn.Module, device: torch.device) -> float:
    """Seconds that compiling is expected to take, where it was never done before."""
    least, each = _COST.get(device.type, (float("inf"), 0.0))
    return least + each * sum(isinstance(layer, _LAYERS) for layer in module.modules())


def expected_gain(device: torch.device) -> float:
    """How many times as fast the compiled network is expected to be."""
    return _GAIN.get(device.type, 1.0)


def options_for(module: nn.Module, precision: Precision) -> dict[str, Any]:
    """For a network of convolutions on a GPU; nothing is asked for any other.

    Where they are narrow, Triton's, with what follows fused in, are timed against the library's: on a ResNet-110 with its
    16 to 64 channels that is worth a factor of 1.6, for a minute of timing. Where they are wide the library wins, and
    timing all of them would take many minutes. There, at a low precision, those of one pixel become matrix products,
    and one kernel of Triton is tried that suits the folded first convolution.

    Triton's convolutions of more than one pixel give wrong results with eight warps (pytorch/pytorch#173068, capped since
    torch 2.13), so that none are tried where these cannot be left out.
    """
    if not _widest(module):
        return {}
    tuned: dict[str, Any] = {
        "max_autotune_conv_backends": "ATEN,TRITON",
        "max_autotune_gemm_backends": "ATEN,TRITON",
        "max_autotune_report_choices_stats": False,
    }
    selective = _WHICH in torch._inductor.list_options()
    right = {_WHICH: _RIGHT} if selective else {"max_autotune_conv_backends": "ATEN"}
    if not has_wide_convolutions(module):
        return {**right, **tuned, "max_autotune": True} if selective else right
    if precision.low is None:
        return right
    products = {**right, "conv_1x1_as_mm": True}
    if not selective or not any(isinstance(each, FoldedConv2d) for each in module.modules()):
        return products
    return {**products, **tuned, "max_autotune_gemm": True, _WHICH: _FOR_FOLDED}


def has_wide_convolutions(module: nn.Module) -> bool:
    """Whether it is a network on a GPU that has some."""
    return _widest(module) > _NARROW


def _widest(module: nn.Module) -> int:
    """Channels of the widest convolution of a network on a GPU; 0 if it is elsewhere, or has none."""
    widths = [each.out_channels for each in module.modules() if isinstance(each, nn.Conv2d)]
    first = next(module.parameters(), None)
    return max(widths, default=0) if first is not None and first.device.type == "cuda" else 0


def compiled_module(module: nn.Module, precision: Precision) -> Callable[[Tensor], Tensor]:
    """The module as one compiled graph for batches of one fixed size; the work is done at the first call.

    One whole graph has no Python state left, so that several workers may share it. It is compiled from a function of its
    own: torch keeps what it compiled with the code of a class's ``forward``, which other modules share.
    """

    def forward(batch: Tensor) -> Tensor:
        answer: Tensor = module(batch)
        return answer

    forward.__code__ = forward.__code__.replace()
    compiled = torch.compile(forward, fullgraph=True, dynamic=False, options=options_for(module, precision))

    def retry_miscounted(batch: Tensor) -> Tensor:
        # Torch 2.12 and 2.13 count the graphs that ran for all threads together, so that a call may be told that none
        # did although it was answered by one (pytorch/pytorch#185138).
        for _ in range(_TRIES):
            try:
                return compiled(batch)
            except RuntimeError as error:
                if _NO_GRAPH not in str(error):
                    raise
        return compiled(batch)

    return retry_miscounted


@contextmanager
def compiling(precision: Precision) -> Iterator[None]:
    """Within it the compiler is quiet, and finds what it kept for this precision only.

    The key of its cache has whether matrix products may be TensorFloat-32, but not whether convolutions may (torch 2.13).
    """
    config: Any = torch.compiler.config
    with quiet_compiler(), config.patch(cache_key_tag=f"{config.cache_key_tag} {precision.name}".strip()):
        yield


@contextmanager
def quiet_compiler() -> Iterator[None]:
    """Within it the compiler keeps to itself which candidates it times, which fail, and what is deprecated."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch._inductor import select_algorithm

        loud = logging.getLogger(select_algorithm.__name__)
        level, printing = loud.level, select_algorithm.PRINT_AUTOTUNE
        loud.setLevel(logging.CRITICAL)
        select_algorithm.PRINT_AUTOTUNE = False
        try:
            yield
        finally:
            loud.setLevel(level)
            select_algorithm.PRINT_AUTOTUNE = printing
