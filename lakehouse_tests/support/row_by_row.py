"""What becomes of rows, one Python object a row: the model that the rules on sets of rows are compared with.

``judged`` is the model of ``dispositions.judged_rows``, ``outcomes`` that of ``dispositions.winners``, ``shares`` that of
``dispositions.claims``, ``account`` that of ``dispositions.account``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from lakehouse.calendar.days import lateness
from lakehouse.dispositions.admission import ADMITTED, judge
from lakehouse.dispositions.reprocess_policy import NO_DELIVERY, Share
from lakehouse.ledger import key_log
from lakehouse.ledger.ids import row_id_of
from lakehouse.ledger.row_states import AdmissionStatus, Disposition, QuarantineReason

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import date, datetime, timedelta

    from lakehouse.contracts.source import SourceContract
    from lakehouse.dispositions.reprocess_policy import Choice, ReprocessPolicy
    from lakehouse.ledger.decisions import Decision
    from lakehouse.ledger.ids import RowId

Rows = list[dict[str, Any]]


def judged(contract: SourceContract, rows: Rows, failed: Mapping[RowId, list[str]]) -> Rows:
    """The contract's judgement of each row of Bronze: the columns ``key_log.JUDGED``.

    :param failed: the row rules that a row fails.
    """
    zone, result = ZoneInfo(contract.clocks.timezone), []
    for row in rows:
        fails = [] if row["malformed_reason"] is not None else failed.get(row_id_of(row), [])
        judgement = ADMITTED
        if row["malformed_reason"] is None:
            event_type = row[contract.event_type_column]
            bounds = contract.lateness.as_of(None if event_type is None else str(event_type), row["arrival_date"])
            late = lateness(row["event_ts"], row["event_date"], row["arrival_ts"], zone)
            judgement = judge(late, bounds, fails, contract.quality.named_rules)
        result.append(
            {
                "standing": judgement.status.value,
                "reason": judgement.reason.value if judgement.reason else None,
                "detail": judgement.detail,
                "failed_rules": fails,
                "beyond": judgement.beyond,
            }
        )
    return result


@dataclass(frozen=True)
class Claim:
    """The claim of one row about one key: insert, correct, delete, or (by a row of another key) retire."""

    kind: str
    sequence: int
    arrival_ts: datetime
    ingestion_id: str
    line_number: int
    event_date: date | None
    source_order: str | None = None
    redelivered_at: datetime | None = None
    delivery: Any = None

    @property
    def row(self) -> RowId:
        """The row that makes the claim."""
        return self.ingestion_id, self.line_number

    @property
    def order(self) -> tuple[int, bytes, datetime, Any, int]:
        """The place in the total order of R2; a greater one is newer."""
        at = max(self.arrival_ts, self.redelivered_at or self.arrival_ts)
        return self.sequence, (self.source_order or "").encode(), at, self.delivery or self.ingestion_id, self.line_number

    @property
    def lives(self) -> bool:
        """Whether it puts a row into silver if it wins."""
        return self.kind in {"insert", "correct"}


@dataclass(frozen=True)
class Outcome:
    """What became of a row, the row that outranks it, and the contract's judgement of it."""

    disposition: Disposition
    because: str
    outranked_by: RowId | None = None
    lives: bool = False
    admission: AdmissionStatus | None = None
    reason: QuarantineReason | None = None
    detail: str | None = None


def winner(claims: Sequence[Claim], *, by_sequence: bool) -> Claim:
    """The winner among all claims about one key (R2).

    :param by_sequence: whether the source numbers its changes. Where it does not, an insert that arrives after the retirement
        of its key is the original arriving late, and does not count.
    """
    greatest = max(claims, key=lambda claim: claim.order)
    if by_sequence:
        return greatest
    changes = [claim for claim in claims if claim.kind != "insert"]
    newest_change = max(changes, key=lambda claim: claim.order, default=None)
    return newest_change if newest_change is not None and newest_change.kind == "retire" else greatest


def outcomes(
    policy: ReprocessPolicy,
    log: Rows,
    decided: Mapping[RowId, Decision],
    chosen: Mapping[date, Choice],
    content: Mapping[RowId, Any],
    again: Mapping[str, datetime],
    place: Mapping[str, Any] | None = None,
) -> dict[RowId, Outcome]:
    """What became of each row whose own key is in a part of the key log that is complete for its keys.

    :param content: the content of each row; a row without one is equal to none.
    :param again: when some ingestions were delivered again.
    :param place: the place of each ingestion among the deliveries; by default its name.
    """
    result: dict[RowId, Outcome] = {}
    contests: dict[Any, list[tuple[Claim, dict[str, Any]]]] = defaultdict(list)
    for row in log:
        names = ("kind", "source_sequence", "arrival_ts", "ingestion_id", "line_number", "event_date", "source_order")
        claim = Claim(*(row[name] for name in names), again.get(row["ingestion_id"]), (place or {}).get(row["ingestion_id"]))
        status, decision = AdmissionStatus(row["standing"]), decided.get(claim.row)
        disposition = status.barred_as if decision is None else decision.verdict.barred_as
        if disposition is not None:
            because = "a steward's decision" if decision is not None else row["detail"] or "the contract's rule"
            outcome: Outcome | None = Outcome(disposition, because, **_by_contract(row))
        else:
            outcome = _excluded(policy, claim, row, chosen)
        if outcome is not None:
            if claim.kind != "retire":
                result[claim.row] = outcome
        elif not policy.keys_contend:
            result[claim.row] = Outcome(Disposition.APPLIED, "lives", lives=True, **_by_contract(row))
        else:
            contests[row["record_key"], claim.event_date if policy.contends_per_day else None].append((claim, row))
    for contest in contests.values():
        result |= _of_contest(policy, contest, content)
    return result


