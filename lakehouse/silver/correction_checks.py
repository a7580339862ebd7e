"""Checks for corrections whose intention is unknown: competing and circular ones, and those that empty fields.

A correction under a new id ends the record that it names, and lives under an id of its own. If two corrections name one original,
directly or by a chain, both would count. Records that correct each other end each other: one of them counts, or none. The
exception is the return to an original: it was corrected under another id, and is sent again as the correction of that one. Then
only one of the ids has a record that names no other. The check looks for such records among the rows that live in silver; the
sender or a person decides which one to withdraw.

A correction replaces the whole record, so a record with only the corrected field would erase the others. Where a source says
which field was corrected (``changes.corrected_field``), fields that are empty in the correction, that it does not name, and that
had a value before, were most likely not sent. The check finds them from what lives in silver and the earlier records in Bronze;
nothing is filled in here. Under ``changes.corrections: partial`` they are filled (``dispositions.readings``), and nothing is
checked.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import locations
from lakehouse.delta.columns import ORDER
from lakehouse.dispositions import claims, deliveries, readings, reprocess_policy, winners
from lakehouse.dispositions.readings import named
from lakehouse.dispositions.winners import sortable
from lakehouse.lake import table_io
from lakehouse.ledger import decisions, key_log, redactions
from lakehouse.ledger.ids import row_id_of
from lakehouse.quality.check_rules import CheckResult
from lakehouse.text import join_limited

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from deltalake import DeltaTable

    from lakehouse.contracts.source import SourceContract
    from lakehouse.lake import Lake

ONE_CORRECTION = "one_correction"

COMPETING = "Of the corrections that name the same original, directly or by a chain, one counts, and no two correct each other."

_SHOWN = 3
_LIVING = ["event_date", "record_key", "corrects_key"]
_ROW = ["ingestion_id", "line_number"]


class LiveRecord(NamedTuple):
    """A correction that lives: its key and event day."""

    key: str
    day: date


class Undecided(NamedTuple):
    """Groups of corrections of which one is on an event day: those that live and share their original, and the newest records of
    keys that correct each other.
    """

    competing: list[list[LiveRecord]]
    circular: list[list[LiveRecord]]


def check_competing(lake: Lake, contract: SourceContract, table: DeltaTable | None, days: Collection[date]) -> list[CheckResult]:
    """One outcome for each event day; none for a source whose records name no others.

    :param table: silver.
    """
    if not contract.changes.corrects_event_id:
        return []
    found = Undecided([], []) if table is None else undecided(lake, contract, table, days)
    outcomes = []
    for day in sorted(days):
        competing, circular = ([group for group in groups if any(one.day == day for one in group)] for groups in found)
        why = [f"{_named(competing)} correct the same original, and all of them count"] if competing else []
        why += [f"{_named(circular)} correct each other, and which one counts is unknown"] if circular else []
        if competing:
            why += [f"have the sender withdraw all but one, or do so by 'lakehouse correct {contract.dataset}'"]
        if circular:
            why += ["have the sender send the one that counts again, without naming another"]
        if why:
            why += [f"'quality.severity: {{{ONE_CORRECTION}: warn}}' publishes what silver holds"]
        numbers = {"originals": len(competing), "circular": len(circular)}
        outcomes.append(CheckResult(ONE_CORRECTION, day, not why, numbers, "; ".join(why) or None))
    return outcomes


def undecided(lake: Lake, contract: SourceContract, table: DeltaTable, days: Collection[date]) -> Undecided:
    """The corrections on ``days`` whose sender's intention is unknown.

    :param table: silver.
    """
    living = _corrections(table, {"event_date": list(days)})
    groups = _Groups(zip(living["record_key"].to_pylist(), living["corrects_key"].to_pylist()))
    groups.add(_retired(lake, contract, days))
    groups.complete(lake, contract.dataset)
    wanted = set(days)
    return Undecided(
        [each for each in _competing(lake, contract, table, groups) if any(one.day in wanted for one in each)],
        [each for each in _circular(lake, contract, table, groups) if any(one.day in wanted for one in each)],
    )


def _named(groups: list[list[LiveRecord]]) -> str:
    return join_limited([" and ".join(sorted(one.key for one in group)) for group in groups], _SHOWN)


def _competing(lake: Lake, contract: SourceContract, table: DeltaTable, groups: _Groups) -> Iterable[list[LiveRecord]]:
    """The living corrections that share their original with other living ones."""
    shared = groups.with_several()
    if not shared:
        return []
    keys = pa.array(sorted(shared), pa.string())
    reach = key_log.days_of(lake, contract.dataset, keys)
    by_group: dict[str, list[LiveRecord]] = defaultdict(list)
    for row in _corrections(table, {"event_date": sorted(reach), "record_key": keys}).to_pylist():
        by_group[groups.of(row["record_key"])].append(LiveRecord(row["record_key"], row["event_date"]))
    return [each for each in by_group.values() if len(each) > 1]


def _circular(lake: Lake, contract: SourceContract, table: DeltaTable, groups: _Groups) -> Iterable[list[LiveRecord]]:
    """The newest admitted records of keys whose newest records correct each other, except for a return to an original that
    counts.
    """
    closed = groups.closed()
    if not closed:
        return []
    keys = pa.array(sorted(closed), pa.string())
    log = key_log.about(lake, contract.dataset, [*winners.RANKED, "standing"], keys)
    if log is None:
        return []
    own = claims.with_decisions(log.filter(pc.not_equal(log["kind"], "retire")), decisions.in_force(lake, contract.dataset))
    own = deliveries.ordered(own.filter(claims.are_admitted(own)), deliveries.of(lake, contract))
    names = {(row["ingestion_id"], row["line_number"]): row["original"] for row in _naming(lake, contract.dataset, keys)}
    plain = {row["record_key"] for row in own.select(["record_key", *_ROW]).to_pylist() if _row_id(row) not in names}
    newest = {row["record_key"]: row for row in winners.winners(own, by_sequence=True).to_pylist()}
    corrects = {key: names[_row_id(row)] for key, row in newest.items() if row["kind"] != "delete" and _row_id(row) in names}
    where = {"event_date": {newest[key]["event_date"] for key in corrects}, "record_key": pa.array(list(corrects), pa.string())}
    living = set(_corrections(table, where)["record_key"].to_pylist()) if corrects else set()
    return [
        [LiveRecord(key, newest[key]["event_date"]) for key in circle]
        for circle in _circles(corrects)
        if len(plain.intersection(circle)) != 1 or not living.intersection(circle)
    ]


def _row_id(row: Mapping[str, Any]) -> tuple[str, int]:
    return row["ingestion_id"], row["line_number"]


def _circles(corrects: Mapping[str, str]) -> Iterator[list[str]]:
    """The keys of each circle, where every key names one other at most."""
    seen: set[str] = set()
    for first in sorted(corrects):
        path: list[str] = []
        key: str | None = first
        while key is not None and key not in seen:
            seen.add(key)
            path.append(key)
            key = corrects.get(key)
        if key in path:
            yield path[path.index(key) :]


def _corrections(table: DeltaTable, where: table_io.Where) -> pa.Table:
    """The living rows that correct a record of another key."""
    rows = table_io.read_version(table, _LIVING, where)
    return rows.filter(pc.fill_null(pc.not_equal(rows["corrects_key"], rows["record_key"]), False))


def _retired(lake: Lake, contract: SourceContract, days: Collection[date]) -> set[str]:
    """The keys of the rows on ``days`` that a record of another key ended."""
    table, columns = locations.dispositions(lake, contract.dataset), ["record_key", "because"]
    keys: set[str] = set()
    for rows in table.pieces(columns, {"event_date": days}):
        keys.update(rows.filter(pc.equal(rows["because"], reprocess_policy.RETIRED.because))["record_key"].to_pylist())
    return keys


class _Groups:
    """Keys that corrections connect."""

    def __init__(self, named: Iterable[tuple[str, str]]) -> None:
        """:param named: pairs of a correction and the record that it names."""
        self._above: dict[str, str] = {}
        self._naming: dict[str, set[str]] = defaultdict(set)
        self._closing: set[str] = set()
        self._connect(named)

    def add(self, keys: Iterable[str]) -> None:
        """Add keys that name none so far."""
        for key in keys:
            self._above.setdefault(key, key)

    def of(self, key: str) -> str:
        """The group of a key."""
        while self._above.get(key, key) != key:
            key = self._above[key]
        return key

    def with_several(self) -> set[str]:
        """The keys of the groups in which several keys name others."""
        counts: dict[str, int] = defaultdict(int)
        for key in self._naming:
            counts[self.of(key)] += 1
        return {key for key in self._above if counts[self.of(key)] > 1}

    def closed(self) -> set[str]:
        """The keys of the groups in which keys are connected in two ways: only such groups can have circles."""
        groups = {self.of(key) for key in self._closing}
        return {key for key in self._above if groups and self.of(key) in groups}

    def complete(self, lake: Lake, source: str) -> None:
        """Add all corrections that are connected with the keys, from the key log."""
        seen: set[str] = set()
        while new := self._above.keys() - seen:
            seen |= new
            named = _naming(lake, source, pa.array(sorted(new), pa.string()))
            self._connect((row["record_key"], row["original"]) for row in named)

    def _connect(self, named: Iterable[tuple[str, str]]) -> None:
        for key, original in named:
            if original in self._naming[key]:
                continue
            self._naming[key].add(original)
            for one in (key, original):
                self._above.setdefault(one, one)
            if self.of(key) == self.of(original):
                self._closing.add(key)
            self._above[self.of(key)] = self.of(original)


def _naming(lake: Lake, source: str, keys: pa.Array) -> list[dict[str, Any]]:
    """The corrections by or of ``keys``: ``record_key``, the id of the row, and ``original``, the key that it names."""
    about = key_log.about(lake, source, ["record_key", "kind", "arrival_date", *_ROW], keys)
    if about is None or not len(about):
        return []
    where = {name: pc.unique(about[name]).to_pylist() for name in ("arrival_date", "ingestion_id")}
    log = locations.key_log(lake, source).read(["record_key", "kind", *_ROW], where)
    if log is None:
        return []
    is_retired = pc.equal(log["kind"], "retire")
    originals = log.filter(is_retired).select(["record_key", *_ROW]).rename_columns(["original", *_ROW])
    by_row = log.filter(pc.invert(is_retired)).select(["record_key", *_ROW]).join(originals, _ROW, join_type="inner")
    met = by_row.filter(pc.or_(pc.is_in(by_row["record_key"], keys), pc.is_in(by_row["original"], keys)))
    return list(met.to_pylist())


WHOLE_CORRECTION = "whole_correction"

EMPTIED = "No correction empties a field that it does not name in its column for corrected fields."

#: The columns for the order of a record among those of its key, and its id in Bronze; see ``deliveries.ordered``.
_PLACED_BY = ["source_sequence", "source_order", "arrival_ts", "ingestion_id", "line_number"]


class Emptied(NamedTuple):
    """A living correction, and the fields that it empties without naming them."""

    key: str
    day: date
    fields: tuple[str, ...]


def check_emptied(lake: Lake, contract: SourceContract, table: DeltaTable | None, days: Collection[date]) -> list[CheckResult]:
    """One outcome for each event day; none for a source whose corrections name no fields.

    :param table: silver.
    """
    if not contract.changes.corrected_field or contract.has_partial_corrections:
        return []
    by_day: dict[date, list[Emptied]] = defaultdict(list)
    for correction in [] if table is None else emptied(lake, contract, table, days):
        by_day[correction.day].append(correction)
    outcomes = []
    for day in sorted(days):
        here, why = by_day.get(day, []), None
        if here:
            listed = join_limited([f"{correction.key}: {', '.join(correction.fields)}" for correction in here], _SHOWN)
            why = (
                f"corrections empty fields that they do not name ({listed}), and a correction replaces the whole record: have "
                f"the sender send it whole, or do so by 'lakehouse correct {contract.dataset}'; 'changes.corrections: partial' "
                "keeps the other fields where corrections carry only what they change; "
                f"'quality.severity: {{{WHOLE_CORRECTION}: warn}}' lets them count as they are"
            )
        outcomes.append(CheckResult(WHOLE_CORRECTION, day, not here, {"corrections": len(here)}, why))
    return outcomes


def emptied(lake: Lake, contract: SourceContract, table: DeltaTable, days: Collection[date]) -> list[Emptied]:
    """The corrections that live on ``days`` and empty fields that they do not name."""
    names = [spec.name for spec in contract.model.fields if spec.name not in contract.primary_key]
    columns = ["event_date", "record_key", "corrects_key", "ingestion_id", "line_number", "corrected_field", *names]
    living = table_io.read_version(table, columns, {"event_date": list(days), "is_correction": [True]})
    hidden = redactions.keys_by_field(lake, contract.dataset)
    suspects = []
    for row in living.filter(pc.is_valid(living["corrected_field"])).to_pylist():
        by_name = named(contract, row["corrected_field"])
        shown = [name for name in names if row["record_key"] not in hidden.get(name, ())]
        empty = [name for name in shown if row[name] is None and name not in by_name]
        if by_name and empty:
            suspects.append((row, empty))
    if not suspects:
        return []
    records = _records(lake, contract, {key for row, _ in suspects for key in _keys(row)}, names)
    place_of = {row_id_of(record): place for place, record in enumerate(records)}
    places: dict[str, list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        places[record["record_key"]].append(place)
    result = []
    for row, empty in suspects:
        before = (place for key in _keys(row) for place in places[key] if place < place_of[row_id_of(row)])
        earlier = [records[place] for place in sorted(before, reverse=True)]
        had = tuple(name for name in empty if _had_value(contract, earlier, name))
        if had:
            result.append(Emptied(row["record_key"], row["event_date"], had))
    return result


def _records(lake: Lake, contract: SourceContract, keys: Collection[str], names: Collection[str]) -> list[dict[str, Any]]:
    """The records of ``keys`` in Bronze that have content, in the total order of R2."""
    source, wanted = contract.dataset, pa.array(sorted(keys), pa.string())
    where = {"arrival_date": sorted(key_log.arrival_days_of(lake, source, wanted)), "record_key": wanted}
    columns = ["record_key", "change_op", "is_correction", "corrected_field", "malformed_reason", *_PLACED_BY, *names]
    rows = readings.read(lake, source, columns, where)
    if rows is None:
        return []
    rows = rows.filter(pc.and_(pc.is_null(rows["malformed_reason"]), pc.not_equal(rows["change_op"], "delete")))
    rows = deliveries.ordered(rows, deliveries.of(lake, contract))
    in_order: pa.Table = rows.take(pa.array(np.lexsort([sortable(rows[name]) for name in reversed(ORDER)])))
    return list(in_order.to_pylist())


def _had_value(contract: SourceContract, earlier: Sequence[Mapping[str, Any]], name: str) -> bool:
    """Whether a field had a value in ``earlier`` records, newest first, up to a record that emptied it by name or was no
    correction.
    """
    for record in earlier:
        if record[name] is not None:
            return True
        if not record["is_correction"] or name in named(contract, record["corrected_field"]):
            return False
    return False


def _keys(row: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys(key for key in (row["record_key"], row["corrects_key"]) if key is not None))
