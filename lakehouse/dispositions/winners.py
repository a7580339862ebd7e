"""The claim that wins each key (rule R2), and the dispositions of the rows that make the claims (rule R4): Arrow in, Arrow out.

The rules are correct for any set of claims that is complete for its keys, so that a large set may be partitioned by key. Claims
are read from ``ledger.key_log``; Spark chooses the same winners in ``silver.admitted_claims``. Other rules on sets of rows use
the building blocks here: rows with equal values as numbers, and rows looked up by their ids.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.delta.columns import ORDER
from lakehouse.dispositions import reprocess_policy
from lakehouse.ledger.row_states import Disposition, QuarantineReason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import date

    from numpy.typing import NDArray

    from lakehouse.dispositions.reprocess_policy import Choice, ReprocessPolicy, RowVerdict


if TYPE_CHECKING:
    Numbers: TypeAlias = NDArray[np.int64]
    Column: TypeAlias = pa.Array | pa.ChunkedArray

#: Less than the place of any value.
_BEFORE_ALL = -1
#: Above every line number of a file.
_LINES = 1 << 40


def groups(*columns: Column) -> Numbers:
    """The group of each row by its values in ``columns``; the groups are numbered from 0 by their first rows.

    NULL equals NULL. The time is that of hashing each column once, the memory 8 bytes per row and column.
    """
    first, *others = columns
    numbers = _distinct_values(first)
    for column in others:
        values = _distinct_values(column)
        numbers = _distinct_values(pa.array(numbers * (values.max(initial=0) + 1) + values))
    return numbers


def first_rows(numbers: Numbers) -> Numbers:
    """The position of the first row of each group."""
    first = np.empty(numbers.max(initial=-1) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # of several values for one place, the last one stays
    return first


def cases(numbers: Numbers, *columns: Column) -> Iterator[tuple[Any, ...]]:
    """The values of the first row of each group."""
    first = pa.array(first_rows(numbers))
    return zip(*(column.take(first).to_pylist() for column in columns))


def positions(rows: pa.Table, among: pa.Table) -> pa.Array:
    """The position of each row's id (``ingestion_id``, ``line_number``) in the table ``among``; NULL where it is missing."""
    ingestions = pc.unique(among["ingestion_id"])
    return pc.index_in(_row_numbers(rows, ingestions), value_set=_row_numbers(among, ingestions))


def content_numbers(rows: pa.Table) -> pa.Array:
    """A number for each row, equal for rows with equal values in all columns; NULL for a row that is equal to no other.

    A row with a NaN is equal to none, as NaN is not equal to itself. Columns are compared one after the other, each only for rows
    that have been equal to another one so far.
    """
    floats = [column for column in rows.columns if pa.types.is_floating(column.type)]
    comparable = np.ones(len(rows), bool)
    for column in floats:
        comparable &= ~numpy_of(pc.fill_null(pc.is_nan(column), False))
    equal, number = np.flatnonzero(comparable), np.zeros(int(comparable.sum()), np.int64)
    for column in sorted(rows.columns, key=lambda column: pa.types.is_string(column.type)):  # text costs most
        values = column if len(equal) == len(rows) else column.take(pa.array(equal))
        if pa.types.is_floating(column.type):
            values = pc.add(values, pa.scalar(0.0, column.type))  # -0.0 becomes 0.0, to which it is equal
        number = groups(pa.array(number), values)
        is_shared = np.bincount(number)[number] > 1 if len(number) else np.zeros(0, bool)
        equal, number = equal[is_shared], number[is_shared]
    numbers = np.full(len(rows), -1)
    numbers[equal] = number
    return pa.array(numbers, mask=numbers < 0)


def numpy_of(column: Column) -> NDArray[Any]:
    """A column of numbers, times or booleans without NULL; times are microseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    return cast("NDArray[Any]", column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy())


def sortable(column: Column) -> NDArray[Any]:
    """Numbers in the order of a column's values: texts are ordered by their UTF-8 bytes, NULL comes first."""
    if not (pa.types.is_string(column.type) or pa.types.is_null(column.type)):
        return numpy_of(column)
    if column.null_count == len(column):
        return np.zeros(len(column), np.int64)
    distinct = pc.unique(column).drop_null()
    in_order = distinct.take(pc.sort_indices(distinct))
    return numpy_of(pc.fill_null(pc.index_in(column, value_set=in_order), _BEFORE_ALL))


