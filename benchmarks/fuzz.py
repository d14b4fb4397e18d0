"""Files of strangers: each kind of file that Holdfast reads, mutated, must be read or refused in words.

``python benchmarks/fuzz.py [--cases 500] [--seed 0] [--only runs,npz,...]`` prints a line for each reader. A case fails if anything
but Holdfast's own errors comes out of it, if it takes over ten seconds, if the process needs over a gigabyte, if code from
the file runs, or if a file outside is touched.
"""

import argparse
import contextlib
import gzip
import io
import json
import os
import pickle
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from PIL import Image

import holdfast as hf
from holdfast.attacks import Attack
from holdfast.cli.app import run as holdfast
from holdfast.cli.drift import read_triage
from holdfast.cli.models import compare_noise, open_model
from holdfast.errors import NoThreshold
from holdfast.inputs import CheckedInputs
from holdfast.noise import Gaussian
from holdfast.runs.auditing import AuditPlan, audit_run
from holdfast.runs.execute import Plan, execute
from holdfast.runs.signature import signer
from holdfast.train.state import StateFile
from holdfast.zoo.architecture import Architecture
from holdfast.zoo.checkpoint import save_checkpoint
from holdfast.zoo.datasets.labelled import Images, LabelledInputs
from holdfast.zoo.datasets.open import open_dataset

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from edited_runs import edit_value, flip_bit, leaves, resealed, set_leaf
from made_runs import made_run, unsealed

SECONDS, MEGABYTES = 10.0, 1_000
STRANGE: tuple[Any, ...] = (
    None, True, "", "x", "\x1b[31m", "nan", -1, 0, 1, 2**31, 2**63, 10**30, -0.0, 1e-320, 1e308, float("nan"), float("inf"),
    [], {}, [None], [[1]], {"x": 1},
)  # fmt: skip
MODEL = "fashion-mnist"


class TooSlow(BaseException):
    """No ``except Exception`` may keep it."""


class Payload:
    """Runs code if it is unpickled."""

    def __init__(self, ran: Path) -> None:
        self.ran = ran

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.ran,)


@dataclass(frozen=True)
class Reader:
    """A kind of file: how a valid one is made, which of them may be mutated, and what reads it."""

    make: Callable[[Path], object]
    read: Callable[[Path, np.random.Generator], object]
    share: float = 1.0


@dataclass
class Found:
    """What came of the cases of one reader."""

    cases: int = 0
    refused: int = 0
    slowest: float = 0.0
    megabytes: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def kinds(self) -> Counter[str]:
        """The failures without what they say."""
        return Counter(failure.split(": ")[0] for failure in self.failures)


def net() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 4))


def smoothed() -> hf.SmoothedClassifier:
    return hf.SmoothedClassifier(net(), 0.25)


def labelled() -> LabelledInputs:
    images = np.random.default_rng(0).integers(0, 256, (6, 3, 8, 8), dtype=np.uint8)
    return LabelledInputs("toys", images, np.arange(6) % 4, np.arange(6))


# Runs.


def certified(path: Path) -> None:
    private = Ed25519PrivateKey.generate()
    key, public = path / "key.pem", path / "public.pem"
    key.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    settings = hf.Settings(n=300, n0=20)
    run = execute(smoothed(), Plan(labelled(), settings, path / "run", 3, {"split": "test", "skip": 1}, signer(key)))
    plan = AuditPlan(radii=(0.1, 0.2), n=50, attack=Attack(steps=1, copies=2, restarts=1))
    audit_run(smoothed(), run, labelled().batch(np.arange(6)), plan)


def made(path: Path) -> None:
    made_run(path / "run", 40, in_a_part=15)


def compacted(path: Path) -> None:
    made(path)
    (path / "run").rename(path / "whole")
    said("compact", path / "whole", "--out", path / "run")
    shutil.rmtree(path / "whole")


def imported(path: Path) -> None:
    log(path)
    said("import", path / "log_score_noise_0.25.tsv", "--out", path / "run")


def unfinished(path: Path) -> None:
    certified(path)
    config = json.loads((path / "run" / "run.json").read_text())
    config.pop("sealed")
    (path / "run" / "run.json").write_text(json.dumps({**config, "status": "running"}))


