"""``recheck`` of a pruned network against full certificates of it: agreement, and the share of the noisy copies.

    python benchmarks/recheck.py --inputs 200 --n 10000 --pruned 0.1 0.3 --margins 0.0 0.01 0.05 --save recheck.json

The embedded Fashion-MNIST network is certified into a run. A copy in which the smallest weights of each layer are zero is
rechecked against that run, and certified in full: does its own certificate reach the value of each claim?
"""

import argparse
import copy
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

import holdfast as hf
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.claims import ClaimsAsked
from holdfast.runs.execute import Plan, execute
from holdfast.runs.recheck import recheck
from holdfast.runs.rechecked import Outcome, Recheck
from holdfast.zoo.datasets.embedded import load_fashion_mnist
from holdfast.zoo.pretrained import EMBEDDED_SIGMA, load_embedded_model


def pruned(net: nn.Module, share: float) -> nn.Module:
    """A copy in which this share of the weights of each layer is zero: the smallest ones."""
    smaller = copy.deepcopy(net)
    with torch.no_grad():
        for weights in (each for each in smaller.parameters() if each.ndim > 1):
            smallest = weights.abs().flatten().kthvalue(max(1, int(share * weights.numel()))).values
            weights[weights.abs() <= smallest] = 0.0
    return smaller


def compared(found: Recheck, full: CertifiedRun) -> dict[str, Any]:
    """How often a claim is confirmed if and only if the network's own full certificate reaches it."""
    own = {entry.index: entry.certificate for entry in full}
    wrong: list[dict[str, Any]] = []
    reached = 0
    for each in found.claims:
        claim, certificate = each.claim, own[each.claim.index]
        lower = float(certificate.curve(found.measure).lower(claim.radius))
        full_says = certificate.predicted == claim.predicted and lower >= claim.at_least
        reached += full_says
        if full_says != (each.outcome is Outcome.HELD):
            told = {
                "index": claim.index,
                "radius": claim.radius,
                "certified": claim.certified,
                "at_least": claim.at_least,
            }
            wrong.append({**told, "full": lower, "recheck": each.outcome.value, "samples": each.samples})
    return {
        "margin": found.asked.margin,
        "share": found.asked.share,
        "claims": len(found.claims),
        "left_out": found.abstained + found.trivial,
        "full_certificates_reach": reached,
        **{outcome.value: found.count(outcome) for outcome in Outcome},
        "agreement": 1 - len(wrong) / len(found.claims),
        "share_of_copies": found.samples / found.full,
        "lowered_by": sum(each.claim.certified - each.claim.at_least for each in found.claims) / len(found.claims),
        "disagreements": wrong,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--pruned", type=float, nargs="+", default=[0.1])
    parser.add_argument("--margins", type=float, nargs="+", default=[0.0, 0.01, 0.05])
    parser.add_argument("--radii", type=float, nargs="+", default=[0.0, 0.25, 0.5])
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05])
    parser.add_argument("--save", type=Path)
    asked = parser.parse_args()
    data, net = load_fashion_mnist(), load_embedded_model().net
    data = data.every(len(data) // asked.inputs, asked.inputs)
    settings = hf.Settings(n=asked.n)
    results: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        old = execute(hf.SmoothedClassifier(net, EMBEDDED_SIGMA), Plan(data, settings, Path(folder) / "old", seed=1))
        for share in asked.pruned:
            changed = hf.SmoothedClassifier(pruned(net, share), EMBEDDED_SIGMA)
            full = execute(changed, Plan(data, settings, Path(folder) / f"pruned-{share}", seed=2))
            for margin in asked.margins:
                for supposed in asked.shares:
                    found = recheck(changed, old, data, ClaimsAsked(tuple(asked.radii), margin, supposed), seed=3)
                    row = {"pruned": share, "run_n": asked.n, "inputs": len(data), **compared(found, full)}
                    print(json.dumps(row), flush=True)
                    results.append(row)
    if asked.save is not None:
        asked.save.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