def _by_contract(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "admission": AdmissionStatus(row["standing"]),
        "reason": row["reason"] and QuarantineReason(row["reason"]),
        "detail": row["detail"],
    }


def _excluded(policy: ReprocessPolicy, claim: Claim, row: Mapping[str, Any], chosen: Mapping[date, Choice]) -> Outcome | None:
    if not policy.chooses_deliveries:
        return None
    choice = chosen[claim.event_date] if claim.event_date else NO_DELIVERY
    if claim.ingestion_id in choice.counting:
        return None
    if claim.ingestion_id in choice.held:
        whole = "the table" if policy.chooses_for_table else claim.event_date
        because = f"its delivery would shrink {whole} by more than {policy.max_shrink:.0%}"
        held = {"reason": QuarantineReason.SHRUNKEN_PARTITION, "detail": because}
        return Outcome(Disposition.QUARANTINED, because, **_by_contract(row) | held)
    whole = "table" if policy.chooses_for_table else "day"
    return Outcome(Disposition.SUPERSEDED, f"a newer delivery is the whole truth for the {whole}", **_by_contract(row))


def _of_contest(
    policy: ReprocessPolicy, contest: Sequence[tuple[Claim, dict[str, Any]]], content: Mapping[RowId, Any]
) -> dict[RowId, Outcome]:
    winning = winner([claim for claim, _ in contest], by_sequence=policy.by_sequence)
    newest_first = sorted((pair for pair in contest if pair[0].kind != "retire"), key=lambda pair: pair[0].order, reverse=True)
    result: dict[RowId, Outcome] = {}
    for rank, (claim, row) in enumerate(newest_first):
        says = content.get(claim.row)
        equal = next((one for one, _ in newest_first[:rank] if says is not None and content.get(one.row) == says), None)
        if claim == winning:
            because = "lives" if claim.lives else "ended its key"
            outcome = Outcome(Disposition.APPLIED, because, lives=claim.lives, **_by_contract(row))
        elif equal is not None:
            outcome = Outcome(Disposition.DUPLICATE, "a newer record says the same", equal.row, **_by_contract(row))
        elif policy.one_event and claim.kind == "insert" and winning.lives:
            because = "the same event, by its synthetic key"
            outcome = Outcome(Disposition.DUPLICATE, because, winning.row, **_by_contract(row))
        elif winning.kind == "retire":
            because = "its key was corrected under another one"
            outcome = Outcome(Disposition.SUPERSEDED, because, winning.row, **_by_contract(row))
        else:
            rival = "a newer record" if winning.lives else "a delete"
            was_here = winning.arrival_ts < claim.arrival_ts
            because = f"{rival} counts{', which was here before it' if was_here else ''}"
            if winning.lives and winning.order[:3] == claim.order[:3] and winning.ingestion_id != claim.ingestion_id:
                because = "tie, decided by delivery: the later one counts"
            elif winning.lives and was_here and winning.order[2] > winning.arrival_ts:
                because = "an older record was delivered again, and counts again"
            outcome = Outcome(Disposition.SUPERSEDED, because, winning.row, **_by_contract(row))
        result[claim.row] = outcome
    return result


def shares(
    log: Rows, decided: Mapping[RowId, Decision], delivered: Mapping[str, Collection[tuple[str, date, datetime | None]]]
) -> dict[date, list[Share]]:
    """The shares of the deliveries in each event day.

    :param delivered: by ingestion, the deliveries to which it belongs, with their arrival days, and when they came if they came
        again; by default its arrival day.
    """
    by_day: dict[date, list[Share]] = defaultdict(list)
    placed: dict[tuple[date, str], list[tuple[date, datetime | None, dict[str, Any]]]] = defaultdict(list)
    for row in log:
        if row["event_date"] is not None:
            own = (f"{row['arrival_date']}", row["arrival_date"], None)
            for delivery, arrival, again_at in delivered.get(row["ingestion_id"]) or [own]:
                placed[row["event_date"], delivery].append((arrival, again_at, row))
    for (day, delivery), rows in placed.items():
        newest, count, accepted = None, 0, False
        for _, _, row in rows:
            decision = decided.get(row_id_of(row))
            admits = decision.admits if decision is not None else row["standing"] == AdmissionStatus.ADMITTED.value
            count += admits or decision is not None  # it contained a rejected row: that must not bring an older one back
            accepted |= decision is not None and decision.admits and decision.about_file
            if admits:
                order = row["source_sequence"], row["source_order"] or "", row["arrival_ts"]
                newest = order if newest is None else max(newest, order)
        if newest is not None:
            arrived = max([newest[2], *(again_at for _, again_at, _ in rows if again_at is not None)])
            order = (*newest[:2], max(arrival for arrival, _, _ in rows), arrived, delivery)
            by_day[day].append(Share(delivery, frozenset(row["ingestion_id"] for _, _, row in rows), count, order, accepted))
    return by_day


