"""Figures as files: a small PNG, to be committed, and PDF and SVG beside it, for papers and pages."""

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from holdfast.report.figures import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150


def write_figure(figure: "Figure", path: Path) -> list[Path]:
    """Write a figure; its PNG has a palette of 256 colours: a third of the bytes, and lines and text look the same."""
    drawn = BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    drawn.seek(0)
    with Image.open(drawn) as image:
        few = image.convert("RGB").quantize(256, kmeans=2, dither=Image.Dither.NONE)
        few.save(path, format="png", optimize=True)
    return [path, *(save_figure(figure, path.with_suffix(kind)) for kind in (".pdf", ".svg"))]
