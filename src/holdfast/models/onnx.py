"""ONNX models, run by ONNX Runtime (extra ``onnx``) on the CPU or on one GPU."""

import hashlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from holdfast.errors import CheckpointError, InvalidArgument, how_to_install, reading
from holdfast.models.exported import in_parts
from holdfast.models.hints import failure
from holdfast.models.model import Model
from holdfast.models.outputs import as_probabilities, check_outputs, checked_probabilities
from holdfast.models.torch import resolve_device

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

_TYPES = {"tensor(float)": torch.float32, "tensor(double)": torch.float64, "tensor(float16)": torch.float16}
_CUDA = "CUDAExecutionProvider"


class OnnxModel(Model):
    """Maps a batch to class scores by a session of ONNX Runtime.

    The session of a file has one thread for each call, and every worker calls it: as many cores are busy as for a torch
    module. A session of your own has the threads you gave it, and one worker calls it. A model whose batches have a fixed
    size gets batches of that size.

    Parameters:
        source: an ``.onnx`` file, or an ``onnxruntime.InferenceSession``, which has no fingerprint.
        outputs: what it returns, ``"logits"`` or ``"probabilities"``; it is checked.
        output: the name of the class scores, where there are several floating-point outputs.
        device: ``"cpu"``, or ``"cuda"`` (``onnxruntime-gpu``); ``"auto"`` is the GPU if both torch and ONNX Runtime see it.
    """

    def __init__(
        self,
        source: "str | Path | InferenceSession",
        *,
        outputs: str = "logits",
        output: str | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        if find_spec("onnxruntime") is None:
            raise InvalidArgument(f"ONNX models need onnxruntime: {how_to_install('onnx')}")
        self._logits = check_outputs(outputs)
        self._path = Path(source) if isinstance(source, str | Path) else None
        if self._path is None and not is_session(source):
            raise InvalidArgument(f"expected an ONNX file or an onnxruntime.InferenceSession, got {source!r}")
        if self._path is None:
            self._session: InferenceSession = source
            self.device = _device_of(self._session)
            self.name = "InferenceSession"
        else:
            self.device = _chosen(device)
            self._session, self.name = _open(self._path, self.device), self._path.stem
        self.stateless = self._path is not None
        self._input, self._dtype, self._rows = _only_input(self.name, self._session)
        self._output = _scores_output(self.name, self._session, output)

    def replicate(self, device: torch.device) -> Model | None:
        """Itself: a session may be run by several threads at once. One of the caller's has threads of its own."""
        return self if self.stateless and device == self.device else None

    def fingerprint(self) -> str | None:
        """Of the bytes of the file, and of the files beside it that hold its weights."""
        if self._path is None:
            return None
        found = hashlib.sha256()
        for path in (self._path, *_weight_files(self._path)):
            with path.open("rb") as file:
                found.update(hashlib.file_digest(file, "sha256").digest())
        found.update(f"{self._output} {self._logits}".encode())
        return found.hexdigest()

    def probabilities(self, batch: Tensor) -> Tensor:
        """What the session says."""
        return as_probabilities(self._scores(batch), logits=self._logits)

    def validate(self, rows: Tensor) -> Tensor:
        """Probabilities of a few rows, refused in words if they are not a classifier's."""
        return checked_probabilities(self.name, self._scores(rows), len(rows), logits=self._logits)

    def _scores(self, batch: Tensor) -> Tensor:
        given = batch.to(self._dtype).contiguous()
        return in_parts(self._run, given, self._rows) if self._rows else self._run(given)

    def _run(self, batch: Tensor) -> Tensor:
        """The batch stays where it is; class scores are few, and come by way of the host."""
        if batch.device.type == "cuda":
            torch.cuda.current_stream(batch.device).synchronize()  # ONNX Runtime has streams of its own
        binding = self._session.io_binding()
        kind, number = batch.device.type, batch.device.index or 0
        element = np.dtype(str(batch.dtype).removeprefix("torch."))
        try:
            binding.bind_input(self._input, kind, number, element, tuple(batch.shape), batch.data_ptr())
            binding.bind_output(self._output)
            self._session.run_with_iobinding(binding)
            return torch.from_numpy(binding.copy_outputs_to_cpu()[0]).to(batch.device)
        except Exception as error:  # whatever the model's operators refuse
            raise failure(self.name, error, batch.shape) from error


def _open(path: Path, device: torch.device) -> "InferenceSession":
    """A session that runs each call in the thread that makes it."""
    from onnxruntime import InferenceSession, SessionOptions

    if not path.is_file():
        raise CheckpointError(f"no ONNX model at {path}")
    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    cuda = [(_CUDA, {"device_id": device.index or 0})] if device.type == "cuda" else []
    with reading(
        path,
        CheckpointError,
        "is not an ONNX model that can be run",
        remedy="export it again, and copy all of its files",
    ):
        return InferenceSession(str(path), options, providers=[*cuda, "CPUExecutionProvider"])


def _chosen(device: str | torch.device | None) -> torch.device:
    from onnxruntime import get_available_providers

    there = _CUDA in get_available_providers()
    found = torch.device("cpu") if device is None or (device == "auto" and not there) else resolve_device(device)
    if found.type == "cuda" and not there:
        raise InvalidArgument(
            f"device {str(device)!r} was asked for, but this ONNX Runtime has no {_CUDA}; install onnxruntime-gpu, or use 'cpu'"
        )
    return found


def _device_of(session: "InferenceSession") -> torch.device:
    """Where batches for a session are best made."""
    if _CUDA not in session.get_providers() or not torch.cuda.is_available():
        return torch.device("cpu")
    number = int(session.get_provider_options().get(_CUDA, {}).get("device_id", 0))
    return torch.device("cuda", number)


def _only_input(name: str, session: "InferenceSession") -> tuple[str, torch.dtype, int]:
    """Its name, its type, and how many rows it takes; 0 for any number."""
    inputs = session.get_inputs()
    said = ", ".join(f"{each.name} {each.type} {each.shape}" for each in inputs)
    if len(inputs) != 1 or inputs[0].type not in _TYPES:
        tokens = " (token ids: no noise can be added to them; export the network from its embeddings on)"
        raise InvalidArgument(
            f"the ONNX model {name} must have one input of floating-point numbers, a batch; it has {said}"
            f"{tokens if any('int' in each.type for each in inputs) else ''}"
        )
    shape = inputs[0].shape
    rows = shape[0] if shape and isinstance(shape[0], int) else 0
    return inputs[0].name, _TYPES[inputs[0].type], rows


def _scores_output(name: str, session: "InferenceSession", asked: str | None) -> str:
    """The one output of floating-point numbers, or the one asked for."""
    known = [each.name for each in session.get_outputs() if each.type in _TYPES]
    if asked is not None and asked not in known:
        raise InvalidArgument(
            f"the ONNX model {name} has no floating-point output {asked!r}; it has: {', '.join(known)}"
        )
    if asked is None and len(known) != 1:
        raise InvalidArgument(
            f"which output of the ONNX model {name} are the class scores? It has {len(known)} of floating-point numbers"
            f"{': ' + ', '.join(known) if known else ''}; say holdfast.OnnxModel(file, output=NAME)"
            + ("" if known else ", and export probabilities as a tensor (zipmap=False)")
        )
    return asked or known[0]


def _weight_files(path: Path) -> list[Path]:
    """Files beside a model that hold its weights, in order; large models have such."""
    import onnx

    with reading(path, CheckpointError, "is not a readable ONNX model", remedy="export it again"):
        model = onnx.load(path, load_external_data=False)
    return [path.parent / name for name in sorted(set(_locations(model)))]


def _locations(message: Any) -> Iterator[str]:
    """Where tensors within a message of ONNX's have their data, if that is in other files."""
    for field, held in message.ListFields():
        if field.name == "external_data":
            yield from (entry.value for entry in held if entry.key == "location")
        elif field.message_type is not None:
            for each in (held,) if field.message_type is getattr(held, "DESCRIPTOR", None) else held:
                yield from _locations(each)


def is_session(given: object) -> bool:
    """Whether this is a session of ONNX Runtime, which who has one has imported."""
    runtime = sys.modules.get("onnxruntime")
    return runtime is not None and isinstance(given, runtime.InferenceSession)
