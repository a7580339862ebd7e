"""Pieces of a few rows, so that a small table is processed as a large one is: a piece at a time."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lakehouse.delta import change_feed
from lakehouse.dispositions import account_tables
from lakehouse.lake import table_io
from lakehouse.ledger import key_log
from lakehouse.silver import checks

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def pieces_of(rows: int) -> Iterator[None]:
    """Within the context, pieces, ranges of keys and parts of the change feed have about so many rows."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table_io, "PIECE_ROWS", rows)
        patched.setattr(table_io, "_BATCH_ROWS", 1)
        patched.setattr(change_feed, "_PART_ROWS", rows)
        patched.setattr(key_log, "_RANGE_ROWS", rows)
        patched.setattr(key_log, "FEW_KEYS", 0)
        patched.setattr(account_tables, "_MERGED_ROWS", rows)
        patched.setattr(account_tables, "_SORTED_ROWS", rows)
        patched.setattr(checks, "_MANY_KEYS", 0)
        yield
