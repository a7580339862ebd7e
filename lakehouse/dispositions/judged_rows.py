"""Rows of Bronze with the contract's judgement of each: ``admission`` on a set of rows (Arrow in, Arrow out).

A row is judged by its own columns alone, so any set of rows may be judged together. No cutoff applies to a correction that a
person entered. The rule itself runs once for each distinct case: the bounds in force, the row rules that fail, and the lateness
as far as its text shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.dispositions.admission import MARKER, judge
from lakehouse.dispositions.winners import cases, groups, numpy_of
from lakehouse.lateness import measurement
from lakehouse.lateness.measurement import are_late, lags, microseconds
from lakehouse.ledger import ingestions, key_log
from lakehouse.text import DURATION_UNITS, DURATION_UNITS_SHOWN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from lakehouse.contracts.source import SourceContract
    from lakehouse.contracts.source_rules import Lateness
    from lakehouse.dispositions.winners import Numbers

_SECOND = 1_000_000


def columns_to_judge(contract: SourceContract) -> list[str]:
    """The columns of Bronze that :func:`judged` needs, and those that the key log copies."""
    more = [contract.event_type_column, *([contract.marker.column] if contract.marker else [])]
    return list(dict.fromkeys([*key_log.BRONZE_COLUMNS, "event_ts", "source_file", *more]))


def failure_column(rule: str) -> str:
    """The boolean column that holds whether a row fails a row rule; NULL or a missing column means no failure."""
    return f"fails_{rule}"


def judged(contract: SourceContract, rows: pa.Table, history: pa.Array | None = None) -> pa.Table:
    """Rows as the key log expects them: columns ``BRONZE_COLUMNS`` and ``JUDGED``, in the order of the rows, and those of
    ``lateness.measurement.clocked``.

    :param rows: :func:`columns_to_judge`, and a :func:`failure_column` for each row rule that any of them fails. Malformed rows
        are not judged: they make no claim, and are returned as admitted.
    :param history: the ingestions whose rows a person has admitted as history: no cutoff applies to them.
    """
    rules = [name for name in contract.quality.named_rules if failure_column(name) in rows.column_names]
    sound = pc.is_null(rows["malformed_reason"])
    markers = pc.and_(sound, measurement.are_marker_records(contract, rows))
    judged_by_rules = pc.and_not(sound, markers)
    failures = [pc.and_(judged_by_rules, pc.fill_null(rows[failure_column(name)], False)) for name in rules]
    bounds, bounds_of_row = _bounds(contract, rows)
    watermarks = [None if one.watermark is None else microseconds(one.watermark) for one in bounds]
    late: pa.ChunkedArray = pa.chunked_array([pa.nulls(len(rows), pa.int64())])
    if any(watermark is not None for watermark in watermarks):
        held_against = pc.and_not(judged_by_rules, ingestions.are_by_hand(rows["source_file"]))
        if history is not None:
            held_against = pc.and_not(held_against, pc.is_in(rows["ingestion_id"], value_set=history))
        late = pc.if_else(held_against, lags(rows, contract), pa.scalar(None, pa.int64()))
    beyond = are_late(late, pa.array(watermarks, pa.int64()).take(pa.array(bounds_of_row)))
    shown = np.where(numpy_of(beyond), _shown_seconds(numpy_of(pc.fill_null(late, 0)) // _SECOND), -1)
    case_of_row = groups(pa.array(bounds_of_row), pa.array(shown), markers, *failures)
    judgements, failed_rules = [], []
    each_case = cases(case_of_row, pa.array(bounds_of_row), late.cast(pa.duration("us")), markers, *failures)
    for number, lateness, is_marker, *fails in each_case:
        failed = [name for name, is_failed in zip(rules, fails) if is_failed]
        judgements.append(MARKER if is_marker else judge(lateness, bounds[number], failed, contract.quality.named_rules))
        failed_rules.append(failed)
    answers: dict[str, list[Any]] = {
        "standing": [judgement.status.value for judgement in judgements],
        "reason": [judgement.reason.value if judgement.reason else None for judgement in judgements],
        "detail": [judgement.detail for judgement in judgements],
        "failed_rules": failed_rules,
        "beyond": [judgement.beyond for judgement in judgements],
    }
    clocked = measurement.clocked(contract, rows, sound)
    judgement = _spread(rows.select(key_log.BRONZE_COLUMNS), answers, case_of_row)
    return pa.table([*judgement.columns, *clocked.columns], names=[*judgement.column_names, *clocked.column_names])


def _spread(rows: pa.Table, answers: Mapping[str, list[Any]], case_of_row: Numbers) -> pa.Table:
    """The rows with the results of their cases, as columns ``JUDGED``."""
    places = pa.array(case_of_row)
    for name in key_log.JUDGED:
        kind = key_log.SCHEMA.field(name).type
        rows = rows.append_column(pa.field(name, kind), pa.array(answers[name], kind).take(places))
    return rows


def _bounds(contract: SourceContract, rows: pa.Table) -> tuple[list[Lateness], Numbers]:
    """The distinct bounds of lateness in force for the rows, and for each row the index of its bounds."""
    by_day = rows["arrival_date"]
    by_type = rows[contract.event_type_column] if contract.lateness.by else pa.nulls(len(rows), pa.string())
    pair_of_row = groups(by_day, by_type)
    bounds: dict[tuple[timedelta | None, str], tuple[int, Lateness]] = {}
    numbers = []
    for day, event_type in cases(pair_of_row, by_day, by_type):
        one = contract.lateness.as_of(None if event_type is None else str(event_type), day)
        numbers.append(bounds.setdefault((one.watermark, one.beyond), (len(bounds), one))[0])
    return [one for _, one in bounds.values()], np.array(numbers, np.int64)[pair_of_row]


def _shown_seconds(seconds: Numbers) -> Numbers:
    """The part of durations that ``text.format_duration`` shows, so that equal texts are formatted once."""
    shown, rest = np.zeros_like(seconds), seconds
    units_left = np.full(len(seconds), DURATION_UNITS_SHOWN)
    for _, length in DURATION_UNITS:
        rest, counted = rest % length, rest - rest % length
        is_shown = (counted > 0) & (units_left > 0)
        shown = shown + np.where(is_shown, counted, 0)
        units_left = units_left - is_shown
    return shown
