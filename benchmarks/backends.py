"""What Holdfast adds to each kind of model: seconds of a certificate over seconds of that model's own bare loop.

    python benchmarks/backends.py [--only onnx forest] [--repeats 9] [--threads 2] [--save]

A bare loop is what a user would write: batches of noisy copies from the library's own normal numbers, scores, nothing counted. It
runs with batches of 64 and of 1,000 rows, and the faster one counts; over HTTP both send 64 rows a request. Loop and certificate
take turns in one process, and the median of the ratios is reported with its quartiles, since other work on the machine
disturbs both. Holdfast draws noise on a grid by NumPy, 18 us for an image of 3 x 32 x 32, where a bare loop takes 6 to 11. So torch,
torch.export, TorchScript and ONNX run a ResNet-20; ``small-torch`` is a network that takes hardly longer than its noise.
"""

import argparse
import json
import logging
import multiprocessing
import platform
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import holdfast as hf
from holdfast.zoo.architecture import Architecture

SIGMA, ROWS = 0.25, (64, 1_000)
IMAGE = (3, 32, 32)


@dataclass(frozen=True)
class Backend:
    """A model as Holdfast takes it, its own call on a batch, an input, and how many copies take about a second."""

    model: Any
    call: Callable[[NDArray[np.float32]], object]
    x: NDArray[np.float32]
    copies: int
    outputs: str = "logits"
    rows: tuple[int, ...] = ROWS


def image_input() -> NDArray[np.float32]:
    levels = np.random.default_rng(0).integers(0, 256, IMAGE)
    return levels.astype(np.float32) / np.float32(255)


def network(name: str = "resnet20") -> nn.Module:
    torch.manual_seed(0)
    return Architecture(name, 3, 32, 10).build().eval()


def torch_call(net: Callable[[Tensor], Any]) -> Callable[[NDArray[np.float32]], object]:
    def call(rows: NDArray[np.float32]) -> object:
        with torch.inference_mode():
            answer = net(torch.from_numpy(rows))
            return torch.softmax(getattr(answer, "logits", answer), 1)

    return call


def of_torch() -> Backend:
    net = network()
    return Backend(net, torch_call(net), image_input(), 4_000)


def of_small_torch() -> Backend:
    net = network("small-cnn")
    return Backend(net, torch_call(net), image_input(), 4_000)


def of_export() -> Backend:
    net = network()
    program = torch.export.export(net, (torch.zeros(2, *IMAGE),), dynamic_shapes=({0: torch.export.Dim.AUTO},))
    return Backend(program, torch_call(program.module()), image_input(), 4_000)


def of_script() -> Backend:
    net = torch.jit.trace(network(), torch.zeros(2, *IMAGE))  # type: ignore[no-untyped-call]
    return Backend(net, torch_call(net), image_input(), 4_000)


def of_vit() -> Backend:
    from transformers import ViTConfig, ViTForImageClassification

    sizes: dict[str, Any] = {
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 128,
    }
    config = ViTConfig(**sizes, image_size=32, patch_size=8, id2label={k: str(k) for k in range(10)})
    net = ViTForImageClassification(config)
    net.train(False)
    return Backend(net, torch_call(net), image_input(), 4_000)


def of_timm() -> Backend:
    import timm

    net = timm.create_model("resnet10t", num_classes=10).eval()
    return Backend(net, torch_call(net), image_input(), 4_000)


