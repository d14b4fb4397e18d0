"""Fingerprints: equal for equal networks in every process, and different, or none, for others."""

import sys
from collections import OrderedDict
from collections.abc import Callable
from types import MethodType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.models.fingerprint import fingerprint
from holdfast.zoo.pretrained import load_embedded_model
from networks import CHANGES_IN_PLACE, CHANGES_OF_STRUCTURE, Knobs

CHANGES = {**CHANGES_IN_PLACE, **CHANGES_OF_STRUCTURE}


def test_the_embedded_network_has_the_fingerprint_that_0_1_0_recorded() -> None:
    known = "a014434c0518a659914d696f7c6750d0758cfae41abd3e95a95d74eaa34d7836"
    for precision in ("float32", "bfloat16"):
        net = load_embedded_model().net.train()
        assert hf.SmoothedClassifier(net, 0.25, precision=precision).fingerprint == known


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_module_has_another_fingerprint_or_none(change: str) -> None:
    net, known = Knobs(), fingerprint(Knobs())
    assert known == fingerprint(net.train()) == fingerprint(net.eval()) is not None
    CHANGES[change](net)
    assert fingerprint(net) != known


class Apart(nn.Module):
    """A module with parts that torch does not know of."""

    def __init__(self, step: Callable[[Tensor], Tensor], cache: Any = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.heads, self.step, self.cache = nn.Linear(3, 3), [nn.Linear(3, 3)], step, cache


def step(x: Tensor) -> Tensor:
    return x


def other_step(x: Tensor) -> Tensor:
    return -x


def test_parts_and_functions_that_torch_does_not_see_count(monkeypatch: pytest.MonkeyPatch) -> None:
    net, hidden, bound = Apart(step), Apart(step), Apart(step)
    known = fingerprint(net)
    assert known == fingerprint(Apart(step)) is not None
    hidden.heads[0].weight.data.neg_()
    assert len({known, fingerprint(hidden), fingerprint(Apart(other_step)), None}) == 4
    bound.forward = MethodType(lambda _, x: -x, bound)
    assert fingerprint(Apart(lambda x: x)) is fingerprint(bound) is None
    monkeypatch.setattr(sys.modules[__name__], "step", other_step)
    assert fingerprint(net) is None  # its function has lost its name


def test_containers_count_by_kind_and_content() -> None:
    kinds: list[Any] = [{}, OrderedDict(), {"a": 1}, {"a": 2}, {3, 4}, {3, 5}, (1, 2), [1, 2], torch.ones(2)]
    found = {fingerprint(Apart(step, kind)) for kind in (*kinds, torch.zeros(2))}
    assert len(found - {None}) == len(kinds) + 1
    assert fingerprint(Apart(step, {"b", "a"})) == fingerprint(Apart(step, {"a", "b"}))


def test_shared_weights_are_told_from_equal_ones() -> None:
    def pair(*, shared: bool) -> nn.Module:
        torch.manual_seed(0)
        first, second = nn.Linear(4, 4), nn.Linear(4, 4)
        second.load_state_dict(first.state_dict())
        if shared:
            second.weight = first.weight
        return nn.Sequential(first, second)

    assert len({fingerprint(pair(shared=shared)) for shared in (True, False, True)}) == 2
