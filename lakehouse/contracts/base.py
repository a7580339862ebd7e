"""The parts shared by source and metric contracts: strictness, names, type names, and the system columns."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, model_validator

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_DECIMAL = re.compile(r"decimal\((\d{1,2}),\s*(\d{1,2})\)")
_SIMPLE_TYPES = {
    "string": "string",
    "str": "string",
    "int": "int",
    "integer": "int",
    "long": "bigint",
    "bigint": "bigint",
    "float": "double",
    "double": "double",
    "boolean": "boolean",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "datetime": "timestamp",
}

#: Columns that every bronze and silver table has besides those of the contract.
SYSTEM_COLUMNS = (
    "record_key",
    "event_ts",
    "event_date",
    "arrival_ts",
    "arrival_date",
    "source_system",
    "source_file",
    "ingestion_id",
    "line_number",
    "source_sequence",
    "source_order",
    "change_op",
    "is_correction",
    "corrects_key",
    "corrected_by",
    "correction_reason",
    "corrected_field",
    "raw_payload",
    "malformed_reason",
)


class Strict(BaseModel):
    """A part of a contract. Unknown keys are mistakes; a loaded contract is immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _each_key_once(cls, content: Any) -> Any:
        """Refuse a key that stands under two of its names; the last name is that of earlier releases."""
        for entry in cls.model_fields.values() if isinstance(content, dict) else ():
            names = entry.validation_alias.choices if isinstance(entry.validation_alias, AliasChoices) else []
            given = [name for name in names if name in content]
            if len(given) > 1:
                msg = f"{given[1]}: is the earlier name of {given[0]!r}; leave it out"
                raise ValueError(msg)
        return content


def _lower_name(value: str) -> str:
    if not _NAME.fullmatch(value):
        msg = "use lower-case letters, digits and underscores, starting with a letter"
        raise ValueError(msg)
    return value


def _spark_type(value: str) -> str:
    """The Spark SQL name of a contract type. ``float`` means double, because 32 bits cannot hold an amount of money."""
    word = value.strip().lower()
    if word in _SIMPLE_TYPES:
        return _SIMPLE_TYPES[word]
    decimal = _DECIMAL.fullmatch(word)
    if decimal and 1 <= int(decimal[1]) <= 38 and int(decimal[2]) <= int(decimal[1]):  # noqa: PLR2004 (Spark's limit)
        return f"decimal({decimal[1]},{decimal[2]})"
    msg = f"unknown type {value!r}; known are {', '.join(sorted(_SIMPLE_TYPES))} and decimal(p,s)"
    raise ValueError(msg)


def is_only_wider(before: str, after: str) -> bool:
    """Whether a type has all values of another one, each with the same text, and more: int to bigint, decimals with more digits.

    Decimals keep their places after the point: else keys and digests, which are made of texts, would be others.
    """
    of_decimals = _DECIMAL.fullmatch(before), _DECIMAL.fullmatch(after)
    if all(of_decimals):
        (digits, places), (more_digits, same_places) = (tuple(map(int, each.groups())) for each in of_decimals if each)
        return places == same_places and digits < more_digits
    return (before, after) == ("int", "bigint")


Name = Annotated[str, AfterValidator(_lower_name)]
SparkType = Annotated[str, AfterValidator(_spark_type)]


class Documented(Strict):
    """The keys that describe a contract to people; the project does not interpret them."""

    version: str | float | None = None
    info: dict[str, Any] = Field(default_factory=dict)
    description: str | None = None
    owner: str | None = None
    tags: list[str] = Field(default_factory=list)
