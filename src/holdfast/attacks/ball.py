"""Where attacked points may lie: balls around inputs, cut to the range of images, on the input's grid."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast.errors import InvalidArgument

_SLACK = 1e-6
"""Relative: what float32 may add to a distance."""
_FILLINGS = 8
_ULP = 2.0**-23


@dataclass(frozen=True, eq=False)
class Balls:
    """One ball for each point that is looked for. Arrays have a row for each, of all its numbers.

    Attributes:
        centres: the inputs.
        norm: of the radii, that of the noise.
        box: between which values every number must stay; infinite where there is no limit.
        step: of the grid that points must lie on; 0.0 for any float32.
    """

    centres: NDArray[np.float64]
    radii: NDArray[np.float64]
    norm: str
    box: tuple[float, float] = (-np.inf, np.inf)
    step: float = 0.0

    def __post_init__(self) -> None:
        if self.norm not in ("l2", "l1"):
            raise InvalidArgument(f"an attack moves inputs in l2 or l1, got noise whose norm is {self.norm!r}")

    def farthest(self, directions: NDArray[np.float64]) -> NDArray[np.float64]:
        """The offsets that go farthest along the directions, within ball and box."""
        low, high = self.box
        room = np.where(directions < 0, self.centres - low, high - self.centres)
        room = np.minimum(np.maximum(room, 0.0), self.radii[:, None])
        sizes = np.abs(directions)
        fill = _fill_l2 if self.norm == "l2" else _fill_l1
        return np.asarray(np.copysign(fill(sizes, room, self.radii), directions), dtype=np.float64)

    def points(self, offsets: NDArray[np.float64]) -> NDArray[np.float32]:
        """The points at these offsets, moved to the grid and never out of the ball.

        Offsets are rounded to the nearest step. Where that leaves the ball, numbers that were rounded up go one step back, those
        that were rounded up most first; when all have, every offset is smaller than it was asked to be.
        """
        if self.step == 0:
            return self._float32(offsets)
        wanted = np.abs(offsets) / self.step
        steps = np.rint(wanted).astype(np.int64)
        up = steps > wanted
        order = np.argsort(np.where(up, wanted - steps, 1.0), axis=1)
        size, saved = (steps**2, 2 * steps - 1) if self.norm == "l2" else (steps, np.ones_like(steps))
        reach = self.radii * (1 - _SLACK) / self.step
        limit = np.floor(reach**2 if self.norm == "l2" else reach).astype(np.int64)
        saved = np.take_along_axis(np.where(up, saved, 0), order, axis=1)
        before = size.sum(axis=1, keepdims=True) - (np.cumsum(saved, axis=1) - saved)
        back = np.zeros_like(up)
        np.put_along_axis(back, order, before > limit[:, None], axis=1)
        steps = np.copysign(steps - (back & up), offsets)
        return ((np.rint(self.centres / self.step) + steps) * self.step).astype(np.float32)

    def _float32(self, offsets: NDArray[np.float64]) -> NDArray[np.float32]:
        shrunk = offsets.copy()
        for k in range(25):
            found = (self.centres + shrunk).astype(np.float32)
            outside = self.distances(found) > self.radii
            if not outside.any():
                break
            shrunk[outside] *= 1 - _ULP * 2**k
        return found

    def distances(self, points: NDArray[np.float32]) -> NDArray[np.float64]:
        """How far points are from their centres."""
        away = points - self.centres
        if self.step:
            away = self.step * np.rint(away / self.step)  # levels that float32 cannot hold exactly
        return np.asarray(np.linalg.norm(away, ord=2 if self.norm == "l2" else 1, axis=1), dtype=np.float64)


def _fill_l2(sizes: NDArray[np.float64], room: NDArray[np.float64], radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """``min(c sizes, room)`` with the c that makes it as long as the radius; approached from below."""
    filled = np.zeros_like(sizes)
    for _ in range(_FILLINGS):
        full = filled >= room
        left = radii**2 - np.sum(np.where(full, room, 0.0) ** 2, axis=1)
        free = np.sum(np.where(full, 0.0, sizes) ** 2, axis=1)
        c = np.sqrt(np.maximum(left, 0.0) / np.maximum(free, np.finfo(np.float64).tiny))
        filled = np.where(full, room, np.minimum(c[:, None] * sizes, room))
    return filled


def _fill_l1(sizes: NDArray[np.float64], room: NDArray[np.float64], radii: NDArray[np.float64]) -> NDArray[np.float64]:
    """The largest sizes get all their room, one after the other, until the radius is spent."""
    order = np.argsort(-sizes, axis=1)
    rooms = np.take_along_axis(room, order, axis=1)
    spent = np.cumsum(rooms, axis=1) - rooms
    filled = np.zeros_like(sizes)
    np.put_along_axis(filled, order, np.clip(radii[:, None] - spent, 0.0, rooms), axis=1)
    return filled
