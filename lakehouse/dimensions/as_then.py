"""Stands in for the module of the branch with dimension sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.contracts.source import SourceContract
    from lakehouse.settings import Settings


def intervals(
    spark: SparkSession,
    settings: Settings,
    contract: SourceContract,
    ids: Collection[str] | None,
    until: datetime | None = None,
    without: Mapping[str, Collection[str]] | None = None,
) -> DataFrame:
    """The intervals of all keys as a set of inputs gives them."""
    raise NotImplementedError
