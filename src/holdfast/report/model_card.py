"""Certified accuracy as metadata of a model card: Hugging Face's ``model-index``, in YAML, for the top of a README.md."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from holdfast.certificates.describe import in_norm
from holdfast.certificates.proportions import LEVEL
from holdfast.errors import InvalidArgument
from holdfast.printable import printable
from holdfast.report.accuracy import AccuracyRow, Question, accuracy_rows, share_interval
from holdfast.runs.method_names import guaranteed
from holdfast.runs.run import Run
from holdfast.scores.rounding import format_number

_TAGS = ("randomized-smoothing", "certified-robustness")


def model_card(runs: Sequence[Run], question: Question) -> str:
    """The metadata of the networks of these runs, between two lines of dashes; by each run's own bounds unless others are named.

    Every number says what it was computed with. Estimates are refused: a card says what is certified.
    """
    models: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        models.setdefault(_model(run), []).append(_result(run, question))
    index = [{"name": name, "results": results} for name, results in models.items()]
    lines = _yaml({"tags": list(_TAGS), "model-index": index})
    return "\n".join(("---", *lines, "---", ""))


def _model(run: Run) -> str:
    """A network of the zoo or a file of weights, by its name; else the run's."""
    return PurePath(str(run.config.get("model") or run.path.name)).name.removesuffix(".safetensors")


def _result(run: Run, question: Question) -> dict[str, Any]:
    config = run.config
    data = str(config.get("data") or run.path.name)
    own = tuple(dict.fromkeys(run.methods(measure)[0] for measure in run.measures if measure != "label"))
    asked = Question(question.radii, question.thresholds, question.methods or own)
    for method in asked.methods or ():
        if not guaranteed(method):
            raise InvalidArgument(
                f"{method} gives estimates, and a model card says what is certified; leave it out, or name others (--methods)"
            )
    dataset = {"type": PurePath(data).name, "name": data, "split": config.get("split")}
    return {
        "task": {"type": _task(run)},
        "dataset": {name: value for name, value in dataset.items() if value is not None},
        "metrics": [
            _metric(run, row, radius, value)
            for row in accuracy_rows(run, asked)
            for radius, value in zip(row.radii, row.values, strict=True)
        ],
    }


def _task(run: Run) -> str:
    """Images, unless the inputs that are kept with the run are none."""
    kept = run.spot_check
    return "image-classification" if kept is None or kept.rows.ndim == 4 else "tabular-classification"


def _metric(run: Run, row: AccuracyRow, radius: float, value: float) -> dict[str, Any]:
    claim = (
        "label"
        if row.threshold is None
        else f"average {run.measure(row.measure).title} > {format_number(row.threshold)}"
    )
    known = {name: run.config.get(name) for name in ("n", "n0", "alpha", "skip")}
    made = {
        "measure": row.measure,
        "threshold": row.threshold,
        "radius": radius,
        "norm": run.norm,
        "units": run.units or None,
    }
    noise = None if run.noise is None else run.noise.title
    source = None if run.config["kind"] == "certified" else "an imported log, not checked"
    of = {
        "noise": noise,
        **known,
        "claims": ", ".join(run.measures),
        "method": row.method,
        "inputs": len(run),
        "source": source,
    }
    interval = {"interval": share_interval(value, len(run)), "interval_level": LEVEL}
    return {
        "type": "certified_accuracy",
        "value": value,
        "name": f"Certified accuracy: {claim} within radius {format_number(radius)}{in_norm(run.noise, run.units)}",
        "args": {name: each for name, each in {**made, **of, **interval}.items() if each is not None},
    }


def _yaml(value: Any, indent: str = "") -> Iterator[str]:
    """Blocks of mappings and lists; what is neither is written as JSON, which is YAML."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if _is_block(each):
                yield f"{indent}{name}:"
                yield from _yaml(each, f"{indent}  ")
            else:
                yield f"{indent}{name}: {_scalar(each)}"
    else:
        for each in value:
            if _is_block(each):
                first, *others = _yaml(each, f"{indent}  ")
                yield f"{indent}- {first.strip()}"
                yield from others
            else:
                yield f"{indent}- {_scalar(each)}"


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and not all(isinstance(each, float) for each in value)
    )


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(printable(value), ensure_ascii=False)
    text = json.dumps(value)
    # YAML reads 1e-05 as a text: a number has a point.
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text