def of_onnx() -> Backend:
    import onnxruntime

    path = Path(tempfile.mkdtemp()) / "net.onnx"
    torch.onnx.export(
        network(), (torch.zeros(2, *IMAGE),), path, dynamic_shapes=({0: "n"},), dynamo=True, verbose=False
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return Backend(path, lambda rows: session.run(None, {name: rows}), image_input(), 4_000)


def breast_cancer(estimator: Any, copies: int) -> Backend:
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    X, y = load_breast_cancer(return_X_y=True)
    Z = StandardScaler().fit_transform(X).astype(np.float32)
    fitted = estimator.fit(Z, y)
    return Backend(fitted, fitted.predict_proba, Z[0], copies, "probabilities")


def of_logistic() -> Backend:
    from sklearn.linear_model import LogisticRegression

    return breast_cancer(LogisticRegression(), 300_000)


def of_forest() -> Backend:
    from sklearn.ensemble import RandomForestClassifier

    return breast_cancer(RandomForestClassifier(100, random_state=0), 50_000)


def of_function() -> Backend:
    rng = np.random.default_rng(0)
    first, second = (rng.normal(size=size).astype(np.float32) / 50 for size in ((3_072, 512), (512, 10)))

    def scores(rows: NDArray[np.float32]) -> Any:
        return np.maximum(rows.reshape(len(rows), -1) @ first, 0) @ second

    return Backend(scores, scores, image_input(), 20_000)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        rows = np.array(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"])
        scores = np.exp(rows[:, :2] - rows[:, :2].max(1, keepdims=True))
        content = json.dumps({"predictions": (scores / scores.sum(1, keepdims=True)).tolist()}).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n"
        self.wfile.write(head.encode() + content)  # at once: a second packet would wait for the first one's receipt

    def log_message(self, *_: object) -> None:
        pass


def _serve(port: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    port.put(server.server_port)
    server.serve_forever()


def of_http() -> Backend:
    port: Any = multiprocessing.get_context("spawn").Queue()
    multiprocessing.get_context("spawn").Process(target=_serve, args=(port,), daemon=True).start()
    url = f"http://127.0.0.1:{port.get()}/predict"
    client, store = httpx.Client(), Path(tempfile.mkdtemp()) / "answers.sqlite"

    def call(rows: NDArray[np.float32]) -> object:
        return np.array(client.post(url, json={"instances": rows.tolist()}).json()["predictions"])

    x = np.random.default_rng(0).normal(size=30).astype(np.float32)
    model = hf.HttpModel(url, store=store, say=lambda _: None)
    return Backend(model, call, x, 6_000, "probabilities", (64,))


BACKENDS: dict[str, Callable[[], Backend]] = {
    "torch": of_torch,
    "small-torch": of_small_torch,
    "export": of_export,
    "script": of_script,
    "vit": of_vit,
    **({"timm": of_timm} if find_spec("timm") else {}),
    "onnx": of_onnx,
    "logistic": of_logistic,
    "forest": of_forest,
    "function": of_function,
    "http": of_http,
}


def bare(backend: Backend, rows: int) -> float:
    """Seconds of the bare loop."""
    began = time.perf_counter()
    x = torch.from_numpy(backend.x)
    for _ in range(0, backend.copies, rows):
        copies = x + SIGMA * torch.randn(rows, *x.shape)
        backend.call(copies.numpy())
    return (time.perf_counter() - began) * backend.copies / (-(-backend.copies // rows) * rows)


def certified(backend: Backend, smoothed: hf.SmoothedClassifier, seed: int) -> float:
    """Seconds of a certificate."""
    began = time.perf_counter()
    smoothed.certify(backend.x, n=backend.copies - 100, n0=100, seed=seed)
    return time.perf_counter() - began


def measure(backend: Backend, repeats: int) -> dict[str, Any]:
    """Ratios of seconds that were taken in turns."""
    smoothed = hf.SmoothedClassifier(backend.model, SIGMA, outputs=backend.outputs, compile=False)
    certified(backend, smoothed, 10_000)
    loops = {rows: bare(backend, rows) for rows in backend.rows}
    ratios, seconds = [], []
    for repeat in range(repeats):
        loops = {rows: min(loops[rows], bare(backend, rows)) if repeat == 0 else loops[rows] for rows in loops}
        rows = min(loops, key=lambda each: loops[each])
        before, ours, after = bare(backend, rows), certified(backend, smoothed, repeat), bare(backend, rows)
        ratios.append(ours / ((before + after) / 2))
        seconds.append((before + after) / 2)
    low, _, high = quantiles(ratios, n=4)
    return {
        "ratio": median(ratios),
        "quartiles": [low, high],
        "microseconds_a_copy_bare": 1e6 * median(seconds) / backend.copies,
        "rows_of_the_bare_loop": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=BACKENDS, default=list(BACKENDS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    found: dict[str, Any] = {}
    for name in given.only:
        found[name] = measure(BACKENDS[name](), given.repeats)
        low, high = found[name]["quartiles"]
        print(
            f"{name:10} {found[name]['ratio']:.3f} x its bare loop (quartiles {low:.3f} to {high:.3f}), which takes "
            f"{found[name]['microseconds_a_copy_bare']:.1f} us a copy in batches of {found[name]['rows_of_the_bare_loop']}",
            flush=True,
        )
    if given.save:
        about = {
            "threads": given.threads,
            "repeats": given.repeats,
            "processor": platform.processor(),
            "torch": torch.__version__,
        }
        Path(__file__).with_suffix(".json").write_text(
            json.dumps({"machine": about, "backends": found}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
