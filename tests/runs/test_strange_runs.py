"""A run whose files somebody edited is refused in words; what its numbers say is not computed with."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdfast as hf
from edited_runs import set_leaf
from holdfast.cli.app import run as holdfast
from holdfast.errors import reading
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.imported import import_log
from holdfast.runs.verify import verify
from made_runs import made_run, unsealed


def use(path: Path) -> None:
    """What a report, a resume and triage look at."""
    run = hf.Run.open(path)
    assert isinstance(run, CertifiedRun)
    _ = run.correct, run.status, run.label_radius
    run.lower("score", "cdf-dkw", np.array([0.1]))
    list(run)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("provenance",), math.nan),
        (("provenance", "seed"), -0.0),
        (("provenance", "step"), None),
        (("claims",), 1),
        (("claims", 0), {}),
        (("method",), [None]),
        (("n0",), "x"),
        (("n",), None),
        (("data",), 7),
        (("label_names",), "x"),
        (("fingerprints",), "x"),
        (("measures",), [{}]),
        (("measures", 0, "title"), ["x"]),
        (("noise",), {"kind": "gaussian"}),
        (("max",), "x"),
    ],
)
def test_a_configuration_that_no_run_has_is_refused_when_the_run_is_opened(
    tmp_path: Path, place: tuple[str | int, ...], value: Any
) -> None:
    run = unsealed(made_run(tmp_path / "a", 3).path)
    use(run)
    if len(place) == 1:
        unsealed(run, **{str(place[0]): value})
    else:
        set_leaf(run / "run.json", place, value)
    with pytest.raises(hf.RunError, match=r"run\.json"):
        hf.Run.open(run)
    assert holdfast(["report", str(run)]) == hf.RunError.exit_code
    assert not hf.Run.verify(made_run(tmp_path / "b", 3)).problems
    assert holdfast(["verify", str(run)]) == 10


def nothing(table: pa.Table, name: str) -> pa.Array:
    return pa.array([None] * len(table), table.schema.field(name).type)


def doubled(table: pa.Table, name: str) -> pa.Array:
    kind = table.schema.field(name).type
    double = [[2 * each for each in row] if isinstance(row, list) else 2 * row for row in table[name].to_pylist()]
    return pa.array(double, kind)


def in_words(table: pa.Table, name: str) -> pa.Array:
    return pa.array(list(map(str, table[name].to_pylist())))


POSSIBLE = [
    *(
        (doubled, name) for name in ("index", "bins", "votes", "shift")
    ),  # a run could have these: 'verify' compares them
    (nothing, "shift"),  # as before there were shifts
    (in_words, "bins"),  # read as the numbers that they are
    (in_words, "shift"),
]


@pytest.mark.parametrize("name", ["index", "n", "votes", "bins", "score_counts", "score_counters", "shift"])
@pytest.mark.parametrize("change", [nothing, doubled, in_words])
def test_rows_that_cannot_be_computed_with_are_refused(
    tmp_path: Path, name: str, change: Callable[[pa.Table, str], pa.Array]
) -> None:
    if (change, name) in POSSIBLE:
        return
    run = unsealed(made_run(tmp_path / "a", 3).path)
    part = run / "certificates" / "part-00000.parquet"
    table = pq.read_table(part)
    place = table.column_names.index(name)
    pq.write_table(table.set_column(place, name, change(table, name)), part)
    with pytest.raises(hf.RunError, match=r"part-00000\.parquet (holds what no run has|cannot be read|has no)"):
        use(run)


def test_a_log_that_lost_a_column_or_a_number_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log_noise_0.25.tsv"
    made_run(tmp_path / "a", 3)
    assert holdfast(["export", str(tmp_path / "a"), "--measure", "score", "--out", str(log)]) == 0
    run = import_log(log, tmp_path / "b")
    table = run.log
    place = table.column_names.index("exp_25")
    for wrong in (
        table.drop_columns(["exp_25"]),
        table.set_column(place, "exp_25", nothing(table, "exp_25")),
        table.set_column(place, "exp_25", in_words(table, "exp_25")),
        table.set_column(place, "exp_25", pa.array([math.nan] * len(table))),
        table.set_column(table.column_names.index("time"), "time", pa.array([math.inf] * len(table))),
        table.set_column(table.column_names.index("time"), "time", pa.array([-1e300] * len(table))),
    ):
        pq.write_table(wrong, unsealed(run.path) / "imported.parquet")
        with pytest.raises(hf.RunError, match="is no table of a log"):
            _ = hf.Run.open(run.path).correct
        assert holdfast(["verify", str(run.path)]) == 10


@pytest.mark.parametrize("cell", ["10" * 20, "nan", "-1:00:00", "1e300"])
def test_a_log_with_numbers_that_cannot_be_is_refused_with_its_line(tmp_path: Path, cell: str) -> None:
    log = tmp_path / "log.tsv"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t" + cell + "\n")
    with pytest.raises(hf.RunError, match="line 2"):
        import_log(log, tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_log_numbered_zero_is_not_of_no_noise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "noise_0.tsv"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t0:00:01\n")
    assert holdfast(["import", str(log), "--out", str(tmp_path / "a")]) == 0
    assert "noise and norm unknown" in capsys.readouterr().out
    assert hf.Run.open(tmp_path / "a").noise is None


def test_whatever_a_parser_raises_becomes_the_reader_s_error_and_its_own_errors_stay() -> None:
    for raised in (KeyError("n"), RecursionError("deep\n  stack"), MemoryError(), hf.InvalidArgument("n must be ...")):
        with (
            pytest.raises(hf.RunError, match=r"^a/file cannot be read \(.+\); copy it$") as found,
            reading("a/file", hf.RunError, "cannot be read", remedy="copy it"),
        ):
            raise raised
        assert found.value.__cause__ is raised
    own = hf.RunError("mine")
    with pytest.raises(hf.RunError) as kept, reading("a/file", hf.RunError, "cannot be read", remedy="copy it"):
        raise own
    assert kept.value is own
    with pytest.raises(KeyboardInterrupt), reading("a/file", hf.RunError, "cannot be read", remedy="copy it"):
        raise KeyboardInterrupt


def test_a_problem_that_verify_lists_is_a_sentence(tmp_path: Path) -> None:
    run = unsealed(made_run(tmp_path / "a", 3).path)
    document = json.loads((run / "run.json").read_text())
    del document["alpha"]
    (run / "run.json").write_text(json.dumps(document))
    problems = verify(run).problems
    assert any("it has no 'alpha'" in problem for problem in problems)
    assert not any("Error" in problem for problem in problems)
