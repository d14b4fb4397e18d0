"""What somebody waits for who knows no options: fresh processes, everything at its default, from the first second on.

    python benchmarks/first_second.py --arch resnet110 --inputs 1 20 500 [--n 100000] [--precision bfloat16] [--no-plain] [--save]

Each figure is of a process of its own: ``holdfast`` certifies that many inputs in Python, ``command`` is ``holdfast certify`` from
typing to the table, and ``plain`` is the paper's procedure as it is usually written (``plain.py``), on three inputs at most, from
which the seconds of all are reckoned. The compiler's cache is empty; ``--warm`` runs each process once more with what the first left
in it. ViT-B/16 and ConvNeXt need timm, and have no command.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from named_networks import SIZES, TIMM, architecture, network

SIGMA, ALPHA, N0 = 0.25, 1e-3, 100
PLAIN_INPUTS = 3


def on_device(arch: str) -> Any:
    """The network, on the GPU if there is one."""
    import torch

    return network(arch).to("cuda" if torch.cuda.is_available() else "cpu")


def images(arch: str, inputs: int) -> Any:
    """Images of bytes, as float32 in [0, 1]."""
    import numpy as np

    size = SIZES[arch]
    return np.random.default_rng(0).integers(0, 256, (inputs, 3, size, size)).astype(np.float32) / 255


def in_python(asked: argparse.Namespace, began: float) -> dict[str, Any]:
    """``SmoothedClassifier`` on so many inputs, and all three certificates of each."""
    import holdfast as hf
    from holdfast.certificates.settings import Settings
    from plain import RADII

    smoothing = hf.SmoothedClassifier  # importing torch is not what is measured
    imported = time.perf_counter()
    net, xs = on_device(asked.arch), images(asked.arch, asked.inputs[0])
    ready = time.perf_counter()
    smoothed = smoothing(net, SIGMA, precision=asked.precision)
    ends, compiled = [], 0
    for cert in smoothed.stream(xs, None, Settings(asked.n, N0, ALPHA), progress=False):
        cert.score.lower(RADII), cert.margin.lower(RADII), cert.label_radius
        ends.append(time.perf_counter() - ready)
        compiled += cert.provenance.compiled
    last = max(1, len(ends) // 10)
    return {
        "import_s": imported - began,
        "first_s": ends[0],
        "all_s": ends[-1],
        "last_each_s": (ends[-1] - (ends[-1 - last] if len(ends) > last else 0.0)) / last,
        "compiled_inputs": compiled,
        "precision": smoothed.model.precision,
    }


def plainly(asked: argparse.Namespace, began: float) -> dict[str, Any]:
    """The paper's procedure, on as many inputs but a few at most."""
    import torch

    from plain import plain_certificate

    imported = time.perf_counter()
    net = on_device(asked.arch)
    xs = torch.from_numpy(images(asked.arch, min(PLAIN_INPUTS, asked.inputs[0]))).to(next(net.parameters()).device)
    ready, sampling, ends = time.perf_counter(), 0.0, []
    for x in xs:
        sampling += plain_certificate(net, x, sigma=SIGMA, n=asked.n, n0=N0, alpha=ALPHA).sampling
        ends.append(time.perf_counter() - ready)
    each = ends[-1] - ends[-2] if len(ends) > 1 else ends[0]
    whole = ends[0] + each * (asked.inputs[0] - 1)
    return {
        "import_s": imported - began,
        "first_s": ends[0],
        "each_s": each,
        "all_s": whole,
        "sampling_each_s": sampling / len(xs),
    }


def in_a_process(kind: str, asked: argparse.Namespace, inputs: int) -> dict[str, Any]:
    """One of the above in a fresh process, and how long that took altogether."""
    given = [f"--arch={asked.arch}", f"--n={asked.n}", "--inputs", str(inputs), f"--only={kind}"]
    given += [f"--precision={asked.precision}"] if asked.precision else []
    began = time.perf_counter()
    done = subprocess.run([sys.executable, __file__, *given], check=True, stdout=subprocess.PIPE, text=True)
    return {**json.loads(done.stdout.splitlines()[-1]), "process_s": time.perf_counter() - began}


def typed(asked: argparse.Namespace, inputs: int) -> dict[str, Any]:
    """``holdfast certify`` of a checkpoint and an archive of images, from typing to the table."""
    import numpy as np

    from holdfast.zoo.checkpoint import save_checkpoint

    with tempfile.TemporaryDirectory() as folder:
        place, made = Path(folder), architecture(asked.arch)
        save_checkpoint(place / "net.safetensors", made.build(), made, {})
        xs = np.rint(images(asked.arch, inputs) * 255).astype(np.uint8)
        np.savez(place / "images.npz", images=xs, labels=np.arange(inputs) % 10)
        options: dict[str, object] = {
            "model": place / "net.safetensors",
            "data": place / "images.npz",
            "out": place / "run",
        }
        options |= {"sigma": SIGMA, "n": asked.n, "max": inputs}
        options |= {"precision": asked.precision} if asked.precision else {}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "holdfast", "certify", *words], check=True, stdout=subprocess.DEVNULL)
        return {"process_s": time.perf_counter() - began}


def measure(asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One figure after the other, each of a fresh process; one before them reads the libraries from the disk, for all alike."""
    in_a_process("plain", argparse.Namespace(**{**vars(asked), "n": N0}), 1)
    kinds: dict[str, Callable[[argparse.Namespace, int], dict[str, Any]]] = {
        "holdfast": partial(in_a_process, "holdfast")
    }
    if asked.arch not in TIMM:
        kinds["command"] = typed
    for inputs in asked.inputs:
        for kind, run in kinds.items():
            with tempfile.TemporaryDirectory() as empty:
                os.environ["TORCHINDUCTOR_CACHE_DIR"] = empty
                yield {"kind": kind, "inputs": inputs, "cache": "cold", **run(asked, inputs)}
                if asked.warm:
                    yield {"kind": kind, "inputs": inputs, "cache": "warm", **run(asked, inputs)}
        if not asked.no_plain:
            yield {"kind": "plain", "inputs": inputs, **in_a_process("plain", asked, inputs)}


def main() -> None:
    began = time.perf_counter()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="resnet20", choices=sorted(SIZES))
    parser.add_argument("--inputs", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--precision", help="default: Holdfast's")
    parser.add_argument("--warm", action="store_true", help="once more, with what the compiler's cache holds then")
    parser.add_argument("--no-plain", action="store_true")
    parser.add_argument("--save", action="store_true", help="keep the numbers beside this script")
    parser.add_argument("--only", choices=("holdfast", "plain"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.only:
        print(json.dumps((in_python if asked.only == "holdfast" else plainly)(asked, began)))
        return
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    found: dict[str, Any] = {
        "network": asked.arch,
        "n": asked.n,
        "machine": machine,
        "torch": torch.__version__,
        "precision": asked.precision,
    }
    print(json.dumps(found), flush=True)
    found["rows"] = []
    for row in measure(asked):
        print(json.dumps(row), flush=True)
        found["rows"].append(row)
    if asked.save:
        name = "_".join(("first_second", asked.arch, device, *filter(None, [asked.precision]), *map(str, asked.inputs)))
        Path(__file__).with_name(f"{name}.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
