"""What the page of a report holds: facts in words, and columns of numbers from which it computes everything else."""

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.certificates.describe import format_confidence, grid_words, in_norm
from holdfast.certificates.proportions import LEVEL, share_intervals
from holdfast.noise import describe_step
from holdfast.printable import printable
from holdfast.report.accuracy import Question, measures_of
from holdfast.report.axis import chart_end
from holdfast.report.fixed_point import UNIT, floor_units, lower_codes, support_units, threshold_units, upper_codes
from holdfast.report.thumbnails import Sheets, sheets_of
from holdfast.runs.audit import Audit
from holdfast.runs.calibration_checks import why_fewer
from holdfast.runs.certified import CertifiedRun
from holdfast.runs.method_names import guaranteed, method_description
from holdfast.runs.run import Run
from holdfast.scores import OccupiedCounters
from holdfast.scores.rounding import format_number
from holdfast.version import installed_version

HISTOGRAM_BINS = 50
_RIGHT, _WRONG, _ABSTAINED = 0, 1, 2
_TYPES = {"uint8": "u1", "uint16": "u2", "int32": "i4"}
_ALIGNED = 4


@dataclass
class Columns:
    """Collects columns; each is known by the little description that :meth:`add` returns."""

    _parts: list[bytes] = field(default_factory=list)
    _size: int = 0

    def add(self, values: NDArray[Any], *, row: int = 0) -> dict[str, Any]:
        """Keep a column. With ``row``, rows of that length are kept as differences, which compress better."""
        column = np.ascontiguousarray(values).ravel()
        if row:
            rows = column.reshape(-1, row)
            # Differences wrap around, and so do the sums that undo them.
            column = np.ascontiguousarray(np.diff(rows, axis=1, prepend=rows.dtype.type(0))).ravel()
        name = _TYPES[column.dtype.name]
        described = {"type": name, "at": self._size, "count": int(column.size), "row": row}
        data = column.astype(column.dtype.newbyteorder("<")).tobytes()
        padded = data + bytes(-len(data) % _ALIGNED)
        self._parts.append(padded)
        self._size += len(padded)
        return described

    def text(self) -> str:
        """Everything, compressed (zlib) and in base64."""
        return base64.b64encode(zlib.compress(b"".join(self._parts), 6)).decode("ascii")


def payload(
    runs: Sequence[Run],
    question: Question,
    radii: Sequence[float],
    pictures: Mapping[int, Sheets],
    columns: Columns,
) -> dict[str, Any]:
    """The page's facts; the numbers go into ``columns``. ``pictures`` are by the position of their run."""
    found: dict[str, Any] = _printable(
        {
            "format": 1,
            "version": installed_version(),
            "unit": UNIT,
            "radii": [format_number(radius) for radius in radii],
            "chartEnd": chart_end(runs, radii),
            "measures": [_described(runs, measure, question) for measure in measures_of(runs)],
            "norms": list(dict.fromkeys(run.radii_in for run in runs)),
            "start": {"radius": _start(runs[0], question, radii)},
            "intervals": {
                "level": format_number(LEVEL),
                "of": {str(n): _intervals(n, columns) for n in {len(r) for r in runs}},
            },
            "runs": [
                _run(run, name, question, radii, pictures.get(k), columns)
                for k, (run, name) in enumerate(zip(runs, _names(runs), strict=True))
            ],
        }
    )
    return found


def _printable(facts: Any) -> Any:
    """The same facts, with names of others shown and not obeyed."""
    if isinstance(facts, dict):
        return {key: _printable(value) for key, value in facts.items()}
    if isinstance(facts, list | tuple):
        return [_printable(value) for value in facts]
    return printable(facts) if isinstance(facts, str) else facts


def _described(runs: Sequence[Run], measure: str, question: Question) -> dict[str, Any]:
    """What can be chosen on the page, with the range of its thresholds and the usual ones; the label has none."""
    if measure == "label":
        return {"name": measure, "title": measure, "units": None, "thresholds": []}
    having = [run for run in runs if measure in run.measures]
    lows, highs = zip(*(support_units(run.measure(measure).support) for run in having), strict=True)
    return {
        "name": measure,
        "title": having[0].measure(measure).title,
        "units": (min(lows), max(highs)),
        "thresholds": [threshold_units(each) for each in question.thresholds_for(having[0], measure)],
    }


