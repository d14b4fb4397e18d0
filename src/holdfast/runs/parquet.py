"""Reads the tables of a run: within limits, and refused if their pages do not have the checksums written with them."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.budgets import ROWS, check_expansion
from holdfast.errors import HoldfastError, RunError


def read_parquet(
    path: Path, columns: Sequence[str] | None = None, schema: pa.Schema | None = None, *, remedy: str
) -> pa.Table:
    """Some columns of a table, or all; ``remedy`` says what to do about a damaged file."""
    try:
        written = pq.read_metadata(path)
        ROWS.check(path, written.num_rows, RunError)
        unpacked = sum(written.row_group(k).total_byte_size for k in range(written.num_row_groups))
        check_expansion(path, unpacked, RunError)
        return pq.read_table(path, columns=columns, schema=schema, page_checksum_verification=True)
    except HoldfastError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
        raise RunError(f"{path} cannot be read ({error}); {remedy}") from error
