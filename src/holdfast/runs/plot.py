"""Certified accuracy against radius, drawn: what figures, reports and ``run.plot_certified_accuracy()`` share."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from holdfast.bounds import Method
from holdfast.certificates.proportions import share_intervals
from holdfast.errors import InvalidArgument
from holdfast.measures import MeasureInfo
from holdfast.plotting import PALETTE, in_symbols, plain
from holdfast.runs.method_names import method_description
from holdfast.runs.run import Run
from holdfast.scores.rounding import format_number

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

LineStyle = Literal["-", "--", ":", "-."] | tuple[float, tuple[float, ...]]
LINES: tuple[LineStyle, ...] = ("-", "--", ":", "-.", (0.0, (6.0, 1.5, 1.0, 1.5, 1.0, 1.5)), (0.0, (1.0, 4.0)))
DATA_TITLES = {"cifar10": "CIFAR-10", "fashion-mnist": "Fashion-MNIST", "imagenet500": "ImageNet"}
"""Names of data in words, for figures; any other is written as it was recorded."""
_LONGEST = 40


def draw_accuracy(
    axes: "Axes",
    run: Run,
    measure: str,
    *,
    radii: NDArray[np.float64],
    lines: Mapping[Method | str, LineStyle],
    thresholds: Sequence[float] = (),
    interval: float | None = None,
    colours: Sequence[str] = PALETTE,
) -> float:
    """A colour per threshold and a line style per method; returns the largest radius at which anything is certified.

    Between two radii the line has the value of the larger one: no point of it claims more than was certified. With
    ``interval``, the first method's lines have bands of :class:`~holdfast.certificates.proportions.ShareIntervals` at that
    level.
    """
    marker = "o" if run.radii is not None else None
    reach = 0.0
    for method, line in lines.items():
        table = run.certified_accuracy(measure, radii=radii, thresholds=thresholds, method=method)
        reach = max(reach, float(radii[table.max(axis=0) > 0].max(initial=0.0)))
        for colour, values in zip(colours, table, strict=False):
            # A line ends where nothing is certified any more: along the axis it would only hide others.
            shown = slice(None, int(np.count_nonzero(values)) + 1)
            axes.plot(
                radii[shown],
                values[shown],
                linestyle=line,
                color=colour,
                marker=marker,
                markersize=3,
                drawstyle="steps-pre",
            )
            if interval is not None and method == next(iter(lines)):
                of = share_intervals(len(run), level=interval)
                right = np.rint(values * len(run)).astype(np.int64)
                band = of.lower[right], of.upper[right]
                # Where nothing is certified, a band would only hide the others.
                axes.fill_between(radii, *band, where=right > 0, step="pre", color=colour, alpha=0.12, linewidth=0)
    return reach


def line_styles(methods: Sequence[Method | str], thresholds: Sequence[float] = ()) -> dict[Method | str, LineStyle]:
    """The line style of each method, for all panels of a figure and its legend; refused if too many are to be told apart."""
    if len(thresholds) > len(PALETTE) or len(methods) > len(LINES):
        raise InvalidArgument(
            f"a figure tells {len(PALETTE)} thresholds and {len(LINES)} methods apart, got {len(thresholds)} and "
            f"{len(methods)}; draw several figures"
        )
    return dict(zip(methods, LINES, strict=False))


def colour_handles(labels: Sequence[str]) -> "list[Artist]":
    """Legend entries that say the colours."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=colour, linewidth=1.8, label=label) for colour, label in zip(PALETTE, labels, strict=False)
    ]


def threshold_handles(measure: MeasureInfo, thresholds: Sequence[float]) -> "list[Artist]":
    """Legend entries for a colour per threshold."""
    return colour_handles([f"{plain(measure.title)} > {format_number(threshold)}" for threshold in thresholds])


def method_handles(
    lines: Mapping[Method | str, LineStyle], colours: Mapping[Method | str, str] | None = None
) -> "list[Artist]":
    """Legend entries that say the line styles, and the methods' colours where those mean methods too."""
    from matplotlib.lines import Line2D

    return [
        Line2D(
            [],
            [],
            color="0.35" if colours is None else colours[method],
            linewidth=1.8,
            linestyle=line,
            label=method_description(method),
        )
        for method, line in lines.items()
    ]


def frame(axes: "Axes", run: Run, radii: NDArray[np.float64], reach: float) -> None:
    """Axes that end a little after the last certified input."""
    axes.set_xlim(0.0, min(float(radii.max()), 1.1 * reach) or 1.0)
    axes.set_ylim(0.0, 1.0)
    axes.set_xlabel(radii_label([run]))


def run_titles(runs: Sequence[Run]) -> list[str]:
    """What was run, in two lines of words; the folder's name above them where the words do not tell the runs apart."""
    words = [_words(run) for run in runs]
    return [
        said if said and words.count(said) == 1 else _named(run, said) for run, said in zip(runs, words, strict=True)
    ]


def _words(run: Run) -> str:
    data = str(run.config.get("data") or "")
    noise = "" if run.noise is None else in_symbols(run.noise.title)
    first = ", ".join(part for part in (DATA_TITLES.get(data, _cut(data)), noise) if part)
    if "n" not in run.config:
        return plain(first)
    return f"{plain(first)}\nn = {run.config['n']:,}, α = {format_number(run.config['alpha'])}"


def _named(run: Run, said: str) -> str:
    return f"{plain(short_name(run))}\n{said.replace(chr(10), ', ')}".rstrip()


def radii_label(runs: Sequence[Run]) -> str:
    """What the axis of the radius says: in which norm and units they are, or in which ones."""
    norms = dict.fromkeys(in_symbols(plain(run.radii_in)) for run in runs)
    return f"radius of the perturbation ({' or '.join(norms)})"


def short_name(run: Run) -> str:
    """The run's folder, cut if it is long."""
    return _cut(run.path.name)


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