def _row_numbers(rows: pa.Table, ingestions: pa.Array) -> pa.Array:
    """A number for each row id; NULL for a row of another ingestion."""
    of_ingestion = pc.index_in(rows["ingestion_id"], value_set=ingestions).cast(pa.int64())
    numbers = pc.add(pc.multiply(of_ingestion, _LINES), rows["line_number"])
    return numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers


def _distinct_values(column: Column) -> Numbers:
    """The number of each value among the distinct values of a column, by first appearance."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    chunks = encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded]
    parts = [chunk.indices.to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)


#: The columns of the key log by which claims are compared (see ``deliveries.ordered``), and what a winner does.
RANKED = (
    *("record_key", "kind", "event_date", "source_sequence", "source_order", "arrival_ts"),
    *("ingestion_id", "line_number", "arrival_date"),
)
#: Of the key log, with ``steward``: the verdict in force about the row, NULL without one.
CLAIM_COLUMNS = (*RANKED, "standing", "reason", "detail", "steward")
#: The kinds of claims that put a row into silver if they win.
LIVING_KINDS = ("insert", "correct")
#: ``outranked_by`` is the row that outranks the row; ``admission`` to ``detail`` are the contract's judgement of it.
SCHEMA = pa.schema(
    [
        ("ingestion_id", pa.string()),
        ("line_number", pa.int64()),
        ("disposition", pa.string()),
        ("because", pa.string()),
        ("lives", pa.bool_()),
        ("outranked_by_ingestion", pa.string()),
        ("outranked_by_line", pa.int64()),
        ("admission", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ]
)
_NONE = -1
_KINDS = (*LIVING_KINDS, "delete", "retire")
_INSERT, _CORRECT, _DELETE, _RETIRE = range(len(_KINDS))


def dispositions(
    claims: pa.Table, policy: ReprocessPolicy, chosen: Mapping[date, Choice], contents: Callable[[pa.Table], pa.Array]
) -> pa.Table:
    """The disposition of each row whose own key is in a set of claims: columns :data:`SCHEMA`, in the order of the claims.

    :param claims: every claim about a set of keys, whether its row is admitted or not: columns :data:`CLAIM_COLUMNS`, in the
        order of their deliveries.
    :param chosen: the choice of each event day, if the policy chooses deliveries.
    :param contents: returns a number for the content of each given claim: the same number for rows of one key with equal content,
        NULL where the content is unknown or equal to no other. It is called with the claims of contested keys only.
    """
    known = list(reprocess_policy.CONTEST)
    verdict_of, outranked_by = np.full(len(claims), _NONE), np.full(len(claims), _NONE)

    def judge_cases(rule: Callable[..., RowVerdict | None], *columns: str) -> Numbers:
        """Give the rows without a verdict the verdict of ``rule`` on ``columns``; returns the rows that got one."""
        rows = np.flatnonzero(verdict_of == _NONE)
        verdict_of[rows] = _of_cases(known, rule, *_at(claims.select(columns), rows).columns)
        judged: Numbers = rows[verdict_of[rows] != _NONE]
        return judged

    judge_cases(reprocess_policy.barred, "standing", "detail", "steward")
    excluded = np.empty(0, np.int64)
    if policy.chooses_deliveries:
        excluded = judge_cases(partial(policy.excluded, chosen=chosen), "event_date", "ingestion_id")
    rows = np.flatnonzero(verdict_of == _NONE)
    if policy.keys_contend:
        verdict_of[rows], outranked_by[rows] = _contend(claims, rows, policy, contents)
    else:
        verdict_of[rows] = _LIVES
    is_held = np.zeros(len(claims), bool)
    holds = np.array([verdict.disposition is Disposition.QUARANTINED for verdict in known])
    is_held[excluded] = holds[verdict_of[excluded]]
    return _as_table(claims, known, verdict_of, outranked_by, is_held)


def winners(claims: pa.Table, *, by_sequence: bool, each_day: bool = False) -> pa.Table:
    """The claim that wins each key (R2), with ``retired``: whether any claim retires the key.

    :param claims: every admitted claim about a set of keys: columns :data:`RANKED`, in the order of their deliveries; other
        columns are kept.
    :param each_day: whether the claims about a key are compared on each event day separately.
    """
    contest = groups(*claims.select(["record_key", "event_date"][: 1 + each_day]).columns)
    ranking = _ranking(claims, contest, by_sequence=by_sequence)
    retired = np.logical_or.reduceat(ranking.kind == _RETIRE, ranking.starts) if len(claims) else np.empty(0, bool)
    won = claims.take(pa.array(ranking.order[ranking.winner]))
    return won.append_column("retired", pa.array(retired))


class _Ranking(NamedTuple):
    """Claims by contest, and within each contest by the total order.

    ``order`` has their positions; ``contest`` and ``kind`` belong to the claims in this order. ``starts`` has the places of the
    first claim of each contest, ``winner`` the places of the winners.
    """

    order: Numbers
    contest: Numbers
    kind: Numbers
    starts: Numbers
    winner: Numbers


def _ranking(claims: pa.Table, contest: Numbers, *, by_sequence: bool) -> _Ranking:
    """Rank claims and choose the winner of each contest (R2).

    Without a source sequence, an insert that arrives after the retirement of its key is the original arriving late, and does not
    win.
    """
    # Within each contest by the total order: lexsort takes the most significant column last.
    order = np.lexsort((*(sortable(claims[name]) for name in reversed(ORDER)), contest))
    contest, kind = contest[order], _kinds(claims)[order]
    starts = np.flatnonzero(np.diff(contest, prepend=_NONE))
    winner = np.append(starts[1:], len(order)) - 1 if len(order) else starts
    if not by_sequence and len(order):
        newest_change = np.maximum.reduceat(np.where(kind != _INSERT, np.arange(len(order)), _NONE), starts)
        is_retired = (newest_change != _NONE) & (kind[newest_change] == _RETIRE)
        winner = np.where(is_retired, newest_change, winner)
    return _Ranking(order, contest, kind, starts, winner)


def _of_cases(known: list[RowVerdict], rule: Callable[..., RowVerdict | None], *columns: Column) -> Numbers:
    """The number of each row's verdict by ``rule`` on ``columns``; -1 where the rule gives none.

    :param known: the verdicts by number; new verdicts of the rule are appended.
    """
    case_of_row = groups(*columns)
    numbers = []
    for case in cases(case_of_row, *columns):
        verdict = rule(*case)
        numbers.append(_NONE if verdict is None else len(known))
        known += [] if verdict is None else [verdict]
    return np.array(numbers, np.int64)[case_of_row]


def _contend(
    claims: pa.Table, rows: Numbers, policy: ReprocessPolicy, contents: Callable[[pa.Table], pa.Array]
) -> tuple[Numbers, Numbers]:
    """The verdicts of claims that contend for their keys, by number, and the claim that outranks each; -1 if none does.

    :param rows: the positions of these claims.
    """
    contest = groups(*_at(claims.select(["record_key", "event_date"][: 1 + policy.contends_per_day]), rows).columns)
    verdict_of = _applied(_kinds(_at(claims.select(["kind"]), rows)))
    outranked_by = np.full(len(rows), _NONE)
    contested = np.flatnonzero(np.bincount(contest)[contest] > 1) if len(rows) else rows
    if len(contested):
        verdict_of[contested], rivals = _ranked(_at(claims, rows[contested]), contest[contested], policy, contents)
        outranked_by[contested] = np.where(rivals == _NONE, _NONE, rows[contested][rivals])
    return verdict_of, outranked_by


def _ranked(
    claims: pa.Table, contest: Numbers, policy: ReprocessPolicy, contents: Callable[[pa.Table], pa.Array]
) -> tuple[Numbers, Numbers]:
    """The result of :func:`_contend` for claims that each have a rival; the second result has positions among ``claims``."""
    order, contest, kind, starts, winner = _ranking(claims, contest, by_sequence=policy.by_sequence)
    place = np.arange(len(order))
    winner = np.repeat(winner, np.diff(np.append(starts, len(order))))
    newest_equal = _newest_equal(contest, contents(claims).take(pa.array(order)), kind != _RETIRE)
    wins, says_the_same, winner_lives = place == winner, newest_equal > place, _lives(kind[winner])
    arrived, ordered_at = (numpy_of(claims[name])[order] for name in ("arrival_ts", "ordered_at"))
    was_here = arrived[winner] < arrived
    by_delivery = _ordered_alike(claims, order, winner)
    verdict_of = np.select(
        [
            wins,
            says_the_same,
            policy.one_event & (kind == _INSERT) & winner_lives,
            kind[winner] == _RETIRE,
            winner_lives,
        ],
        [
            _applied(kind),
            _number(reprocess_policy.SAYS_THE_SAME),
            _number(reprocess_policy.SAME_EVENT),
            _number(reprocess_policy.RETIRED),
            np.select(
                [by_delivery, was_here & (ordered_at[winner] > arrived[winner]), was_here],
                [
                    _number(reprocess_policy.LATER_DELIVERY),
                    _number(reprocess_policy.TAKEN_BACK),
                    _number(reprocess_policy.NEWER_RECORD_WAS_HERE),
                ],
                _number(reprocess_policy.NEWER_RECORD),
            ),
        ],
        np.where(was_here, _number(reprocess_policy.DELETE_WAS_HERE), _number(reprocess_policy.DELETED)),
    )
    rival = np.where(wins, _NONE, order[np.where(says_the_same, newest_equal, winner)])
    back = np.argsort(order)
    return verdict_of[back], rival[back]


def _ordered_alike(claims: pa.Table, order: Numbers, winner: Numbers) -> NDArray[np.bool_]:
    """Whether each claim has the same order values as the winner of its contest, and comes from another delivery.

    :param order: the positions of the claims; ``winner`` are places in it.
    """
    columns = [sortable(claims[name])[order] for name in ORDER[:-1]]
    alike = np.logical_and.reduce([column == column[winner] for column in columns[:-1]])
    by_another: NDArray[np.bool_] = alike & (columns[-1] != columns[-1][winner])
    return by_another


def _newest_equal(contest: Numbers, content: pa.Array, makes_row: NDArray[np.bool_]) -> Numbers:
    """The position of the newest claim in the same contest with the same content, for claims from the oldest to the newest.

    :param makes_row: whether the claim is about its row's own key, and so has content.
    """
    newest = np.arange(len(contest))
    compared = np.flatnonzero(makes_row & numpy_of(pc.is_valid(content)))
    equal = groups(pa.array(contest[compared]), content.take(pa.array(compared)))
    newest_of = np.empty(len(compared), np.int64)
    newest_of[equal] = compared  # of several values for one place, the last one stays: the newest
    newest[compared] = newest_of[equal]
    return newest


def _as_table(
    claims: pa.Table, known: list[RowVerdict], verdict_of: Numbers, outranked_by: Numbers, is_held: NDArray[np.bool_]
) -> pa.Table:
    """The verdicts as columns :data:`SCHEMA`.

    :param is_held: whether the row is quarantined with its whole file, which the contract's judgement does not show.
    """
    makes_row = pc.not_equal(claims["kind"], _KINDS[_RETIRE])
    number = pa.array(verdict_of).filter(makes_row.combine_chunks())
    rival = pa.array(outranked_by, mask=outranked_by == _NONE).filter(makes_row.combine_chunks())
    held = pa.array(is_held).filter(makes_row.combine_chunks())
    rows = claims.filter(makes_row)
    because = pa.array([verdict.because for verdict in known], pa.string()).take(number)
    held_reason = pa.scalar(QuarantineReason.SHRUNKEN_PARTITION.value)
    columns = {
        "ingestion_id": rows["ingestion_id"],
        "line_number": rows["line_number"],
        "disposition": pa.array([verdict.disposition.value for verdict in known], pa.string()).take(number),
        "because": because,
        "lives": pa.array([verdict.lives for verdict in known]).take(number),
        "outranked_by_ingestion": claims["ingestion_id"].take(rival),
        "outranked_by_line": claims["line_number"].take(rival),
        "admission": rows["standing"],
        "reason": pc.if_else(held, held_reason, rows["reason"]),
        "detail": pc.if_else(held, because, rows["detail"]),
    }
    return pa.table(columns).cast(SCHEMA)


def _at(rows: pa.Table, positions: Numbers) -> pa.Table:
    """The rows at ``positions``; the table itself where these are all of its rows."""
    return rows if len(positions) == len(rows) else rows.take(pa.array(positions))


def _kinds(claims: pa.Table) -> Numbers:
    """The kind of each claim, by its place in ``_KINDS``."""
    return numpy_of(pc.index_in(claims["kind"], value_set=pa.array(_KINDS)))


def _lives(kinds: Numbers) -> NDArray[np.bool_]:
    """Whether claims of these kinds put a row into silver if they win."""
    return kinds <= _CORRECT


def _applied(kinds: Numbers) -> Numbers:
    """The number of the verdict on claims of these kinds that win."""
    return np.where(_lives(kinds), _LIVES, _number(reprocess_policy.ENDED_ITS_KEY))


def _number(verdict: RowVerdict) -> int:
    return reprocess_policy.CONTEST.index(verdict)


_LIVES = _number(reprocess_policy.LIVES)
