"""ONNX models, run by ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import holdfast as hf
from model_files import write_onnx
from networks import images, small_net

X = images(1)[0]
N = 20_000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_onnx(small_net(), tmp_path_factory.mktemp("onnx") / "net.onnx")


def certify(model: Any, n: int = 2_000) -> hf.Certificate:
    return hf.SmoothedClassifier(model, 0.25).certify(X, n=n, seed=1)


@pytest.mark.usefixtures("two_threads")
def test_the_same_weights_through_torch_and_onnx_are_counted_alike(file: Path) -> None:
    torchs, onnxs = certify(small_net(), N), certify(file, N)
    assert abs(torchs.evidence.votes - onnxs.evidence.votes) <= 2
    apart = np.cumsum(torchs.evidence["score"].counts - onnxs.evidence["score"].counts)
    assert abs(apart).max() <= 20  # copies whose score is within float32's rounding of an edge; sampling error is 140
    radii = np.array([0.0, 0.1, 0.25])
    assert torchs.score.lower(radii) == pytest.approx(onnxs.score.lower(radii), abs=1e-3)


@pytest.mark.usefixtures("two_threads")
def test_a_file_a_session_and_any_batch_size_give_one_certificate(file: Path, tmp_path: Path) -> None:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    meant = certify(file).evidence
    for model in (str(file), session, hf.OnnxModel(file), write_onnx(small_net(), tmp_path / "three.onnx", rows=3)):
        assert certify(model).evidence == meant
    assert hf.SmoothedClassifier(session, 0.25).fingerprint is None


def test_the_fingerprint_is_of_the_file_and_of_its_weights_beside_it(file: Path, tmp_path: Path) -> None:
    known = hf.OnnxModel(file).fingerprint()
    weights = file.parent / "net.onnx.data"
    copied = {name: (file.parent / name).read_bytes() for name in ("net.onnx", "net.onnx.data")}
    for name, content in copied.items():
        (tmp_path / name).write_bytes(content)
    assert hf.OnnxModel(tmp_path / "net.onnx").fingerprint() == known
    assert weights.stat().st_size > 2_000
    changed = bytearray(copied["net.onnx.data"])
    changed[0] ^= 1
    (tmp_path / "net.onnx.data").write_bytes(changed)
    assert hf.OnnxModel(tmp_path / "net.onnx").fingerprint() not in (known, None)


def written(path: Path, inputs: list[Any], outputs: list[Any], nodes: list[Any]) -> Path:
    """A file of a graph."""
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 10
    onnx.save(model, path)
    return path


def of(name: str, kind: int) -> Any:
    """Rows of three numbers."""
    return helper.make_tensor_value_info(name, kind, ["n", 3])


REAL, DOUBLE, WHOLE = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64
SAME = helper.make_node("Identity", ["x"], ["y"])


def test_what_cannot_be_understood_is_refused_in_words(file: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.onnx"
    twice = helper.make_node("Add", ["x", "x"], ["z"])
    add = helper.make_node("Add", ["x", "w"], ["y"])
    with pytest.raises(hf.InvalidArgument, match=r"must have one input .*token ids"):
        hf.OnnxModel(written(made, [of("x", WHOLE)], [of("y", WHOLE)], [SAME]))
    with pytest.raises(hf.InvalidArgument, match=r"must have one input .* it has x tensor\(float\) .*, w"):
        hf.OnnxModel(written(made, [of("x", REAL), of("w", REAL)], [of("y", REAL)], [add]))
    several = written(made, [of("x", REAL)], [of("y", REAL), of("z", REAL)], [SAME, twice])
    with pytest.raises(hf.InvalidArgument, match=r"It has 2 .*: y, z; say holdfast.OnnxModel\(file, output=NAME\)"):
        hf.OnnxModel(several)
    with pytest.raises(hf.InvalidArgument, match="no floating-point output 'w'; it has: y, z"):
        hf.OnnxModel(several, output="w")
    x = np.array([0.5, 0.0, 0.0], dtype=np.float32)
    one, two = (
        hf.SmoothedClassifier(hf.OnnxModel(several, output=name), 0.1).certify(x, n=300, seed=1) for name in "yz"
    )
    assert two.score.lower(0.0) > one.score.lower(0.0)
    with pytest.raises(hf.ModelError, match=r"the model net (cannot take inputs of shape|failed on a batch of shape)"):
        hf.SmoothedClassifier(file, 0.25).certify(X.ravel(), n=300)
    with pytest.raises(hf.InvalidArgument, match="device"):
        hf.SmoothedClassifier(file, 0.25, device="cuda")
    (tmp_path / "broken.onnx").write_bytes(file.read_bytes()[:100])
    for bad, words in (("broken.onnx", "is not an ONNX model that can be run"), ("none.onnx", "no ONNX model at")):
        with pytest.raises(hf.CheckpointError, match=words):
            hf.SmoothedClassifier(tmp_path / bad, 0.25)


def test_other_types_of_numbers_are_understood(tmp_path: Path) -> None:
    x, counted = np.array([0.5, 0.0, 0.0], dtype=np.float32), []
    for kind in (REAL, DOUBLE):
        path = written(tmp_path / f"{kind}.onnx", [of("x", kind)], [of("y", kind)], [SAME])
        counted.append(hf.SmoothedClassifier(path, 0.25).certify(x, n=500, seed=1).evidence.votes)
    assert counted[0] == counted[1]
