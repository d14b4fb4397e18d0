"""Certifying against the bare forward pass of the same network, and against the paper's procedure, in one run.

    python benchmarks/sampling.py --arch resnet110 --n 100000 --precision bfloat16 [--weights W] [--no-plain] [--save]

The bare pass is timed compiled as Holdfast does it, as ``torch.compile(net)`` does it, and, at a low precision, so with all weights
and activations of that type. Ratios are to these. ViT-B/16 and ConvNeXt need timm.
"""

import argparse
import copy
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.models.fast.precision import precision_named
from holdfast.models.torch import TorchReplica
from holdfast.sampling.engine import Workload
from holdfast.sampling.local import LocalSampler
from holdfast.zoo.checkpoint import load_checkpoint
from named_networks import SIZES, network
from plain import RADII, plain_certificate

SIGMA, ALPHA, N0 = 0.25, 1e-3, 100


def seconds(device: torch.device, repeats: int, *works: Callable[[], object]) -> list[float]:
    """Each one's median of a few, after one that does not count; in turns, so that a machine's moods meet all alike."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats + 1):
        for work, its in zip(works, times, strict=True):
            begin = time.perf_counter()
            work()
            if device.type == "cuda":
                torch.cuda.synchronize()
            its.append(time.perf_counter() - begin)
    return [statistics.median(its[1:]) for its in times]


def bare(forward: Callable[[Tensor], Tensor], rows: Tensor, n: int, precision: str) -> Callable[[], None]:
    """n rows through the network, and nothing else."""
    low = precision_named(precision, rows.device)

    def work() -> None:
        with torch.inference_mode(), low.rules(), low.autocast(rows.device):
            for _ in range(-(-n // len(rows))):
                forward(rows)

    return work


def measure(
    net: nn.Module,
    x: Tensor,
    *,
    n: int,
    precision: str,
    device: torch.device,
    plain: bool,
    default: bool,
    repeats: int,
    batch: int | None,
) -> Iterator[tuple[str, float]]:
    """One figure after the other, so that an interruption keeps those that are there."""
    smoothed = hf.SmoothedClassifier(net, SIGMA, device=device, precision=precision, compile=True, batch=batch)

    def certificate(copies: int = n, batch: int | None = batch) -> hf.Certificate:
        cert = smoothed.certify(x, n=copies, n0=N0, alpha=ALPHA, batch=batch, progress=False)
        cert.score.lower(RADII), cert.margin.lower(RADII), cert.label_radius
        return cert

    tenth = max(n // 10, 50)  # fewer could certify nothing
    begin = time.perf_counter()
    first = certificate()
    yield "start_up_s", time.perf_counter() - begin
    yield "compiled", float(first.provenance.compiled)
    model = smoothed.model
    size = LocalSampler(
        model, Workload(smoothed.noise, first.provenance.step, smoothed.measures, x, N0 + n, batch)
    ).batch
    yield "batch", size
    rows = torch.rand(size, *x.shape, device=device)
    if device.type == "cuda":
        rows = rows.to(memory_format=torch.channels_last)
    copies = -(-n // size) * size
    replica = model.replicate(model.device)  # its own graph, but the same one: torch's compiler caches it
    assert isinstance(replica, TorchReplica)
    alone = bare(replica.forward, rows, n, precision)
    ours, alike = seconds(device, repeats, certificate, alone)
    alike *= n / copies
    yield "certificate_s", ours
    yield "copies_per_s", n / ours
    yield "bare_same_compilation_s", alike
    yield "ratio_to_same", ours / alike
    if device.type == "cuda":
        for many in (tenth, n):
            torch.cuda.reset_peak_memory_stats()
            certificate(many, size)
            yield f"peak_bytes_at_{many}", torch.cuda.max_memory_allocated()
    yield "seconds_at_a_tenth_of_n", seconds(device, repeats, lambda: certificate(tenth, size))[0]
    if plain:
        # Default settings of torch, which round float32 convolutions on GPUs; nothing is tuned.
        plain_certificate(net, x.to(device), sigma=SIGMA, n=2_000, n0=N0, alpha=ALPHA)
        took = plain_certificate(net, x.to(device), sigma=SIGMA, n=n, n0=N0, alpha=ALPHA)
        yield "plain_sampling_s", took.sampling
        yield "plain_bounds_s", took.bounds
        yield "times_plain", took.total / ours
        yield "times_plain_sampling_alone", took.sampling / ours
    if not default:
        return
    laid_out = copy.deepcopy(net).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    usual = torch.compile(laid_out, dynamic=False)
    usually = seconds(device, repeats, bare(usual, rows, n, precision))[0] * n / copies
    yield "bare_default_compilation_s", usually
    yield "ratio_to_default", ours / usually
    low = precision_named(precision, device).low
    if low is None:
        return
    cast = torch.compile(laid_out.to(low), dynamic=False)
    again, whole = seconds(device, repeats, certificate, bare(cast, rows.to(low), n, "float32"))
    yield "bare_low_weights_s", whole * n / copies
    yield "ratio_to_low_weights", again / (whole * n / copies)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="resnet20", choices=sorted(SIZES))
    parser.add_argument("--weights", type=Path, help="default: random weights")
    parser.add_argument("--n", type=int, default=2_000)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--batch", type=int, help="default: Holdfast's")
    parser.add_argument("--no-plain", action="store_true")
    parser.add_argument("--no-default", action="store_true", help="leave out torch.compile's own way")
    parser.add_argument("--save", action="store_true", help="keep the numbers beside this script")
    asked = parser.parse_args()
    device = torch.device(asked.device if asked.device != "auto" else "cuda" if torch.cuda.is_available() else "cpu")
    pixels = SIZES[asked.arch]
    net = load_checkpoint(asked.weights).net if asked.weights else network(asked.arch)
    found: dict[str, Any] = {
        "network": asked.arch,
        "n": asked.n,
        "precision": asked.precision,
        "machine": torch.cuda.get_device_name()
        if device.type == "cuda"
        else platform.processor() or platform.machine(),
        "torch_threads": torch.get_num_threads(),
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }
    print(json.dumps(found), flush=True)
    figures = measure(
        net.to(device).eval(),
        (255 * torch.rand(3, pixels, pixels)).round() / 255,  # an image of bytes
        n=asked.n,
        precision=asked.precision,
        device=device,
        plain=not asked.no_plain,
        default=not asked.no_default,
        repeats=asked.repeats,
        batch=asked.batch,
    )
    for name, value in figures:
        print(f"{name}: {value:.6g}", flush=True)
        found[name] = value
    if asked.save:
        name = f"sampling_{asked.arch}_{device.type}_{asked.precision}.json"
        Path(__file__).with_name(name).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
