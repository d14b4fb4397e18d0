"""A log of the paper's code or of Cohen et al.'s, imported: bounds at the radii it lists, and nothing in between."""

import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.bounds import Method
from holdfast.certificates.certificate import Certificate
from holdfast.certificates.proportions import clopper_pearson_lower
from holdfast.errors import InvalidArgument, RunError, reading
from holdfast.measures import MeasureInfo, measure_named
from holdfast.noise import Gaussian, Noise, as_noise, noise_fields, noise_named
from holdfast.progress import ignore
from holdfast.runs.folder import FORMAT, RunFolder, file_stem, now
from holdfast.runs.method_names import LABEL_METHOD, method_name
from holdfast.runs.parquet import read_parquet
from holdfast.runs.run import Answers, Run
from holdfast.runs.store import Entry
from holdfast.runs.tsv import (
    COHEN_COLUMNS,
    PAPER_RADII,
    LogOrigin,
    check_log,
    log_lines,
    log_numbers,
    origin_of,
    parse_log,
    read_log,
    with_origin,
)
from holdfast.scores.rounding import floor_significant

_TABLE = "imported.parquet"
_SUREST = 1 - 2.0**-53
"""Of a vote: what more would take a bound nearer to one than a float is, from 10^16 copies."""
_ROUNDED = 1.01
"""Others round to nearest."""
_METHODS = ("cdf-dkw", "naive-hoeffding")
"""As the paper calls the columns of its logs, in their order: those of a log that does not say."""


def import_log(
    source: Path,
    out: Path,
    *,
    measure: str | MeasureInfo | None = None,
    sigma: float | None = None,
    noise: Noise | None = None,
    say: Callable[[str], None] = ignore,
) -> "ImportedRun":
    """Read a log and keep it as a run; measure and noise are taken from the file's name if they are not given.

    A measure of your own is given by its description (``measure.info``). ``sigma=s`` is short for ``noise=Gaussian(s)``.
    What a log of Holdfast's says of itself is kept, and may not be contradicted.
    """
    log = read_log(source)
    origin = origin_of(log)
    config: dict[str, Any] = {
        "kind": "imported",
        "created": now(),
        "source": source.name,
        "columns": log.column_names,
        "measure": "label",
        "sigma": None,
    }
    if tuple(log.column_names) == COHEN_COLUMNS:
        if measure not in (None, "label"):
            raise InvalidArgument(f"{source} is a log of label radii; it has no {measure}")
        info = None
    else:
        info = _measure(source, log, measure)
        config.update({"measure": info.name, "measures": [info.to_dict()]})
    given = as_noise(noise, sigma) if noise is not None or sigma is not None else _noise(source, origin)
    if origin is not None and origin.noise and given != _noise(source, origin):
        raise InvalidArgument(f"{source} says that its noise is {origin.noise}, got {given}; leave the noise out")
    if given is not None and (named := _noise(source, origin)) not in (None, given):
        contradicted = f"{source.name} is named as if its noise were {named.title}; it is taken to be {given.title}"
        warnings.warn(contradicted, RuntimeWarning, stacklevel=2)
    if given is not None:
        config.update(noise_fields(given))
        _check_possible(source, log, given, origin, info)
    if origin is not None:
        config.update(origin.facts())
    if RunFolder.holds_run(out) and isinstance(there := Run.open(out), ImportedRun) and there.holds(config, log):
        say(f"complete: {out} holds this log already")
        return there
    RunFolder.refuse(out)
    RunFolder.check_place(out)
    RunFolder.check_room(out, bytes_needed=200 * len(log))
    with RunFolder.whole(out) as folder:
        plain = with_origin(log, None)
        folder.write(_TABLE, lambda path: pq.write_table(plain, path, compression="zstd", write_page_checksum=True))
        folder.seal({"format": FORMAT, **config})
    return ImportedRun(RunFolder(out))


