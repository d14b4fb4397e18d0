"""How much work one noisy copy is: a count that is the same on every machine, for choices that must be."""

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode


def operations_per_copy(net: nn.Module, batch: Tensor) -> float:
    """Floating-point operations of convolutions and matrix products for one row; 0 if they cannot be counted."""
    try:
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            net(batch)
    except Exception:  # foreign code under a dispatch mode: a count is not worth an error
        return 0.0
    return float(counter.get_total_flops()) / len(batch)