def _start(run: Run, question: Question, radii: Sequence[float]) -> int:
    """Where the slider of the radius stands when the page opens: at the first that was asked for, or the noise's scale."""
    asked = [radius for radius in question.radii or () if radius > 0]
    radius = asked[0] if asked else 0.25 if run.noise is None else run.noise.scale
    return int(np.argmin(np.abs(np.array(radii) - radius)))


def _names(runs: Sequence[Run]) -> list[str]:
    """Folders' names; with their parents' where two are the same."""
    plain = [run.path.name for run in runs]
    return [
        name if plain.count(name) == 1 else f"{run.path.absolute().parent.name}/{name}"
        for run, name in zip(runs, plain, strict=True)
    ]


def _intervals(n: int, columns: Columns) -> dict[str, Any]:
    of = share_intervals(n)
    return {
        "low": columns.add(floor_units(of.lower)),
        "high": columns.add(upper_codes(of.upper, (0.0, 1.0)).astype(np.int32)),
    }


def _run(
    run: Run,
    name: str,
    question: Question,
    radii: Sequence[float],
    pictures: Sheets | None,
    columns: Columns,
) -> dict[str, Any]:
    config = run.config
    given = run.answers
    state = np.where(run.correct, _RIGHT, np.where(given.abstained, _ABSTAINED, _WRONG)).astype(np.uint8)
    return {
        "name": name,
        "kind": config["kind"],
        "inputs": len(run),
        "noise": None if run.noise is None else run.noise.title,
        "inNorm": in_norm(run.noise, run.units),
        "grid": _grid(run),
        "n": config.get("n"),
        "sure": format_confidence(float(config["alpha"])) if "alpha" in config else None,
        "method": config.get("method") or ", ".join(map(method_description, config.get("methods", ()))) or None,
        "classes": [str(each) for each in config.get("label_names") or ()],
        "knownRadii": None if run.radii is None else [format_number(radius) for radius in run.radii],
        "facts": facts(run),
        "index": columns.add(given.index.astype(np.int32)),
        "label": columns.add(given.label.astype(np.int32)),
        "predicted": columns.add(given.predicted.astype(np.int32)),
        "state": columns.add(state),
        "measures": {
            measure: _measure(run, measure, question, radii, columns) for measure in run.measures if measure != "label"
        },
        "labelRadius": _label(run, radii, columns) if "label" in run.measures else None,
        "pictures": None if pictures is None else asdict(pictures),
        "audit": None if run.audit is None else _audit(run, run.audit, columns),
    }


def _audit(run: Run, audit: Audit, columns: Columns) -> dict[str, Any]:
    """What attacks found: for each measure, averages and upper bounds by input and radius; and the attacked images."""
    places = {int(index): k for k, index in enumerate(run.answers.index)}
    radii, images = audit.notes.radii, audit.images()
    flat = [image for _, at_radii in images for image in at_radii]
    index = audit.column("index")[:: len(radii)]

    def codes(measure: str, name: str) -> dict[str, Any]:
        return columns.add(upper_codes(audit.column(name, measure), run.measure(measure).support))

    return {
        "radii": [format_number(radius) for radius in radii],
        "n": audit.notes.n,
        "inputs": audit.notes.inputs,
        "byChance": audit.notes.by_chance,
        "violations": [str(violation) for violation in audit.violations],
        "averages": [asdict(row) for row in audit.rows()],
        "index": columns.add(np.array([places.get(int(each), -1) for each in index], dtype=np.int32)),
        "attacked": {name: codes(name, "attacked") for name in audit.notes.measures},
        "upper": {name: codes(name, "upper") for name in audit.notes.measures},
        "pictured": columns.add(np.array([places.get(index, -1) for index, _ in images], dtype=np.int32)),
        "pictures": asdict(sheets_of(len(flat), audit.notes.shape, flat.__getitem__)) if flat else None,
    }


def _grid(run: Run) -> list[str]:
    """Words on the grid, for each input, or once if they are the same for all."""
    if not isinstance(run, CertifiedRun):
        return [""]
    words = [grid_words(run.step, float(shift)) for shift in run.shifts]
    return words if len(set(words)) > 1 else words[:1]


