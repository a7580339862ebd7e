"""The marking of records that change an earlier one: the section ``changes`` of a source's contract."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from lakehouse.contracts.base import Strict

#: The column with a record's operation, and its values.
OPERATION = "change_op"
OPERATIONS = ("insert", "correct", "delete")
#: The operation that only dimensions have.
RETRACT = "retract"


class Changes(Strict):
    """The columns that mark a record as a change to an earlier one."""

    op: str | None = Field(None, description="Column that holds insert, correct or delete (or the words below).")
    insert_words: list[str] = Field(default_factory=lambda: ["insert", "i", "c", "r"])
    correct_words: list[str] = Field(default_factory=lambda: ["correct", "update", "upsert", "u"])
    delete_words: list[str] = Field(default_factory=lambda: ["delete", "d"])
    retract_words: list[str] = Field(
        default_factory=lambda: ["retract"], description="Of a dimension: the change at this event time has never happened."
    )
    is_correction: str | None = Field(None, description="Column that marks a correction (1/true).")
    corrects_event_id: str | None = Field(None, description="Column with the key that the record corrects.")
    corrected_by: str | None = Field(None, description="Column that names who corrected.")
    correction_reason: str | None = Field(None, description="Column with the reason of a correction.")
    corrected_field: str | None = Field(None, description="Column that names what was corrected.")
    corrections: Literal["whole", "partial"] = Field(
        "whole",
        description="Whether a correction has all fields, or only those that it changes; the others keep their values.",
    )

    @model_validator(mode="after")
    def _one_meaning(self) -> Changes:
        words = [
            word for part in (self.insert_words, self.correct_words, self.delete_words) for word in {w.lower() for w in part}
        ]
        twice = sorted({word for word in words if words.count(word) > 1})
        if twice:
            msg = f"op: these words have two meanings: {', '.join(twice)}; give each of the three lists its own"
            raise ValueError(msg)
        return self
