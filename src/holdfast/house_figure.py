"""The look of Holdfast's figures: set on the artists themselves, so that Matplotlib's global settings stay the user's."""

from io import BytesIO
from typing import Any

from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from holdfast.plotting import PALETTE

_DPI = 120


class HouseFigure(Figure):
    """A figure in the house's look; also for pyplot, as its ``FigureClass``. A notebook shows it without further ado."""

    def __init__(self, *args: Any, **options: Any) -> None:
        layout = ConstrainedLayoutEngine(wspace=0.05)
        super().__init__(*args, **{**options, "layout": layout, "dpi": options.get("dpi") or _DPI})

    def add_subplot(self, *args: Any, **options: Any) -> Axes:
        """Light grid, no box, the palette's colours."""
        axes: Axes = super().add_subplot(*args, **options)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.set_prop_cycle(cycler(color=PALETTE) * cycler(linewidth=[1.8]))
        return axes

    def _repr_png_(self) -> bytes:
        """Asked by a notebook in which pyplot has not been used: there, a plain figure would be shown as its name."""
        drawn = BytesIO()
        self.savefig(drawn, format="png", bbox_inches="tight")
        return drawn.getvalue()
