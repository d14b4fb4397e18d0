"""Reads the tables of a run: within limits, and refused if their pages do not have the checksums written with them."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.budgets import ROWS, check_expansion
from holdfast.errors import RunError


def read_parquet(path: Path, columns: Sequence[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
    """Some columns of a table, or all. Requires :func:`holdfast.errors.reading` around it."""
    written = pq.read_metadata(path)
    ROWS.check(path, written.num_rows, RunError)
    unpacked = sum(written.row_group(k).total_byte_size for k in range(written.num_row_groups))
    check_expansion(path, unpacked, RunError)
    return pq.read_table(path, columns=columns, schema=schema, page_checksum_verification=True)