def _measure(source: Path, log: pa.Table, measure: str | MeasureInfo | None) -> MeasureInfo:
    """What a log of bounds is about; refused if its numbers cannot be that."""
    if measure == "label":
        raise InvalidArgument(f"{source} has no label radii: it is a log of bounds, not of label radii")
    numbers, origin = log_numbers(log), origin_of(log)
    named = measure.name if isinstance(measure, MeasureInfo) else measure
    if origin is not None and named not in (None, origin.measure):
        raise InvalidArgument(
            f"{source} says that its bounds are of the {origin.measure}, got {named}; leave the measure out"
        )
    if measure is None and origin is not None:
        measure = origin.measure
    elif measure is None:
        measure = _named(source.name.lower()) or ("margin" if numbers.min() < 0 else "score")
    info = measure_named(measure).info if isinstance(measure, str) else measure
    low, high = info.support
    if numbers.min() < floor_significant(low, 3) or numbers.max() > high:
        raise InvalidArgument(
            f"{source} holds bounds outside [{low:g}, {high:g}], so it is no log of the {info.name}; name another measure"
        )
    return info


def _check_possible(
    source: Path, log: pa.Table, noise: Noise, origin: LogOrigin | None, measure: MeasureInfo | None
) -> None:
    """Refuse radii and bounds that no samples give with this noise: not even those of copies that all agree."""
    share = None if origin is None else origin.alpha / len(origin.claims)
    surest = _SUREST if origin is None or share is None else clopper_pearson_lower(origin.n, origin.n, share)
    numbers, but = log_numbers(log), "even if all noisy copies agree; name another noise, or copy the log again"
    if measure is None:
        most, found = noise.radius(surest, 0.5), float(numbers.max())
        if found > _ROUNDED * most:
            raise InvalidArgument(
                f"{source} has the label radius {found:g}, and with {noise.title} there is none beyond {most:.3g}, {but}"
            )
        return
    low, high = measure.support
    highest = low + (high - low) * np.tile(noise.least_probability(surest, PAPER_RADII), 2)
    for found, most, radius in zip(numbers.max(axis=0), highest, 2 * PAPER_RADII, strict=True):
        if found > most + (_ROUNDED - 1) * (high - low):
            raise InvalidArgument(
                f"{source} has the bound {found:g} at radius {radius:g}, and with {noise.title} there is none above {most:.3g}, {but}"
            )


def _named(name: str) -> str | None:
    """The measure that a file's name names: as 'holdfast export' writes it, or as people do."""
    exported = re.fullmatch(r"paper_([a-z0-9_-]+)\.tsv", name)
    if exported is None:
        said = re.search(r"margin|mass(?:-\d+)+", name)
        return None if said is None else said[0]
    if file_stem(exported[1]) != exported[1]:
        raise InvalidArgument(f"the name of the measure is cut in {name}; name it whole (--measure)")
    return exported[1]


def _noise(source: Path, origin: LogOrigin | None) -> Noise | None:
    """As the log says, or else its name."""
    if origin is not None:
        return noise_named(origin.noise) if origin.noise else None
    match = re.search(r"(?:sigma|noise)[_=]?(\d*\.\d+|\d+)", source.name.lower())
    # No noise is none: noise_0.tsv is the first of several logs, or one of unknown noise.
    return Gaussian(float(match.group(1))) if match and float(match.group(1)) else None