def account(bronze: Rows, of_rows: Mapping[RowId, Outcome], decided: Mapping[RowId, Decision]) -> Rows:
    """The account of rows of Bronze, by arrival day, file and line."""
    result = []
    files = {row["ingestion_id"]: row["source_file"] for row in bronze}
    for row in bronze:
        outcome, decision = of_rows.get(row_id_of(row)), decided.get(row_id_of(row))
        if row["malformed_reason"] is not None:
            outcome = Outcome(Disposition.MALFORMED, row["malformed_reason"])
        assert outcome is not None, "the key log covers Bronze"
        rival = outcome.outranked_by
        described = (
            decision and f"{decision.verdict.participle} by {decision.by} on {decision.decided_at:%Y-%m-%d}: {decision.reason}"
        )
        result.append(
            {name: value for name, value in row.items() if name != "malformed_reason"}
            | {
                "disposition": outcome.disposition.value,
                "because": outcome.because,
                "decided_by": f"{files[rival[0]]}:{rival[1]}" if rival else None,
                "decision": described,
                "lives": outcome.lives,
                "admission": outcome.admission and outcome.admission.value,
                "reason": outcome.reason and outcome.reason.value,
                "detail": outcome.detail,
            }
        )
    return sorted(result, key=lambda row: (row["arrival_date"], row["source_file"], row["line_number"]))


def judged_otherwise(recorded: Rows, rows: Rows) -> Rows:
    """The claims of rows whose judgement is not the recorded one."""

    def judgement(claim: Mapping[str, Any]) -> list[Any]:
        return [claim[name] for name in key_log.JUDGED]

    before = {row_id_of(claim): judgement(claim) for claim in recorded}
    changed = {
        row_id_of(claim)
        for claim in rows
        if claim["kind"] != "retire" and before.get(row_id_of(claim), judgement(claim)) != judgement(claim)
    }
    return [claim for claim in rows if row_id_of(claim) in changed]


def judgement_counts(log: Rows) -> tuple[Counter[date], Counter[date], Counter[tuple[date, str]]]:
    """By arrival day: sound rows, rows beyond the watermark, and (also by name) rows that fail a row rule."""
    rows = [row for row in log if row["kind"] != "retire"]
    failed = Counter((row["arrival_date"], name) for row in rows for name in row["failed_rules"] or [])
    return Counter(row["arrival_date"] for row in rows), Counter(row["arrival_date"] for row in rows if row["beyond"]), failed


def quarantine(
    of_account: Rows,
    bronze: Rows,
    decided: Mapping[RowId, Decision],
    existing: Mapping[RowId, Mapping[str, Any]],
    redacted: Mapping[str, Collection[str]],
    review_within: timedelta,
) -> dict[RowId, dict[str, Any]]:
    """The quarantine's entries for those rows of the account that are or were in it.

    :param bronze: the columns of these rows.
    :param existing: the entries that are in the table.
    """
    columns_of, entries = {row_id_of(row): row for row in bronze}, {}
    for row in of_account:
        row_id = row_id_of(row)
        is_open, before, decision = row["disposition"] == "quarantined", existing.get(row_id), decided.get(row_id)
        if not (is_open or row["admission"] == "quarantined" or before):
            continue
        columns = dict(columns_of[row_id])
        for name, keys in redacted.items():
            if row["record_key"] in keys:
                columns |= {name: None, "raw_payload": None}
        closed = decision.verdict.status.value if decision else "released"
        entries[row_id] = columns | {
            "quarantine_reason": row["reason"] or (before or {}).get("quarantine_reason"),
            "quarantine_detail": row["because"] if is_open else row["detail"] or (before or {}).get("quarantine_detail"),
            "quarantine_since": columns["arrival_ts"],
            "quarantine_review_by": columns["arrival_ts"] + review_within,
            "quarantine_status": "open" if is_open else closed,
            "quarantine_decided_by": decision.by if decision else None,
            "quarantine_decided_at": decision.decided_at if decision else None,
            "quarantine_decision": decision.reason if decision else None,
        }
    return entries
