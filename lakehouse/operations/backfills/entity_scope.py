"""The scope of a backfill by entity: a condition on fields of the contract, the keys that it selects, and their event days.

Here are also the rows of files that the contract's cutoff holds: quarantined or dropped rows without a decision. This module only
reads. A backfill that admits history requests the reassessment of the rows, which belongs to ``silver.rebuild``; publishing their
days belongs to the run of the plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta.columns import arrow_schema, bronze_columns
from lakehouse.dispositions import claims
from lakehouse.errors import LakehouseError
from lakehouse.ledger import decisions, key_log
from lakehouse.ledger.row_states import QuarantineReason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import date

    from lakehouse.contracts import SourceContract
    from lakehouse.lake import Lake

_FORM = 'write "field = value" or "field in (value, ...)", joined by \'and\'; texts and dates in single quotes'
_VALUE = r"'(?:[^']|'')*'|[-+]?\d+(?:\.\d+)?|true|false"
_TERM = re.compile(
    rf"\s*(?P<field>[A-Za-z_]\w*)\s*(?:=\s*(?P<value>{_VALUE})|\bin\s*\((?P<values>\s*(?:{_VALUE})(?:\s*,\s*(?:{_VALUE}))*\s*)\))\s*",
    re.IGNORECASE,
)
_AND = re.compile(r"\band\b", re.IGNORECASE)


class ConditionError(LakehouseError):
    """A condition of the wrong form, or with an unknown field. The message describes the form."""


@dataclass(frozen=True)
class EntityScope:
    """The keys and days that a condition selects in a range of event days.

    :param keys: the keys with a row in Bronze that meets the condition.
    :param days: the event days of the range on which these keys have rows, whether or not the rows meet the condition.
    :param arrival_days: the arrival days of these rows.
    :param rows: the number of these rows.
    """

    keys: pa.Array
    days: frozenset[date]
    arrival_days: frozenset[date]
    rows: int


def parse(contract: SourceContract, text: str) -> dict[str, list[Any]]:
    """Parse a condition into the allowed values of each field, in the field's type.

    :raises ConditionError: if the condition has another form, or names an unknown field.
    """
    types = {field.name: field.type for field in arrow_schema(bronze_columns(contract))}
    fields = {field.name for field in contract.typed_fields}
    wanted: dict[str, list[Any]] = {}
    place = 0
    while True:
        term = _TERM.match(text, place)
        if term is None:
            msg = f"--where {text!r} cannot be read from {text[place:].strip()!r} on: {_FORM}"
            raise ConditionError(msg)
        name = term["field"]
        if name not in fields:
            msg = f"--where: {contract.dataset} has no field {name!r}; there are {', '.join(sorted(fields))}"
            raise ConditionError(msg)
        if name in wanted:
            msg = f"--where names {name} twice: write '{name} in (...)'"
            raise ConditionError(msg)
        texts = [_plain(value) for value in re.findall(_VALUE, term["value"] or term["values"], re.IGNORECASE)]
        wanted[name] = _typed(name, texts, types[name])
        place = term.end()
        if place == len(text):
            return wanted
        joined = _AND.match(text, place)
        if joined is None:
            msg = f"--where {text!r} cannot be read from {text[place:].strip()!r} on: {_FORM}"
            raise ConditionError(msg)
        place = joined.end()


def of_source(
    lake: Lake, contract: SourceContract, wanted: Mapping[str, Collection[Any]], first: date, last: date
) -> EntityScope:
    """The entity of a source: the keys with a row on an event day of the range that meets the condition.

    Only Bronze's arrival days with rows on these event days are read.

    :param wanted: the result of :func:`parse`.
    """
    source = contract.dataset
    places = locations.key_log(lake, source).distinct(["event_date", "arrival_date"], None)
    places = None if places is None else _within(places, first, last)
    if places is None or not len(places):
        return EntityScope(pa.array([], pa.string()), frozenset(), frozenset(), 0)
    where: dict[str, Collection[Any]] = {name: set(places[name].to_pylist()) for name in places.column_names}
    where |= wanted
    rows = locations.bronze(lake, source).read(["record_key"], where)
    keys = pa.array([], pa.string()) if rows is None else pc.unique(rows["record_key"]).cast(pa.string())
    claims = key_log.about(lake, source, ["event_date", "arrival_date"], keys)
    claims = places.slice(0, 0) if claims is None else _within(claims, first, last)
    days, arrivals = (frozenset(claims[name].to_pylist()) for name in ("event_date", "arrival_date"))
    return EntityScope(keys, days, arrivals, len(claims))


def _within(claims: pa.Table, first: date, last: date) -> pa.Table:
    """The claims on event days of the range; a claim without an event day is about a row of another claim."""
    days = claims["event_date"]
    return claims.filter(pc.and_(pc.greater_equal(days, pa.scalar(first)), pc.less_equal(days, pa.scalar(last))))


def days_in_silver(lake: Lake, source: str, wanted: Mapping[str, Collection[Any]], days: Collection[date]) -> dict[date, int]:
    """The days in ``days`` on which silver has rows that meet the condition, with the number of these rows."""
    where = {"event_date": days, **wanted}
    rows = locations.silver(lake, source).read(["event_date"], where) if days else None
    counts = [] if rows is None else rows["event_date"].value_counts().to_pylist()
    return {entry["values"]: entry["counts"] for entry in counts}


def _plain(text: str) -> str:
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


def _typed(name: str, texts: list[str], kind: pa.DataType) -> list[Any]:
    try:
        values: list[Any] = pa.array(texts, pa.string()).cast(kind).to_pylist()
    except pa.ArrowException:
        msg = f"--where: {name} is a {kind}, and {', '.join(texts)} cannot be read as such: {_FORM}"
        raise ConditionError(msg) from None
    return values


_COLUMNS = ["ingestion_id", "line_number", "record_key", "event_date"]


def held_rows_of_files(lake: Lake, source: str, ids: Collection[str]) -> pa.Table:
    """The claims of the held rows: ``ingestion_id``, ``line_number``, ``record_key``, ``event_date``.

    :param ids: the ingestions of the files.
    """
    where = {"ingestion_id": ids, "reason": [QuarantineReason.BEYOND_WATERMARK.value]}
    stored = locations.key_log(lake, source)
    held = stored.read([*_COLUMNS, "kind"], where) if ids else None
    if held is None or not len(held):
        return pa.table({name: pa.array([], pa.string()) for name in _COLUMNS})
    held = held.filter(pc.not_equal(held["kind"], "retire")).drop_columns(["kind"])
    undecided = pc.is_null(claims.with_decisions(held, decisions.in_force(lake, source))["steward"])
    return held.filter(undecided)