class ImportedRun(Run):
    """Published bounds at the paper's seven radii, or label radii."""

    @cached_property
    def log(self) -> pa.Table:
        """The log as it was imported."""
        path = self.path / _TABLE
        with reading(path, RunError, "cannot be read", remedy="import the log again"):
            return check_log(path, read_parquet(path))

    def holds(self, config: Mapping[str, Any], log: pa.Table) -> bool:
        """Whether this is what came of importing the same log in the same way."""
        same = {name: value for name, value in self.config.items() if name not in ("created", "format", "sealed")}
        asked = {name: value for name, value in config.items() if name != "created"}
        return same == json.loads(json.dumps(asked)) and bool(self.log.equals(log))

    def check(self) -> Iterator[str]:
        """What in the log cannot be, in words."""
        if self.log.column_names != self.config["columns"]:
            yield f"{_TABLE} has other columns than run.json says: {', '.join(self.log.column_names)}"
        again = parse_log(self.path / _TABLE, list(log_lines(self._log(self.measures[0]))))
        if [field.type for field in again.schema] != [field.type for field in self.log.schema]:
            yield f"{_TABLE} has columns of other types than a log: {self.log.schema}"
        if (self.radii is None) != (tuple(self.log.column_names) == COHEN_COLUMNS):
            yield f"run.json says that the log is of the {self.measures[0]}, which it is not"
            return
        known = None if self.radii is None else self.measure(self.measures[0])
        if known is not None:
            _measure(self.path / _TABLE, self.log, known)
        if self.noise is not None:
            _check_possible(self.path / _TABLE, self.log, self.noise, self.origin, known)

    def labelled(self) -> Iterator[tuple[Certificate, int]]:
        """A log has bounds, and no samples to compute others from."""
        raise InvalidArgument(
            f"{self.path} is an imported log: lower bounds at a few radii, without the samples that upper bounds need; "
            f"triage takes a run of 'holdfast certify'"
        )

    def __iter__(self) -> Iterator[Entry]:
        raise self._without_certificates()

    @overload
    def __getitem__(self, position: int) -> Entry: ...
    @overload
    def __getitem__(self, position: slice) -> list[Entry]: ...
    def __getitem__(self, position: int | slice) -> Entry | list[Entry]:
        """A log has none."""
        raise self._without_certificates()

    def _without_certificates(self) -> InvalidArgument:
        return InvalidArgument(
            f"{self.path} is an imported log: it has numbers and no certificates; to_frame() gives its rows, and lower(...) its bounds"
        )

    @property
    def measures(self) -> tuple[str, ...]:
        """The one the log is about."""
        return (str(self.config["measure"]),)

    def methods(self, measure: str) -> tuple[str, ...]:
        """The log's columns."""
        if measure == "label":
            return (LABEL_METHOD,)
        return _METHODS if self.origin is None else tuple(dict.fromkeys(self.origin.methods))

    @cached_property
    def origin(self) -> LogOrigin | None:
        """What the log says of its bounds; None for one that Holdfast did not write, or not with that."""
        return LogOrigin.recorded(self.config)

    @cached_property
    def answers(self) -> Answers:
        """As the log says; class -1 is an abstention."""
        index, label, predicted = (self.log.column(name).to_numpy() for name in ("idx", "label", "predict"))
        return Answers(index, label, predicted, predicted < 0)

    @property
    def radii(self) -> tuple[float, ...] | None:
        """The paper's seven; any, for label radii."""
        return None if self.measures == ("label",) else PAPER_RADII

    @property
    def label_radius(self) -> NDArray[np.float64]:
        """The log's radius; an abstention has none, written as -1 so that it never counts."""
        if self.radii is not None:
            raise InvalidArgument(f"{self.path} is a log of {self.measures[0]} bounds; it has no label radii")
        return np.where(self.answers.abstained, -1.0, self.log.column("radius").to_numpy())

    def _lower(self, measure: str, method: Method | str, radii: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        """The log's numbers; only at its own radii."""
        known, name = _METHODS if self.origin is None else self.origin.methods, method_name(method)
        if name not in known:
            raise InvalidArgument(
                f"{self.path} is a log of the bounds {', '.join(known)}, and has no others; got {name!r}"
            )
        unknown = [radius for radius in radii.tolist() if radius not in PAPER_RADII]
        if unknown:
            raise InvalidArgument(
                f"{self.path} knows the radii {', '.join(f'{r:g}' for r in PAPER_RADII)} only, got {', '.join(f'{r:g}' for r in unknown)}"
            )
        first = len(PAPER_RADII) * known.index(name)
        return log_numbers(self.log)[:, [first + PAPER_RADII.index(radius) for radius in radii.tolist()]]

    def _log(self, measure: str) -> pa.Table:  # noqa: ARG002
        return with_origin(self.log, self.origin)