def _label(run: Run, radii: Sequence[float], columns: Columns) -> dict[str, Any]:
    """The label's radius rounded down, and how many radii of the axis it reaches: that comparison is not rounded."""
    found = run.label_radius
    reached = np.searchsorted(np.array(radii), found, side="right")
    return {
        "radius": columns.add(floor_units(np.maximum(found, 0.0))),
        "reach": columns.add(reached.astype(np.uint16)),
    }


def _measure(run: Run, measure: str, question: Question, radii: Sequence[float], columns: Columns) -> dict[str, Any]:
    info = run.measure(measure)
    at, known = np.array(radii), np.array(radii if run.radii is None else run.radii)
    # Bounds fall with the radius: between known radii the value of the next larger one holds, and beyond the last, nothing.
    where = np.searchsorted(known, at)
    methods = []
    for method in question.methods_for(run, measure):
        lower = run.lower(measure, method, known)
        unknown = np.full((len(run), 1), info.support[0])
        codes = lower_codes(np.concatenate((lower, unknown), axis=1)[:, where], info.support)
        methods.append(
            {
                "name": method,
                "title": method_description(method),
                "guaranteed": guaranteed(method),
                "own": method == run.config.get("method", run.methods(measure)[0]),
                "lower": columns.add(codes, row=len(radii)),
            }
        )
    found: dict[str, Any] = {
        "title": info.title,
        "support": info.support,
        "units": support_units(info.support),
        "methods": methods,
        "upper": None,
        "histogram": None,
    }
    if isinstance(run, CertifiedRun):
        if run.config["sides"] == "both":
            upper = run.upper(measure, str(run.config["method"]), at)
            found["upper"] = columns.add(upper_codes(upper, info.support), row=len(radii))
        counted = [_counted(scores) for scores in run.scores(measure)]
        found["histogram"] = columns.add(np.array(counted))
        found["bins"] = HISTOGRAM_BINS
    return found


def _counted(scores: OccupiedCounters) -> NDArray[np.int32]:
    """Counts on a few equal bins for the eye; a score sits where the lower edge of its stored bin is."""
    a, b = scores.support
    share = (scores.grid.round_down(scores.occupied) - a) / (b - a)
    where = np.minimum((share * HISTOGRAM_BINS).astype(np.int64), HISTOGRAM_BINS - 1)
    return np.bincount(where, weights=scores.counts, minlength=HISTOGRAM_BINS).astype(np.int32)


def facts(run: Run) -> list[list[str]]:
    """What was run, on what, with which versions: pairs of words. The seed is left out: reports are shown to others."""
    config = run.config
    planned = config.get("inputs", len(run))
    said: list[tuple[str, object]] = [
        (
            "kind",
            "certified by Holdfast"
            if config["kind"] == "certified"
            else "imported log, bounds as it gives them, not checked",
        ),
        ("status", run.status),
        ("made", config.get("created")),
        ("log", config.get("source")),
        ("data", config.get("data")),
        ("split", config.get("split")),
        ("inputs", len(run) if planned == len(run) else f"{len(run)} of {planned} ({why_fewer(config)})"),
        ("model", config.get("model") or config.get("provenance", {}).get("model")),
        ("noise", None if run.noise is None else run.noise.title),
        ("radii are in", run.radii_in),
        ("noisy copies per input (n)", None if "n" not in config else f"{config['n']:,}"),
        ("copies to choose the class (n0)", config.get("n0")),
        ("alpha, for everything on one certificate", None if "alpha" not in config else format_number(config["alpha"])),
        ("claims", ", ".join(config.get("claims", run.measures))),
        ("sides", config.get("sides")),
        ("bound", config.get("method")),
        ("grid", f"steps of {describe_step(step)}" if (step := config.get("provenance", {}).get("step")) else None),
        ("noise generator", config.get("provenance", {}).get("noise")),
        *((key, config.get("provenance", {}).get(key)) for key in ("precision", "device")),
        ("holdfast", config.get("provenance", {}).get("version")),
        *sorted(config.get("versions", {}).items()),
        ("platform", config.get("platform")),
        *((f"SHA-256 of the {key}", value) for key, value in sorted(config.get("fingerprints", {}).items())),
    ]
    return [[key, str(value)] for key, value in said if value is not None]
