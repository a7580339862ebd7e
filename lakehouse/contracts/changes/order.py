"""The order in which changes follow each other: the section ``order`` of a source's contract."""

from __future__ import annotations

from pydantic import Field

from lakehouse.contracts.base import Strict


class Order(Strict):
    """The source's own sequence, if it has one; after it, arrival time, file and line decide."""

    sequence: str | None = Field(None, description="Column with an integer that grows with every change of a key.")
