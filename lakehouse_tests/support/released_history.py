"""A generated history of releases: records of three sources, released labels, training sets, models, promotions and a canary.

:class:`ReleasedHistory` holds it as plain values, can be searched by brute force, and writes itself into a lake without Spark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pyarrow as pa
from deltalake import write_deltalake
from hypothesis import strategies as st

from lakehouse import locations
from lakehouse.contracts import TrainingSetContract
from lakehouse.contracts.source import SourceContract
from lakehouse.delta import leases
from lakehouse.gold.promotion.promotion_log import PromotionKind
from lakehouse.models import canary_log, promotion_log
from lakehouse.models.canary_log import CanaryEntry, CanaryEvent
from lakehouse.models.promotion_log import ModelPromotion, PromotionStep
from lakehouse.snapshots import input_sets
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import Release, ReleaseEvent, ReleaseKind
from lakehouse_tests.support.arrivals import append_claims

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehouse.lake import Lake

START = datetime(2024, 2, 1, tzinfo=timezone.utc)
#: Event days are counted in another time zone than UTC.
ZONE = ZoneInfo("America/New_York")
KEYS = {
    "payments": [f"p{number}" for number in range(6)],
    "chargebacks": [f"c{number}" for number in range(4)],
    "customers": [f'["{name}","2024-01-0{day}T00:00:00.000000Z"]' for name in "ab" for day in (1, 2)],
}
_FIELDS = {
    "payments": ["payment_id", "customer_id"],
    "chargebacks": ["chargeback_id", "payment_id"],
    "customers": ["customer_id", "tier"],
}


def source(name: str) -> SourceContract:
    """The contract of a source; that of chargebacks does not have the payment in its key."""
    keys: dict[str, Any] = {
        "dataset": name,
        "primary_key": [_FIELDS[name][0]],
        "model": {"fields": [{"name": column, "type": "string"} for column in _FIELDS[name]]},
        "source": {"landing": f"{name}.arrival_date={{arrival_date}}*", "start_date": "2024-01-01"},
        "clocks": {"event": "at", "arrival": "arrived_at", "timezone": ZONE.key},
    }
    return SourceContract.model_validate(keys | ({"kind": "dimension"} if name == "customers" else {}))


def set_contract(name: str, *, joins: bool) -> TrainingSetContract:
    """A set about payments, labelled by chargebacks."""
    joined = [{"dimension": "customers", "on": "customer_id", "columns": ["tier"]}]
    return TrainingSetContract.model_validate(
        {
            "training_set": name,
            "entity": {"source": "payments"},
            "features": {"columns": [{"name": "one", "sql": "1", "type": "int"}], "joins": joined if joins else []},
            "label": {"source": "chargebacks", "on": "payment_id", "sql": "max(1)", "default": 0, "maturity": "P1D"},
            "split": {"train": "2024-02-01"},
        }
    )


def moment(hours: int) -> datetime:
    """A time, in hours since the first of February."""
    return START + timedelta(hours=hours)


@dataclass(frozen=True)
class HistoryRecord:
    """A record: its key, its event and arrival in hours, its file, and of a chargeback the payment."""

    source: str
    key: str
    at: int
    arrives: int
    file: str
    payment: str = ""

    @property
    def day(self) -> date:
        """Its event day."""
        return moment(self.at).astimezone(ZONE).date()


@dataclass(frozen=True)
class HistorySet:
    """A training set: of each row the payment, the hour and the customer."""

    name: str
    version: str
    joins: bool
    rows: tuple[tuple[str, int, str], ...]

    @property
    def full_name(self) -> str:
        return f"{self.name}_{self.version}"


@dataclass
class ReleasedHistory:
    """``labels`` has by version the files and the last hour that count, ``models`` by version the set that it learned from."""

    records: list[HistoryRecord]
    labels: dict[str, tuple[frozenset[str], int | None]]
    sets: list[HistorySet]
    models: dict[tuple[str, str], str] = field(default_factory=dict)
    promoted: list[tuple[str, str]] = field(default_factory=list)
    challenger: tuple[str, str] | None = None

    def search(
        self, name: str, keys: Collection[str] = (), payments: Collection[str] = (), days: Collection[date] = ()
    ) -> dict[str, Any]:
        """What keys or days of a source concern, as ``AffectedReleases.as_json`` has it.

        :param payments: what chargebacks name that no record holds yet.
        """
        of_source = [record for record in self.records if record.source == name]
        hit = [record for record in of_source if record.key in keys or record.day in days]
        wanted = {*keys, *(record.key for record in hit)}
        named = {*payments, *(record.payment for record in of_source if record.key in wanted)}
        customers = {json.loads(key)[0] for key in wanted} if name == "customers" else set()
        labels = []
        for version, (files, until) in sorted(self.labels.items()):
            if name == "chargebacks" and any(r.file in files and (until is None or r.arrives <= until) for r in hit):
                labels.append(f"chargebacks_{version}")
        sets = []
        for entry in self.sets:
            count = 0
            for payment, hour, customer in entry.rows:
                on_day = moment(hour).astimezone(ZONE).date() in days
                if (
                    (name == "payments" and (payment in wanted or on_day))
                    or (name == "chargebacks" and payment in named)
                    or (entry.joins and customer in customers)
                ):
                    count += 1
            if count:
                total = len(entry.rows)
                about = {"name": entry.name, "version": entry.version}
                sets.append(about | {"rows": count, "total": total, "share": count / total})
        affected = {f"{entry['name']}_{entry['version']}" for entry in sets}
        live = dict(self.promoted)
        models = [
            {"model": model, "version": version, "training_set": learned_from}
            | {"is_live": live.get(model) == version, "is_challenger": self.challenger == (model, version)}
            for (model, version), learned_from in sorted(self.models.items())
            if learned_from in affected
        ]
        return {"labels": labels, "training_sets": sets, "models": models}

    def write(self, lake: Lake) -> None:
        """Write the logs and tables as the product leaves them."""
        lake.settings.now = moment(1000)
        for name in KEYS:
            self._write_records(lake, name, [record for record in self.records if record.source == name])
        for version, (files, until) in self.labels.items():
            inputs = input_sets.record(lake, "chargebacks", files, lake.now())
            about = {"inputs": inputs, "until": None if until is None else moment(until).isoformat()}
            _release(lake, ReleaseKind.LABELS, "chargebacks", version, about)
        for entry in self.sets:
            _write_set(lake, entry)
        for (model, version), learned_from in self.models.items():
            _release(lake, ReleaseKind.MODEL, model, version, {"training_set": {"full_name": learned_from}})
        for number, (model, version) in enumerate(self.promoted, start=1):
            _promote(lake, number, model, version)
        if self.challenger is not None:
            model, version = self.challenger
            entry = CanaryEntry(model, 1, CanaryEvent.STARTED, version, "v0.9", "0.1", model, "ana", "", lake.now())
            assert canary_log.start(lake, entry)

    def _write_records(self, lake: Lake, name: str, records: list[HistoryRecord]) -> None:
        if not records:
            return
        claims = [
            {"record_key": record.key, "kind": "insert", "event_date": record.day, "arrival_ts": moment(record.arrives)}
            | {"arrival_date": moment(record.arrives).date(), "ingestion_id": record.file, "line_number": line}
            | {"standing": "admitted", "source_sequence": 0, "beyond": False}
            for line, record in enumerate(records)
        ]
        append_claims(lake, name, claims)
        bronze = {"record_key": [record.key for record in records], "payment_id": [record.payment for record in records]}
        write_deltalake(locations.bronze(lake, name).address, pa.table(bronze))


def _write_set(lake: Lake, entry: HistorySet) -> None:
    rows = entry.rows
    columns = {
        "record_key": pa.array([payment for payment, _, _ in rows], pa.string()),
        "event_ts": pa.array([moment(hour) for _, hour, _ in rows], pa.timestamp("us", "UTC")),
        "key_payment_id": pa.array([payment for payment, _, _ in rows], pa.string()),
    }
    if entry.joins:
        columns["key_customer_id"] = pa.array([customer for _, _, customer in rows], pa.string())
    write_deltalake(locations.training_set(lake, entry.name, entry.version).address, pa.table(columns))
    contract = set_contract(entry.name, joins=entry.joins).model_dump(mode="json")
    _release(lake, ReleaseKind.TRAINING_SET, entry.name, entry.version, {"rows": len(rows), "contract": contract})


def _release(lake: Lake, kind: ReleaseKind, name: str, version: str, about: dict[str, Any]) -> None:
    released = Release(name, kind, version, ReleaseEvent.RELEASED, "", "ana", lake.now(), about=about)
    releases.release(lake, released)


def _promote(lake: Lake, number: int, model: str, version: str) -> None:
    """A promotion, and one after it that was begun and undone."""
    for place, (to_version, done) in enumerate(((version, True), ("v9.9", False))):
        entry = ModelPromotion(
            model=model,
            number=2 * number + place,
            step=PromotionStep.BEGUN,
            kind=PromotionKind.PROMOTE,
            from_version=None,
            to_version=to_version,
            by="ana",
            notes="",
            recorded_at=lake.now(),
            process=leases.this_process(),
            expires_at=lake.now(),
        )
        assert promotion_log.begin(lake, entry)
        promotion_log.end(lake, entry, done=done)


@st.composite
def histories(draw: st.DrawFn) -> ReleasedHistory:
    """Any history."""
    hours = st.integers(0, 80)
    payments = st.sampled_from(KEYS["payments"])
    record = st.sampled_from(sorted(KEYS)).flatmap(
        lambda name: st.builds(
            HistoryRecord,
            st.just(name),
            st.sampled_from(KEYS[name]),
            hours,
            hours,
            st.sampled_from([f"{name}{number}" for number in range(3)]),
            payments if name == "chargebacks" else st.just(""),
        )
    )
    records = draw(st.lists(record, max_size=20))
    files = st.frozensets(st.sampled_from([f"chargebacks{number}" for number in range(3)]))
    labels = draw(st.dictionaries(st.sampled_from(["v1.0", "v2.0"]), st.tuples(files, st.none() | hours)))
    row = st.tuples(payments, hours, st.sampled_from("ab"))
    rows = st.lists(row, max_size=6, unique_by=lambda one: one[0]).map(tuple)
    drawn = st.builds(HistorySet, st.sampled_from(["large", "small"]), st.sampled_from(["v1.0", "v1.1"]), st.booleans(), rows)
    versions = st.lists(drawn, max_size=3, unique_by=lambda entry: entry.full_name)
    sets = sorted(draw(versions), key=lambda entry: entry.full_name)
    if not sets:
        return ReleasedHistory(records, labels, sets)
    version = st.tuples(st.sampled_from(["fraud", "risk"]), st.sampled_from(["v1.0", "v1.1", "v2.0"]))
    models = draw(st.dictionaries(version, st.sampled_from([entry.full_name for entry in sets]), max_size=4))
    promoted = draw(st.lists(st.sampled_from(sorted(models)), max_size=3)) if models else []
    challenger = draw(st.none() | st.sampled_from(sorted(models))) if models else None
    return ReleasedHistory(records, labels, sets, models, promoted, challenger)
