"""How results show themselves in a notebook: a sentence and a small chart, as HTML without scripts, in light and dark.

Text has the colour of the page around it. Names may be a stranger's: all text is escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from holdfast.printable import printable

WIDTH, HEIGHT = 460, 230
POINTS = 101
"""Of a line."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 450, 10, 190
_DARK = "--hf0:#56b4e9;--hf1:#f0a04b;--hf2:#3cc79c;--hf3:#e6a3cc"
_LIGHT = "--hf0:#0072b2;--hf1:#d55e00;--hf2:#009e73;--hf3:#b0578d"
# The theme of the page counts, where it says so: JupyterLab and what it exports do. Elsewhere the reader's system does.
_STYLE = (
    f".holdfast{{{_LIGHT};max-width:46em;color:var(--jp-content-font-color1,inherit)}}"
    f"@media (prefers-color-scheme:dark){{.holdfast{{{_DARK}}}}}"
    f"[data-jp-theme-light=true] .holdfast{{{_LIGHT}}}[data-jp-theme-light=false] .holdfast{{{_DARK}}}"
    ".holdfast p{margin:0 0 .5em}.holdfast svg{max-width:100%;height:auto;display:block}"
    ".holdfast svg text{fill:currentColor;font:11px sans-serif}.holdfast svg path{fill:none;stroke-width:2}"
    ".holdfast .key{font-size:.85em}.holdfast .key span{margin-right:1.2em;white-space:nowrap}"
    ".holdfast .key i{display:inline-block;width:1.6em;margin-right:.4em;vertical-align:middle;border-top:2px solid}"
)


@dataclass(frozen=True)
class Line:
    """A line of a chart; with ``upper`` a band that reaches up to it."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    upper: NDArray[np.float64] | None = None
    dotted: bool = False


@dataclass(frozen=True)
class Chart:
    """Lines in one pair of axes; ``at`` and ``level`` are thin lines that say where something is, with what it is."""

    lines: Sequence[Line]
    x_label: str
    y_label: str
    x_range: tuple[float, float]
    y_range: tuple[float, float] = (0.0, 1.0)
    at: tuple[float, str] | None = None
    level: tuple[float, str] | None = None


@dataclass(frozen=True)
class Bar:
    """How much of a whole there is, in words and as a bar."""

    words: str
    part: float
    whole: float


def card(sentence: str, shown: Chart | Bar | None = None) -> str:
    """What a notebook shows of a result."""
    drawn = "" if shown is None else _bar(shown) if isinstance(shown, Bar) else _key(shown) + _svg(shown)
    return f'<div class="holdfast"><style>{_STYLE}</style><p>{_text(sentence)}</p>{drawn}</div>'


def _bar(bar: Bar) -> str:
    length = WIDTH * min(1.0, bar.part / bar.whole) if bar.whole > 0 else 0.0
    words = _text(bar.words)
    return (
        f'<svg viewBox="0 0 {WIDTH} 30" width="{WIDTH}" role="img" aria-label="{words}"><text y="11">{words}</text>'
        f'<rect y="18" width="{WIDTH}" height="8" style="fill:currentColor;opacity:.15"/>'
        f'<rect y="18" width="{length:.1f}" height="8" style="fill:var(--hf0)"/></svg>'
    )


def _text(text: str) -> str:
    return escape(printable(text))


def _key(chart: Chart) -> str:
    entries = [
        (f"border-color:var(--hf{k % 4})" + (";border-top-style:dotted" if line.dotted else ""), line.name)
        for k, line in enumerate(chart.lines)
    ]
    entries += [("border-top:1px dashed", said[1]) for said in (chart.at, chart.level) if said is not None]
    spans = "".join(f'<span><i style="{style}"></i>{_text(name)}</span>' for style, name in entries)
    return f'<div class="key">{spans}</div>'


def _svg(chart: Chart) -> str:
    """The axes with their ticks, the lines, and what is marked."""
    said = _text(f"{chart.y_label} against {chart.x_label}")
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img" aria-label="{said}">']
    for value in _ticks(chart.x_range):
        x = _x(chart, value)
        parts.append(f'<text x="{x:.1f}" y="{_BOTTOM + 15}" text-anchor="middle">{value:g}</text>')
    for value in _ticks(chart.y_range):
        y = _y(chart, value)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_RIGHT}" style="stroke:currentColor;stroke-width:1;opacity:.15"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>')
    thin = "stroke:currentColor;stroke-width:1;opacity:.6;stroke-dasharray:5 4"
    if chart.at is not None and chart.x_range[0] <= chart.at[0] <= chart.x_range[1]:
        parts.append(f'<path d="M{_x(chart, chart.at[0]):.1f} {_TOP}V{_BOTTOM}" style="{thin}"/>')
    if chart.level is not None:
        parts.append(f'<path d="M{_LEFT} {_y(chart, chart.level[0]):.1f}H{_RIGHT}" style="{thin}"/>')
    # What leaves the axes is cut off where it leaves them: a line that is bent to stay inside would say something else.
    inside = f"{_LEFT} {_TOP - 1} {_RIGHT - _LEFT} {_BOTTOM - _TOP + 2}"
    parts.append('<svg x="{}" y="{}" width="{}" height="{}" viewBox="{}">'.format(*inside.split(), inside))
    parts += [*(_line(chart, k, line) for k, line in enumerate(chart.lines)), "</svg>"]
    parts.append(f'<path d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}" style="stroke:currentColor;stroke-width:1"/>')
    middle = (_LEFT + _RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{_text(chart.x_label)}</text>')
    parts.append(
        f'<text transform="translate(11 {(_TOP + _BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        f"{_text(chart.y_label)}</text></svg>"
    )
    return "".join(parts)


def _line(chart: Chart, k: int, line: Line) -> str:
    colour = f"var(--hf{k % 4})"
    dots = ";stroke-dasharray:2 4" if line.dotted else ""
    drawn = f'<path d="M{_points(chart, line.x, line.y)}" style="stroke:{colour}{dots}"/>'
    if line.upper is None:
        return drawn
    around = _points(chart, np.append(line.x, line.x[::-1]), np.append(line.y, line.upper[::-1]))
    band = f'<path d="M{around}Z" style="fill:{colour};opacity:.15"/>'
    upper = f'<path d="M{_points(chart, line.x, line.upper)}" style="stroke:{colour};stroke-width:1"/>'
    return band + drawn + upper


def _points(chart: Chart, x: NDArray[np.float64], y: NDArray[np.float64]) -> str:
    return " ".join(f"{_x(chart, a):.1f} {_y(chart, b):.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))


def _x(chart: Chart, value: float) -> float:
    low, high = chart.x_range
    return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)


def _y(chart: Chart, value: float) -> float:
    low, high = chart.y_range
    return _BOTTOM - (_BOTTOM - _TOP) * (value - low) / (high - low)


def _ticks(ends: tuple[float, float]) -> list[float]:
    """Round numbers within a range."""
    from matplotlib.ticker import MaxNLocator

    low, high = ends
    return [
        float(each)
        for each in MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        if low - 1e-9 <= each <= high + 1e-9
    ]