def read_run(path: Path, rng: np.random.Generator) -> None:
    run, out = path / "run", path / "out"
    commands: list[tuple[object, ...]] = [
        ("report", run, "--format", "json"),
        ("export", run, "--measure", "score", "--out", out),
        ("verify", run, *(("--key", path / "public.pem") if (path / "public.pem").exists() else ())),
    ]
    if not (run / "imported.parquet").exists():
        commands += [
            ("export", run, "--measure", "label", "--out", out),
            ("compact", run, "--out", out),
            ("triage", run, "--radius", "0.05", "--epsilon", "0.5", "--delta", "0.4", "--out", out),
        ]
    if rng.random() < 0.02:
        commands.append(("report", run, "--figures", out))
    said(*commands[int(rng.integers(len(commands)))])
    opened = hf.Run.open(run)
    _ = opened.status, opened.fingerprint, opened.spot_check, opened.correct
    if opened.audit is not None:
        _ = opened.audit.to_dict(), opened.audit.images()


def resumed(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    execute(smoothed(), Plan(labelled(), hf.Settings(n=300, n0=20), path / "run", 3))


def said(*arguments: object) -> None:
    """A command, with what it says thrown away; what it refuses is refused here as well."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = holdfast([str(each) for each in arguments])
    if code not in (0, NoThreshold.exit_code):  # that no threshold is certified is an answer
        assert "Traceback" not in errors.getvalue(), errors.getvalue()
        raise hf.HoldfastError(errors.getvalue())


# Data.


def images_of(count: int = 6, size: int = 32) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(1).integers(0, 256, (count, size, size, 3), dtype=np.uint8)


def npz(path: Path) -> None:
    np.savez_compressed(path / "data.npz", test_images=images_of(), test_labels=np.arange(6))


def idx(path: Path) -> None:
    for name, shape in (("images-idx3", (6, 28, 28)), ("labels-idx1", (6,))):
        content = (
            b"\x00\x00\x08" + bytes([len(shape)]) + np.array(shape, dtype=">u4").tobytes() + bytes(int(np.prod(shape)))
        )
        (path / f"t10k-{name}-ubyte").write_bytes(content)


def idx_gz(path: Path) -> None:
    idx(path)
    for plain in list(path.iterdir()):
        plain.with_name(plain.name + ".gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()


def cifar_binary(path: Path) -> None:
    (path / "test_batch.bin").write_bytes(b"".join(bytes([k]) + bytes(3072) for k in range(6)))


def cifar_pictures(path: Path) -> None:
    Image.fromarray(images_of().reshape(6, 1024, 3)).save(path / "test_batch.png")
    (path / "test_lables.json").write_text(json.dumps(list(range(6))))


def pictures(path: Path) -> None:
    for k, suffix in enumerate(("jpg", "png", "gif", "bmp", "tif", "webp", "ppm")):
        (path / "val" / f"{k % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(images_of(1, 40)[0]).save(path / "val" / f"{k % 2}" / f"{k}.{suffix}")


def csv(path: Path) -> None:
    rows = np.random.default_rng(1).normal(size=(6, 3))
    lines = ["a,b,c,label", *(",".join(map(str, [*row, k % 2])) for k, row in enumerate(rows))]
    (path / "data.csv").write_text("\n".join(lines), encoding="utf-8")


def parquet(path: Path) -> None:
    numbers = {name: np.random.default_rng(k).normal(size=6) for k, name in enumerate("abc")}
    pq.write_table(pa.table({**numbers, "label": ["yes", "no"] * 3}), path / "data.parquet")


def arrow(path: Path) -> None:
    """As ``datasets`` writes it, with pictures."""
    encoded = []
    for image in images_of():
        target = io.BytesIO()
        Image.fromarray(image).save(target, "PNG")
        encoded.append({"bytes": target.getvalue(), "path": None})
    table = pa.table({"image": encoded, "label": [k % 2 for k in range(6)]})
    with pa.OSFile(str(path / "data-00000.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)
    features = {"image": {"_type": "Image"}, "label": {"names": ["no", "yes"], "_type": "ClassLabel"}}
    (path / "dataset_info.json").write_text(json.dumps({"features": features}))
    (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000.arrow"}]}))


def read_table(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    (table,) = path.glob("data.*")
    data = open_dataset(str(table)).every(1, 8)
    data.check()
    data.digest()
    for _ in CheckedInputs(Images(data), "any", Gaussian(0.25)):
        pass


def read_data(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    archive = path / "data.npz"
    data = open_dataset(str(archive if archive.exists() else path)).every(1, 8)
    data.check()
    data.digest()
    for _ in CheckedInputs(Images(data), "images", Gaussian(0.25)):
        pass


def log(path: Path) -> None:
    made_run(path / "made", 12)
    for measure in ("label", "score"):
        said("export", path / "made", "--measure", measure, "--out", path / f"log_{measure}_noise_0.25.tsv")
    shutil.rmtree(path / "made")


def read_log(path: Path, rng: np.random.Generator) -> None:
    for k, each in enumerate(sorted(path.glob("log*.tsv"))):
        out = path / f"out{k}"
        said("import", each, "--out", out)
        said("report", out, "--format", "json")
    _ = rng


# Weights, and other single files.


def safetensors(path: Path) -> None:
    architecture = Architecture("small-cnn", 1, 28, 10)
    save_checkpoint(path / "net.safetensors", architecture.build(), architecture, {"sigma": "0.25", "inputs": "5"})


def torch_weights(path: Path) -> None:
    state = Architecture("small-cnn", 1, 28, 10).build().state_dict()
    torch.save({"arch": "small-cnn", "state_dict": state}, path / "net.pt")


def onnx(path: Path) -> None:
    net_ = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(784, 10)).eval()
    rows = {"x": {0: torch.export.Dim("rows")}}
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        torch.onnx.export(
            net_,
            (torch.zeros(2, 1, 28, 28),),
            path / "net.onnx",
            dynamo=True,
            dynamic_shapes={"input": rows["x"]},
            external_data=False,
        )


def read_onnx(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    images = open_dataset("fashion-mnist")
    hf.SmoothedClassifier(path / "net.onnx", 0.25, inputs="images").certify(images.image(0), n=100, n0=10)


def read_weights(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    images = open_dataset("fashion-mnist")
    for each in sorted(path.glob("net.*")):
        found = open_model(str(each), images)
        with contextlib.redirect_stderr(io.StringIO()):
            compare_noise(str(each), found, Gaussian(0.25), use="certified")
        hf.SmoothedClassifier(found.net, 0.25).certify(images.image(0), n=100, n0=10)


TRAINING = {"data": "toys", "torch": torch.__version__}


def training(path: Path) -> None:
    epochs = [{"number": 1, "loss": 1.0, "accuracy": 0.5, "held_out": None, "seconds": 1.0}]
    said_of = {name: str(value) for name, value in TRAINING.items()}
    torch.save({"training": said_of, "epochs": epochs, "state": {"net": net().state_dict()}}, path / "net.training")


def read_training(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    file = StateFile(path / "net.training", TRAINING)
    _ = sum(epoch.seconds + epoch.accuracy for epoch in file.epochs)


def triage(path: Path) -> None:
    made_run(path / "run", 60, n=2_000)
    said(
        "triage", path / "run", "--radius", "0.05", "--epsilon", "0.4", "--delta", "0.2", "--out", path / "triage.json"
    )
    shutil.rmtree(path / "run")


def read_triage_file(path: Path, rng: np.random.Generator) -> None:  # noqa: ARG001
    found = read_triage(path / "triage.json", "--triage")
    _ = str(found), found.to_dict(), found.settings, found.chosen


READERS = {
    "certified run": Reader(certified, read_run, 3.0),
    "made run": Reader(made, read_run, 2.0),
    "compact run": Reader(compacted, read_run, 2.0),
    "imported run": Reader(imported, read_run, 2.0),
    "unfinished run": Reader(unfinished, resumed, 2.0),
    "NPZ": Reader(npz, read_data),
    "IDX": Reader(idx, read_data),
    "IDX, gzipped": Reader(idx_gz, read_data),
    "CIFAR-10, binary": Reader(cifar_binary, read_data),
    "CIFAR-10, pictures": Reader(cifar_pictures, read_data),
    "pictures": Reader(pictures, read_data),
    "CSV": Reader(csv, read_table),
    "Parquet": Reader(parquet, read_table),
    "folder of datasets": Reader(arrow, read_data),
    "ONNX": Reader(onnx, read_onnx),
    "TSV": Reader(log, read_log),
    "safetensors": Reader(safetensors, read_weights),
    "torch weights": Reader(torch_weights, read_weights),
    "training state": Reader(training, read_training),
    "triage": Reader(triage, read_triage_file),
}


# Mutations: each changes one file of a folder, and says how.


def mutate(folder: Path, rng: np.random.Generator, ran: Path) -> str:
    files = sorted(each for each in folder.rglob("*") if each.is_file() and each.name not in (".lock", "key.pem"))
    chosen = files[int(rng.integers(len(files)))]
    name, change = str(chosen.relative_to(folder)), "bytes"
    if chosen.suffix == ".json" and rng.random() < 0.8:
        document = json.loads(chosen.read_text())
        places = [place for place in leaves(document) if place] or [()]
        place, value = places[int(rng.integers(len(places)))], STRANGE[int(rng.integers(len(STRANGE)))]
        place = place[: int(rng.integers(1, len(place) + 1))]
        set_leaf(chosen, place, value) if place else chosen.write_text(json.dumps(value))
        change = f"{'.'.join(map(str, place))} = {value!r}"
    elif chosen.suffix == ".parquet" and rng.random() < 0.7:
        change = mutate_table(chosen, rng)
    elif zipfile.is_zipfile(chosen) and rng.random() < 0.5:
        change = mutate_member(chosen, rng)
    elif chosen.suffix == ".safetensors" and rng.random() < 0.5:
        chosen.write_bytes(other_digits(chosen.read_bytes(), rng))
        change = "digits"
    elif chosen.suffix in (".tsv", ".sig") and rng.random() < 0.5:
        head, _, rest = chosen.read_text().partition("\n")
        cells = [found.span() for found in re.finditer(r"[^\t\n]+", rest)]
        start, stop = cells[int(rng.integers(len(cells)))] if cells else (0, 0)
        content = f"{head}\n{rest[:start]}{STRANGE[int(rng.integers(len(STRANGE)))]}{rest[stop:]}"
        chosen.write_text(content)
        change = "numbers"
    elif chosen.suffix == ".parquet" and chosen.name.startswith("part-") and rng.random() < 0.5:
        with contextlib.suppress(Exception):
            change = edit_value(chosen, rng)
    else:
        change = mutate_bytes(chosen, files, rng, ran)
    run = folder / "run"
    if (run / "manifest.json").exists() and chosen.name not in ("manifest.json", "manifest.sig") and rng.random() < 0.9:
        with contextlib.suppress(ValueError):
            resealed(run) if rng.random() < 0.7 and (run / "run.json").exists() else unsealed(run)
    return f"{name}: {change}"


def mutate_table(path: Path, rng: np.random.Generator) -> str:
    """Another column, row or type."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    column = int(rng.integers(len(table.column_names)))
    name, values = table.column_names[column], table.column(column).to_pylist()
    what = int(rng.integers(6))
    if what == 0:
        table = table.drop_columns([name])
    elif what == 1:
        table = table.set_column(column, name, pa.array([None] * len(table), table.schema.field(name).type))
    elif what == 2:
        table = table.set_column(column, name, pa.array([str(each) for each in values]))
    elif what == 3:
        table = table.slice(0, int(rng.integers(len(table))))
    elif what == 4:
        table = pa.concat_tables([table, table])
    else:
        row = int(rng.integers(len(values)))
        strange = [value for value in STRANGE if isinstance(value, int | float) and not isinstance(value, bool)]
        value = strange[int(rng.integers(len(strange)))]
        values[row] = [value] * len(values[row]) if isinstance(values[row], list) else value
        with contextlib.suppress(pa.ArrowException, OverflowError, TypeError):
            table = table.set_column(column, name, pa.array(values, table.schema.field(name).type))
    pq.write_table(table.replace_schema_metadata(table.schema.metadata), path)
    return f"{name} changed in way {what}"


def mutate_member(path: Path, rng: np.random.Generator) -> str:
    """Other bytes in one file of an archive, whose checksum is right."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = list(members)[int(rng.integers(len(members)))]
    content = bytearray(other_digits(members[name], rng))
    if rng.random() < 0.5 and content:
        content[int(rng.integers(min(len(content), 256)))] = int(rng.integers(256))
    with zipfile.ZipFile(path, "w") as archive:
        for each, kept in members.items():
            archive.writestr(each, bytes(content) if each == name else kept)
    return f"bytes of {name}"


def other_digits(content: bytes, rng: np.random.Generator) -> bytes:
    """Other digits in place of some near the beginning, where formats describe their arrays."""
    head = bytearray(content[:1024])
    digits = [k for k, each in enumerate(head) if 48 <= each <= 57]
    for _ in range(int(rng.integers(1, 4)) if digits else 0):
        head[digits[int(rng.integers(len(digits)))]] = int(rng.integers(48, 58))
    return bytes(head) + content[1024:]


def mutate_bytes(path: Path, files: list[Path], rng: np.random.Generator, ran: Path) -> str:
    content, what = bytearray(path.read_bytes()), int(rng.integers(9))
    if what == 0:
        return flip_bit(path, rng) if content else "empty"
    if what == 1:
        del content[int(rng.integers(len(content) + 1)) :]
    elif what == 2:
        start = int(rng.integers(len(content) + 1))
        del content[start : start + int(rng.integers(1, 64))]
    elif what == 3:
        start = int(rng.integers(len(content) + 1))
        content[start:start] = rng.bytes(int(rng.integers(1, 64)))
    elif what == 4:
        start = int(rng.integers(len(content) + 1))
        content[start : start + 8] = b"\xff" * 8
    elif what == 5:
        content[: min(len(content), 512)] = bytes(rng.permutation(np.frombuffer(content[:512], np.uint8)))
    elif what == 6:
        content = bytearray(files[int(rng.integers(len(files)))].read_bytes())
    elif what == 7:
        content = bytearray(pickle.dumps(Payload(ran))) if rng.random() < 0.5 else bytearray(rng.bytes(100))
    else:
        for _ in range(int(rng.integers(1, 20))):
            content[int(rng.integers(max(1, len(content)))) :][:1] = rng.bytes(1)
            if content:
                content[int(rng.integers(len(content)))] = int(rng.integers(256))
    path.write_bytes(bytes(content))
    return f"bytes changed in way {what}"


# One case after the other.


def slow(_: int, __: FrameType | None) -> None:
    raise TooSlow


def resident(kind: str) -> float:
    said_ = Path("/proc/self/status").read_text()
    return float(next(line.split()[1] for line in said_.splitlines() if line.startswith(kind))) / 1024


def case(reader: Reader, base: Path, place: Path, rng: np.random.Generator, found: Found) -> None:
    folder, ran = place / "case", place / "ran"
    victim = place / "victim"
    shutil.copytree(base, folder)
    how = mutate(folder, rng, ran)
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    began, fault = time.perf_counter(), ""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        reader.read(folder, rng)
    except hf.HoldfastError:
        found.refused += 1
    except TooSlow:
        fault = "over ten seconds"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        ours = [each for each in traceback.extract_tb(error.__traceback__) if "holdfast" in each.filename]
        where = ours[-1] if ours else last
        fault = f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:100]!r}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    took, peak = time.perf_counter() - began, resident("VmHWM")
    outside = sorted(each.name for each in place.iterdir() if each != folder)
    if peak > MEGABYTES:
        fault = fault or f"{peak:.0f} MB"
    if ran.exists():
        fault = "CODE WAS RUN"
    if outside != ["base", "victim"] or victim.read_text() != "victim":
        fault = fault or f"touched outside: {outside}"
    found.cases += 1
    found.slowest, found.megabytes = max(found.slowest, took), max(found.megabytes, peak)
    if fault:
        found.failures.append(f"{fault} [{how}]" if ": " in fault else f"{fault}: [{how}]")
    ran.unlink(missing_ok=True)
    shutil.rmtree(folder)


def rounds(readers: dict[str, Reader], cases: int) -> Iterator[tuple[str, int]]:
    whole = sum(reader.share for reader in readers.values())
    for name, reader in readers.items():
        yield name, max(1, round(cases * reader.share / whole))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    os.nice(10)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, slow)
    readers = {name: reader for name, reader in READERS.items() if not asked.only or name in asked.only.split(",")}
    failed = 0
    for name, cases in rounds(readers, asked.cases):
        rng, found = np.random.default_rng([asked.seed, *name.encode()]), Found()
        with tempfile.TemporaryDirectory() as kept:
            place = Path(kept)
            (place / "victim").write_text("victim")
            base = place / "base"
            base.mkdir()
            readers[name].make(base)
            for k in range(8):  # what is not mutated is read
                shutil.copytree(base, place / "case")
                readers[name].read(place / "case", np.random.default_rng(k))
                shutil.rmtree(place / "case")
            for _ in range(cases):
                case(readers[name], base, place, rng, found)
        failed += len(found.failures)
        print(
            f"{name:20} {found.cases:6} cases, {found.refused:6} refused, {len(found.failures):5} failed, "
            f"slowest {found.slowest:5.2f} s, peak {found.megabytes:5.0f} MB",
            flush=True,
        )
        for kind, count in found.kinds.most_common():
            print(f"    {count:4} x {next(each for each in found.failures if each.startswith(kind + ':'))}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
