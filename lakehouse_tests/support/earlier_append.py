"""Lakes of earlier releases, in which a source under ``append`` had one silver table."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.source import SourceContract
from lakehouse.dispositions.reprocess_policy import AppendPolicy, ReprocessPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def earlier_release() -> Iterator[None]:
    """Meanwhile an ``append`` source has one table, and a row concerns its own day only."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(AppendPolicy, "affected_days", ReprocessPolicy.affected_days)
        patched.setattr(SourceContract, "silver_tables", property(lambda one: [one]))
        yield
