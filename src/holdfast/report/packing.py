"""Columns of whole numbers in one compressed stretch of text, for the page to unpack."""

import base64
import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
