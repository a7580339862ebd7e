"""The contract's rules for names in the landing folder: patterns with the arrival day, and when an arrival day is complete."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from lakehouse.contracts.base import Strict
from lakehouse.contracts.inputs.kafka import KAFKA

DAY = "{arrival_date}"
MANIFEST_FORMATS = (".json", ".csv")


def _names_the_day(value: str) -> str:
    if value.count(DAY) != 1:
        msg = "must name the arrival day once, as in sales/{arrival_date}/*.csv.gz"
        raise ValueError(msg)
    if value.startswith("/") or ".." in value.split("/"):
        msg = "is a pattern below the landing folder: no leading slash, no '..'"
        raise ValueError(msg)
    return value


def _names_a_format(value: str) -> str:
    if not value.endswith(MANIFEST_FORMATS):
        msg = "must end in .json or .csv, which determines how it is read"
        raise ValueError(msg)
    return value


def _names_the_day_or_kafka(value: str) -> str:
    return value if value == KAFKA else _names_the_day(value)


DayPattern = Annotated[str, AfterValidator(_names_the_day)]
#: The values that ``source.landing`` may have.
Landing = Annotated[str, AfterValidator(_names_the_day_or_kafka)]


class CompleteWhen(Strict):
    """The file that marks an arrival day as complete; until it exists, the day's files are not ingested."""

    marker: DayPattern | None = Field(None, description="A file that exists once the day is complete: '{arrival_date}/_SUCCESS'.")
    manifest: Annotated[DayPattern, AfterValidator(_names_a_format)] | None = Field(
        None, description="JSON or CSV files that list the day's files, with their bytes, rows and sha256 where they are known."
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> CompleteWhen:
        if (self.marker is None) == (self.manifest is None):
            msg = "name a 'marker:' or a 'manifest:', one of the two"
            raise ValueError(msg)
        return self

    @property
    def pattern(self) -> str:
        """The name pattern of the marking files."""
        return self.marker or self.manifest or ""

    def takes_files_of(self, landing: str) -> bool:
        """Whether a data file of the pattern ``landing`` would be mistaken for a completion marker."""
        plain = landing.replace(DAY, "2024-01-31").replace("*", "file").replace("?", "x")
        return fnmatchcase(plain, self.pattern.replace(DAY, "2024-01-31"))
