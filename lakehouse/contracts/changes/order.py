"""The order in which changes apply: the section ``order`` of a source's contract."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_serializer, field_validator

from lakehouse.contracts.base import Strict


class OrderColumn(Strict):
    """A column that orders the changes of a key."""

    column: str
    type: Literal["integer", "text"] = Field(
        "integer", description="Text is compared by its bytes, as hexadecimal numbers and ISO times of one width are."
    )


class Order(Strict):
    """The source's own sequence, if any, followed by arrival time, file and line."""

    sequence: list[OrderColumn] = Field(
        default_factory=list,
        description="Column, or columns from the most to the least significant, that grow with every change of a key.",
    )

    @field_validator("sequence", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        items = value if isinstance(value, list) else [] if value is None else [value]
        return [{"column": item} if isinstance(item, str) else item for item in items]

    @field_validator("sequence")
    @classmethod
    def _each_once(cls, value: list[OrderColumn]) -> list[OrderColumn]:
        names = [item.column for item in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            msg = f"these columns are named twice: {', '.join(twice)}"
            raise ValueError(msg)
        return value

    @field_serializer("sequence")
    def _as_written(self, value: list[OrderColumn]) -> Any:
        """Dump a single integer column as its name, so that the contract's version is the same as before other orders existed."""
        if not value or self.is_one_integer:
            return value[0].column if value else None
        return [item.model_dump() for item in value]

    @property
    def is_one_integer(self) -> bool:
        """Whether a single integer column is the whole order."""
        return [item.type for item in self.sequence] == ["integer"]
