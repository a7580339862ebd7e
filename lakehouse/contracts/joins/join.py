"""One join of a metric with a dimension: the columns that it is joined on, and those that it brings.

Whether a join fits the sources of the deployment belongs to ``fit``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field, field_validator, model_validator

from lakehouse.contracts.base import Name, Strict
from lakehouse.contracts.checks import Share  # noqa: TC001 (pydantic reads it)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class Join(Strict):
    """Each fact gets the attributes that its key has in the dimension at the event time of the fact."""

    dimension: Name = Field(description="The source with 'kind: dimension'.")
    on: list[Name] = Field(min_length=1, description="The columns with the dimension's primary key, in its order.")
    columns: list[Name | dict[Name, Name]] = Field(
        min_length=1, description="The attributes; '{tier: customer_tier}' gives one another name in the metric."
    )
    max_unmatched: Share | None = Field(
        None, description="The greatest share of a day's facts without a match; the check 'facts_matched' fails beyond it."
    )

    @field_validator("on", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Join:
        if any(isinstance(entry, dict) and len(entry) != 1 for entry in self.columns):
            msg = "columns: another name is given as '{tier: customer_tier}', one column each"
            raise ValueError(msg)
        for names, what in ((self.on, "on"), ([column for column, _ in self.attributes], "columns")):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                msg = f"{what}: named twice: {', '.join(twice)}"
                raise ValueError(msg)
        return self

    @property
    def attributes(self) -> list[tuple[str, str]]:
        """The attributes: each the column of the dimension, and its name in the metric."""
        pairs = (list(entry.items()) if isinstance(entry, dict) else [(entry, entry)] for entry in self.columns)
        return [pair for entry in pairs for pair in entry]

    @property
    def names(self) -> list[str]:
        """The names of the attributes in the metric."""
        return [name for _, name in self.attributes]


def clashes(joins: Sequence[Join], taken: Collection[str]) -> list[str]:
    """What is wrong with the joins of a metric by themselves, each as ``field: what to do``.

    :param taken: names that no attribute can have.
    """
    brought: dict[str, int] = {}
    clashing = []
    for position, join in enumerate(joins):
        earlier = {brought[name] for name in join.on if name in brought}
        if earlier and (len(earlier) > 1 or not all(name in brought for name in join.on)):
            clashing.append(
                f"joins: {join.dimension}: {', '.join(join.on)} come from different tables; join on columns of the source, or "
                "on columns of one earlier join"
            )
        if earlier and join.max_unmatched is not None:
            clashing.append(
                f"joins: {join.dimension}: max_unmatched: is a share of facts by their own key, and {', '.join(join.on)} comes "
                "from an earlier join; leave the key out"
            )
        for name in join.names:
            if name in taken or name in brought:
                clashing.append(
                    f"joins: {join.dimension}: the name {name!r} is taken; give the column another one, as in '{{{name}: "
                    f"{join.dimension}_{name}}}'"
                )
            brought[name] = position
    return clashing


def brought_by(joins: Sequence[Join], join: Join) -> Join | None:
    """The earlier join that brings the columns that a join is on; None if they are columns of the source."""
    return next((other for other in joins[: joins.index(join)] if set(join.on) <= set(other.names)), None)
