"""One network as every kind of model, in files of a folder; and an endpoint on this machine that answers with class scores."""

import json
import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from torch import nn

CODE = {
    "nets.py": """
import torch
from networks import small_net as Net

def make():
    net = Net()
    net.load_state_dict(torch.load("weights.pt"))
    return net

def broken():
    return 1 / 0
""",
}


def exported(net: nn.Module, rows: int | None = None) -> torch.export.ExportedProgram:
    """A program for batches of any size, or of one."""
    dynamic = None if rows else ({0: torch.export.Dim.AUTO},)
    return torch.export.export(net.eval(), (torch.zeros(rows or 2, 1, 6, 6),), dynamic_shapes=dynamic)


def write_onnx(net: nn.Module, path: Path, rows: int | None = None) -> Path:
    """An ONNX file for batches of any size, or of one; its weights are in a file beside it."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shapes = None if rows else ({0: "batch"},)
            torch.onnx.export(
                net.eval(), (torch.zeros(rows or 2, 1, 6, 6),), path, dynamic_shapes=shapes, dynamo=True, verbose=False
            )
    finally:
        logging.disable(logging.NOTSET)
    return path


def scripted(net: nn.Module) -> Any:
    """TorchScript."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(net.eval(), torch.zeros(2, 1, 6, 6))  # type: ignore[no-untyped-call]


def write_vit(folder: Path) -> None:
    """A small transformer, as transformers would save it, for images of 12 x 12."""
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(0)
    config = ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=12,
        patch_size=4,
        num_channels=1,
        id2label={number: str(number) for number in range(4)},
        initializer_range=0.5,
    )
    ViTForImageClassification(config).save_pretrained(folder)
    processor = {
        "do_normalize": True,
        "image_mean": [0.5],
        "image_std": [0.25],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_resize": True,
        "size": {"height": 12, "width": 12},
        "resample": 2,
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))


def write_tables(folder: Path) -> None:
    """Breast-cancer data in units of the features' standard deviations, as tables."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import StandardScaler

    data = load_breast_cancer()
    rows = StandardScaler().fit_transform(data.data)[:20]
    columns = dict(zip(data.feature_names, rows.T, strict=True)) | {"diagnosis": data.target[:20]}
    pq.write_table(pa.table(columns), folder / "cancer.parquet")
    csv.write_csv(pa.table(columns), folder / "cancer.csv")


class Endpoint:
    """What an endpoint was asked, and how it answers."""

    def __init__(self) -> None:
        self.rows: list[bytes] = []
        self.requests = 0
        self.failures: list[int] = []
        """Status codes to answer with first."""
        self.body: bytes | None = None
        self.url = ""

    def answer(self, body: bytes) -> tuple[int, bytes]:
        """A status and a body."""
        self.requests += 1
        if self.failures:
            return self.failures.pop(0), b"busy"
        rows = np.array(json.loads(body)["instances"])
        self.rows += [row.astype(np.float32).tobytes() for row in rows]
        return 200, self.body or json.dumps({"predictions": endpoint_scores(rows).tolist()}).encode()


def endpoint_scores(rows: NDArray[np.float64]) -> Any:
    """What it says of rows."""
    scores = np.exp(3 * rows.reshape(len(rows), -1)[:, :4])
    return scores / scores.sum(1, keepdims=True)


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """On a free port of this machine."""
    found = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, content = found.answer(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    found.url = f"http://127.0.0.1:{server.server_port}/v1/models/net:predict"
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
