"""Tables, and folders of Hugging Face's datasets, as data."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import holdfast as hf
from holdfast.cli.app import run as command

TABLE: dict[str, list[Any]] = {"width": [1.5, 2.0, -3.0], "height": [1, 2, 3], "label": [0, 1, 1]}


def write(path: Path, columns: dict[str, list[Any]]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join(",".join(map(str, row)) for row in ([*columns], *rows)) + "\n")
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_is_rows_of_features_with_labels(tmp_path: Path, suffix: str) -> None:
    data = hf.datasets.load(str(write(tmp_path / f"t{suffix}", TABLE)))
    assert data.shape == (2,)
    assert data.batch(np.arange(3)).tolist() == [[1.5, 1.0], [2.0, 2.0], [-3.0, 3.0]]
    assert data.labels.tolist() == [0, 1, 1]
    words = TABLE | {"label": ["dog", "cat", "dog"]}
    data = hf.datasets.load(str(write(tmp_path / f"w{suffix}", words)))
    assert data.labels.tolist() == [1, 0, 1]
    assert data.label_names == ("cat", "dog")
    other = {"kind": [True, False, True], **TABLE}
    data = hf.datasets.load(f"{write(tmp_path / f'o{suffix}', other)}:kind")
    assert data.labels.tolist() == [1, 0, 1]
    assert data.shape == (3,)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_that_cannot_be_certified_are_refused_with_a_reason(tmp_path: Path, suffix: str) -> None:
    for changed, words in (
        ({"label": [0.5, 1.0, 2.0]}, "labels must be whole numbers or words, got double"),
        (
            {"target": [0, 1, 1]},
            "must have one column named 'label', 'target', 'class', 'y', got 'width', 'height', 'label', 'target'",
        ),
        ({"place": ["a", "b", "c"]}, "the column 'place' has string, not numbers; .* encode it, or leave it out"),
        ({"width": [1.0, float("nan"), 2.0]}, "'width' has missing or infinite numbers"),
        ({"label": [-1, 0, 1]}, "labels must be class numbers from 0"),
    ):
        with pytest.raises(hf.DatasetError, match=words):
            hf.datasets.load(str(write(tmp_path / f"t{suffix}", {**TABLE, **changed})))
    path = write(tmp_path / f"t{suffix}", TABLE)
    with pytest.raises(
        hf.DatasetError, match="must have a column 'kind', got 'width', 'height', 'label'; name the column"
    ):
        hf.datasets.load(f"{path}:kind")
    with pytest.raises(hf.DatasetError, match="no table at"):
        hf.datasets.load(str(tmp_path / f"none{suffix}"))
    content = path.read_bytes()
    for bad in (content[:-10] if suffix == ".parquet" else b'a,b\n"1', b"", b"\xff\xfe\x00" * 40):
        path.write_bytes(bad)
        with pytest.raises(hf.DatasetError, match=r"is not a readable table"):
            hf.datasets.load(str(path))


def test_a_table_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "t.parquet", {"x": [0.0] * 100_000, "label": [0] * 100_000})
    monkeypatch.setenv("HOLDFAST_MAX_ROWS", "1000")
    with pytest.raises(hf.DatasetError, match="HOLDFAST_MAX_ROWS=100000"):
        hf.datasets.load(str(path))
    with pytest.raises(hf.DatasetError, match="HOLDFAST_MAX_ROWS=2000"):
        hf.datasets.load(str(write(tmp_path / "t.csv", {"x": [0.0] * 2_000, "label": [0] * 2_000})))


def save_to_disk(folder: Path, columns: dict[str, Any], features: dict[str, Any], *, parts: int = 2) -> Path:
    """What datasets.Dataset.save_to_disk writes."""
    folder.mkdir(parents=True)
    table = pa.table(columns)
    names = [f"data-{number:05}-of-{parts:05}.arrow" for number in range(parts)]
    each = -(-len(table) // parts)
    for number, name in enumerate(names):
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table.slice(number * each, each))
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    return folder


def picture(number: int, mode: str = "L", size: tuple[int, int] = (5, 4)) -> bytes:
    content = io.BytesIO()
    Image.new(mode, size, 10 * number if mode == "L" else (10 * number, 1, 2)).save(content, "PNG")
    return content.getvalue()


IMAGES = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}


def held(pictures: list[bytes | None]) -> Any:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.array([{"bytes": each, "path": "somewhere.png"} for each in pictures], kind)


@pytest.mark.parametrize(("mode", "channels"), [("L", 1), ("RGB", 3)])
def test_a_folder_of_datasets_is_images_with_the_names_of_their_classes(
    tmp_path: Path, mode: str, channels: int
) -> None:
    columns = {"image": held([picture(k, mode) for k in range(3)]), "label": [1, 0, 1]}
    save_to_disk(tmp_path / "d" / "test", columns, IMAGES)
    (tmp_path / "d" / "dataset_dict.json").write_text('{"splits": ["test"]}')
    for name in ("d", "d/test"):
        data = hf.datasets.load(str(tmp_path / name))
        assert data.shape == (channels, 4, 5)
        assert data.label_names == ("cat", "dog")
        assert data.labels.tolist() == [1, 0, 1]
        assert data[2][0][0, 0, 0] == pytest.approx(20 / 255)
    with pytest.raises(hf.DatasetError, match="has no split 'train'; it has: test"):
        hf.datasets.load(str(tmp_path / "d"), split="train")


def test_a_folder_of_datasets_may_be_rows_of_numbers(tmp_path: Path) -> None:
    features = {name: {"dtype": "float32", "_type": "Value"} for name in TABLE}
    data = hf.datasets.load(str(save_to_disk(tmp_path / "d", TABLE, features)))
    assert data.shape == (2,)
    assert data.labels.tolist() == [0, 1, 1]


def test_folders_of_datasets_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    damaged: tuple[tuple[list[bytes | None], str], ...] = (
        ([picture(0), None], "image 1 is not in the folder itself"),
        ([picture(0), picture(1, size=(6, 4))], "image 1 has 6 x 4 pixels, and image 0 5 x 4; resize"),
        ([picture(0), b"no picture"], "is not a readable folder of datasets"),
    )
    for number, (pictures, words) in enumerate(damaged):
        with pytest.raises(hf.DatasetError, match=words):
            hf.datasets.load(
                str(save_to_disk(tmp_path / str(number), {"image": held(pictures), "label": [0, 1]}, IMAGES))
            )
    folder = save_to_disk(tmp_path / "d", {"image": held([picture(0)]), "label": [0]}, IMAGES, parts=1)
    state = (folder / "state.json").read_text()
    for name, bad, words in (
        ("state.json", state.replace("data-", "../d/data-"), "names a file outside itself"),
        ("state.json", "{}", "it has no '_data_files'"),
        ("state.json", "[]", "is not a readable folder of datasets"),
        ("dataset_info.json", "null", "is not a readable folder of datasets"),
        ("data-00000-of-00001.arrow", "ARROW1", "is not a readable folder of datasets"),
    ):
        kept = (folder / name).read_bytes()
        (folder / name).write_text(bad)
        with pytest.raises(hf.DatasetError, match=words):
            hf.datasets.load(str(folder))
        (folder / name).write_bytes(kept)
    assert len(hf.datasets.load(str(folder))) == 1


def test_words_for_labels_are_numbered_aloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path("t.csv"), TABLE | {"label": ["dog", "cat", "dog"]})
    Path("model.py").write_text("import torch\ndef make(): return torch.nn.Linear(2, 2)\n")
    words = ["certify", "--model", "model.py:make", "--data", "t.csv", "--sigma", "0.5", "--n", "300", "--out", "run"]
    assert command([*words, "--no-progress"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "t.csv has words for labels, numbered in their order (cat = 0, dog = 1); model.py:make must number its classes so"
        in said
    )
