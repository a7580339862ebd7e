"""One join of a metric with a dimension: the columns to join on, and the columns that the join adds.

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
    """A join that adds to each fact the attributes of its key in the dimension at the fact's event time."""

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
        """The attributes as pairs: the dimension's column, and its name in the metric."""
        pairs = (list(entry.items()) if isinstance(entry, dict) else [(entry, entry)] for entry in self.columns)
        return [pair for entry in pairs for pair in entry]

    @property
    def names(self) -> list[str]:
        """The names of the attributes in the metric."""
        return [name for _, name in self.attributes]


def clashes(joins: Sequence[Join], taken: Collection[str]) -> list[str]:
    """The mistakes in a metric's joins that need no source to be seen, each as ``field: what to do``.

    :param taken: names that attributes cannot have.
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
    """The earlier join that adds the columns on which ``join`` joins; None if they are columns of the source."""
    return next((other for other in joins[: joins.index(join)] if set(join.on) <= set(other.names)), None)
