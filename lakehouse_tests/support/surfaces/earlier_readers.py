"""A reader for each surface that shows a number as readers saw it at an earlier time, and one for what was checked.

What the commands print, the API gives and the pages show for a time is compared with a plain read of the table: its rows that had
been published by then.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import dagster as dg
from deltalake import DeltaTable

from lakehouse_tests.support.surfaces import readers
from lakehouse_tests.support.surfaces.said import Said

if TYPE_CHECKING:
    from lakehouse_tests.support.surfaces.readers import Number, Reader


def _as_of(number: Number) -> str:
    assert number.as_of is not None
    return number.as_of


def _then(said: Said | None) -> Said | None:
    """What a surface says of an earlier version: what it waits for, and what is held, belongs to the newest number."""
    return None if said is None else replace(said, waiting=None, held=None)


def delta_table(number: Number) -> Said:
    """The rows of the table that had been published by then: the newest revision, and the adjustments of it."""
    at = datetime.fromisoformat(_as_of(number).replace("Z", "+00:00"))
    table = DeltaTable(f"{number.sample.lake.root}/gold/{number.table}").to_pyarrow_table()
    rows = [row for row in table.to_pylist() if row["period"] == number.period and row["published_at"] <= at]
    newest = max(row["revision"] for row in rows)
    of_newest = [row for row in rows if row["revision"] == newest and row["adjustment"] is None]
    booked = [row for row in rows if row["revision"] == newest and row["adjustment"]]
    head, value = of_newest[0], number.totals(of_newest)
    return Said(
        value=value,
        state=head["state"],
        reason=head["reason"],
        revision=f"r{newest}",
        restated_on=readers._minute(head["restated_on"]) if head["restated_on"] else "",
        why=readers._without_reason(head["restatement_reason"]),
        adjusted=readers._added(value, number.totals(booked)) if booked else {},
    )


def gold_show(number: Number) -> Said | None:
    """``lakehouse gold show --version TIME``."""
    return _then(readers.gold_show(number, "--version", _as_of(number)))


def gold_show_json(number: Number) -> Said | None:
    """``lakehouse gold show --version TIME --json``."""
    return _then(readers.gold_show_json(number, "--version", _as_of(number)))


def gold_diff(number: Number) -> Said:
    """``lakehouse gold diff METRIC PERIOD --from TIME --to TIME``: the number itself on both sides."""
    at = _as_of(number)
    text = number.sample.typed("gold", "diff", number.metric, number.period, "--from", at, "--to", at)
    sums = re.findall(r"(\w+) stays (-?[\d.,]+)", text.splitlines()[0])
    return Said(value={name: readers._number(value.rstrip(".,")) for name, value in sums})


def gold_compare(number: Number) -> Said:
    """``lakehouse gold compare METRIC PERIOD first TIME``."""
    text = number.sample.typed("gold", "compare", number.metric, number.period, "first", _as_of(number))
    sums = re.findall(r"(\w+) (?:-?[\d.,]+ -> (-?[\d.,]+) \(|stays (-?[\d.,]+))", text.splitlines()[0])
    return Said(value={name: readers._number((moved or stays).rstrip(".,")) for name, moved, stays in sums})


def api_number(number: Number) -> Said | None:
    """``GET /metrics/{name}?version=TIME``."""
    return _then(readers.api_number(number, version=_as_of(number)))


def api_series(number: Number) -> Said | None:
    """``GET /metrics/{name}/series?version=TIME``."""
    return readers.api_series(number, version=_as_of(number))


def api_compare(number: Number) -> Said:
    """``GET /metrics/{name}/compare?version_b=TIME``."""
    shown = number.json(f"/metrics/{number.metric}/compare", window=number.period, version_b=_as_of(number))
    side = shown["version_b"]
    totals = {name: readers._number(sides["after"]) for name, sides in shown["totals"].items()}
    return Said(value=totals, state=side["state"], revision=side["version"])


def api_lineage(number: Number) -> Said:
    """``GET /lineage/{name}/{period}?version=TIME``."""
    shown = number.json(f"/lineage/{number.metric}/{number.period}", version=_as_of(number))
    return Said(state=shown["state"], revision=shown["version"])


def story_steps(number: Number) -> Said:
    """``/page/metrics/{name}/{period}``: the newest revision in its list that had been published by then."""
    page = number.html(f"/page/metrics/{number.metric}/{number.period}")
    table = page.partition("The numbers as a table")[2]
    until = readers._minute(_as_of(number))
    lines = re.findall(r'(?s)<tr><th scope="row">(r\d+)</th>(.*?)</tr>', table)
    label, cells = next((label, cells) for label, cells in lines if _moment_in(cells) <= until)
    values = [readers._number(value) for value in re.findall(r'<td class="num">(-?[\d.,]*)</td>', cells)]
    shown = re.findall(r'<th scope="col" class="num">([^<]+)</th>', table.partition("</thead>")[0])
    reason = re.findall(r"<td>([^<]*)</td>", cells)[-1].replace(" ", "_")
    state = next(readers._STATES[name] for name in readers._STATES if f"<td>{name}</td>" in cells)
    return Said(value=dict(zip(shown, values)), state=state, reason=reason, revision=label)


def _moment_in(cells: str) -> str:
    moment = re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", cells)
    assert moment
    return moment[0]


def duckdb_macro(number: Number) -> Said:
    """``NAME_asof(TIME)`` in DuckDB, from the file that ``lakehouse gold views`` writes."""
    query = f"SELECT * FROM {number.table}_asof(TIMESTAMPTZ '{_as_of(number)}') WHERE period = '{number.period}'"
    rows = readers.duckdb_rows(number, query)
    head = rows[0]
    return Said(number.totals(list(rows)), head["state"], head["reason"], f"r{head['revision']}")


EARLIER: dict[str, Reader] = {
    "the table": delta_table,
    "gold show --version": gold_show,
    "gold show --version --json": gold_show_json,
    "gold diff": gold_diff,
    "gold compare": gold_compare,
    "GET /metrics": api_number,
    "GET /series": api_series,
    "GET /compare": api_compare,
    "GET /lineage": api_lineage,
    "its list of revisions": story_steps,
    "the DuckDB function": duckdb_macro,
}


def _failed(text: str) -> tuple[str, ...]:
    """The checks in the sentence about a held number; empty if it is not there."""
    matched = re.search(r"it failed ([a-z_, ]+?);", text)
    return tuple(sorted(matched[1].split(", "))) if matched else ()


def checked_by_dagster(number: Number) -> Said:
    """The newest evaluation of each blocking check of the period, in Dagster."""
    start = next(row[name] for row in _rows(number) for name in ("event_date", "week_start", "period_start") if name in row)
    key = dg.AssetKey(["gold", number.table])
    with dg.DagsterInstance.get() as instance:
        wanted = dg.EventRecordsFilter(dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        records = instance.get_event_records(wanted, ascending=True)
    newest: dict[str, Any] = {}
    for record in records:
        event = record.event_log_entry.dagster_event
        assert event is not None
        evaluation = event.asset_check_evaluation_data
        if evaluation.asset_key == key and evaluation.partition == f"{start}":
            newest[evaluation.check_name] = evaluation
    blocking = {"change", "row_count", "totals_equal_silver", "nulls", "range"}
    failed = [name for name, one in newest.items() if not one.passed and one.severity is dg.AssetCheckSeverity.ERROR]
    return Said(failed=tuple(sorted(name for name in failed if name in blocking)))


def _rows(number: Number) -> list[dict[str, Any]]:
    table = DeltaTable(f"{number.sample.lake.root}/gold/{number.table}").to_pyarrow_table()
    return [row for row in table.to_pylist() if row["period"] == number.period]


def shown_as_held(number: Number) -> Said:
    """``lakehouse gold show``: the checks for which a newer number is held."""
    return Said(failed=_failed(number.sample.typed("gold", "show", number.metric, number.period)))


def listed_as_held(number: Number) -> Said:
    """``lakehouse gold held --json``: the failed checks of the period, if it is listed."""
    lines = [json.loads(line) for line in number.sample.typed("gold", "held", number.metric, "--json").splitlines()]
    about = [line for line in lines if (line.get("series"), line.get("period")) == (number.table, number.period)]
    failed = [name for line in about for name in line.get("failed", ())]
    return Said(failed=tuple(sorted(failed)))


def held_in_api(number: Number) -> Said:
    """``GET /metrics/{name}``: the sentence about the held number."""
    return Said(failed=_failed(number.json(f"/metrics/{number.metric}", window=number.period)["held"] or ""))


def held_on_page(number: Number) -> Said:
    """``/page/metrics/{name}/{period}``: the checks in the head of the page."""
    page = (
        number.html(f"/page/metrics/{number.metric}/{number.period}").partition('<div class="head">')[2].partition("<section>")[0]
    )
    matched = re.search(r"A newer number is held back by a check \(([a-z_, ]+)\)", page)
    return Said(failed=tuple(sorted(matched[1].split(", "))) if matched else ())


CHECKS: dict[str, Reader] = {
    "Dagster's checks": checked_by_dagster,
    "gold show": shown_as_held,
    "gold held": listed_as_held,
    "GET /metrics": held_in_api,
    "the page of the number": held_on_page,
}
