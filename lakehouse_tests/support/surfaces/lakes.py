"""The lakes whose numbers the surfaces are compared about, each built by typed commands, and the numbers that it is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_tests.support.surfaces.said import Said, totals
from lakehouse_tests.support.surfaces.typed_lake import TypedLake

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SALES = """
dataset: sales
owner: shop
primary_key: [sale]
source: {landing: "arrival_date={arrival_date}*.csv", format: csv, start_date: 2024-11-01}
clocks: {event: sold_at, arrival: received_at, watermark: {strategy: bounded, max_lateness: PT12H}}
changes: {op: op, corrects_event_id: corrects}
lateness: {expected: P1D, watermark: P4D, beyond: quarantine, by: {column: change_op, values: {correct: {watermark: P30D}}}}
model:
  fields:
    - {name: sale, type: string, required: true}
    - {name: store, type: string, required: true}
    - {name: amount, type: "decimal(12,2)", required: true}
"""
_TERMS = "{final_after: 3, after_close: adjust, rollups: [week]}"
REVENUE = f"""
metric: revenue
owner: shop
source: sales
consumers: [board]
measures:
  - {{name: revenue, sql: sum(amount), type: "decimal(18,2)", additive: true}}
  - {{name: sales, sql: count(*), type: long, additive: true}}
publication: {_TERMS}
checks: {{change: [{{measure: revenue, percent: 300}}]}}
"""
HEADER = "sale,store,amount,sold_at,received_at,op,corrects"


def sale(
    name: str, sold: str, received: str, amount: str = "10.00", store: str = "north", op: str = "insert", of: str = ""
) -> str:
    """A line; times as ``4T09`` of November."""
    days = [f"2024-11-{int(day):02}T{hour}:00:00Z" for day, hour in (when.split("T") for when in (sold, received))]
    return ",".join([name, store, amount, *days, op, of])


def days_of_a_shop(folder: Path, spark: Mapping[str, str]) -> TypedLake:
    """Days that grow, are restated, adjusted, held, put back and signed off, that wait for a steward and for the watermark.

    2024-11-04 grows on its own day, is restated by a late row and by a correction, and is adjusted by a correction after its
    close; the 5th is put back to its first number, the 6th has a number that a check holds, the 7th a row that waits for a
    steward and is signed off; the 12th has grown, and waits for the watermark.
    """
    sample = TypedLake(folder, {"sales": SALES, "revenue": REVENUE}, spark)
    with sample.used():
        sample.at("2024-11-04T12:00:00Z").run("sales", HEADER, sale("a", "4T09", "4T11"), sale("b", "4T10", "4T11", "20.00"))
        sample.typed("notices", "--send")
        sample.at("2024-11-04T23:00:00Z").run("sales", HEADER, sale("c", "4T15", "4T22", "5.00"))
        late = sale("late", "4T16", "5T20", "3.00")
        sample.at("2024-11-05T23:00:00Z").run("sales", HEADER, sale("d", "5T09", "5T10", "7.00"), late)
        correction, twice = sale("a2", "4T09", "6T22", "12.00", op="correct", of="a"), sale("d2", "5T11", "6T20")
        sample.at("2024-11-06T23:00:00Z").run("sales", HEADER, sale("e", "6T09", "6T10", "8.00"), correction, twice)
        vast = sale("vast", "6T10", "7T20", "900.00")
        sample.at("2024-11-07T23:00:00Z").run("sales", HEADER, sale("f", "7T09", "7T10", "9.00"), vast)
        sample.typed("gold", "revert", "revenue", "2024-11-05", "--to", "r1", "--by", "anna", "--reason", "a till sent it twice")
        closed = sale("b2", "4T10", "9T20", "25.00", op="correct", of="b")
        of_two_days = sale("g", "8T09", "8T10", "6.00"), sale("h", "9T09", "9T10", "4.00")
        sample.at("2024-11-09T23:00:00Z").run("sales", HEADER, *of_two_days, closed)
        waiting = sale("w", "7T12", "12T18", "2.00")
        sample.at("2024-11-12T20:00:00Z").run("sales", HEADER, waiting, sale("i", "12T02", "12T18"))
        sample.typed("gold", "close", "revenue", "2024-11-07", "--by", "anna", "--reason", "the till is known")
        sample.at("2024-11-12T22:00:00Z").run("sales", HEADER, sale("j", "12T20", "12T21", "1.00"))
        sample.typed("notices", "--send")
    held = "a newer number is held: it failed change; 'lakehouse gold held revenue' shows why"
    sample.truth = {
        ("revenue", "2024-11-04"): Said(
            totals(revenue=40, sales=4), "final", "daily_finalization", "r5", 2, "2024-11-06 23:00", None, (), totals(revenue=45)
        ),
        ("revenue", "2024-11-05"): Said(
            *(totals(revenue=7, sales=1), "final", "daily_finalization", "r5", 2, "2024-11-07 23:00"),
            *("put back to r1 by anna: a till sent it twice", (), {}, False),
        ),
        ("revenue", "2024-11-06"): Said(
            totals(revenue=8, sales=1), "live", "initial", "r1", 0, "", "", (held,), {}, True, ("change",)
        ),
        ("revenue", "2024-11-07"): Said(
            totals(revenue=9, sales=1), "final", "daily_finalization", "r3", 0, "", "", (), {}, False
        ),
        ("revenue", "2024-11-09"): Said(totals(revenue=4), "final", "daily_finalization", None, 0, "", "", (), {}, False),
        ("revenue", "2024-11-12"): Said(totals(revenue=11, sales=2), "live", "new_data", "r2", 0, "", "", None, {}, False),
        # What a late row, a correction, a revert and an adjustment took back; days that were added are none of these.
        ("revenue", "2024-W45"): Said(totals(revenue=79), restated=3),
        ("revenue", "2024-W46"): Said(totals(revenue=11), "live", "new_data", "r2", 0, "", "", None, {}, False),
    }
    fourth, taken = ("revenue", "2024-11-04"), "2024-11-06 23:00"
    sample.earlier = {
        (*fourth, "2024-11-04T12:30:00Z"): Said(totals(revenue=30, sales=2), "live", "initial", "r1", adjusted={}),
        (*fourth, "2024-11-05T12:00:00Z"): Said(totals(revenue=35, sales=3), "live", "new_data", "r2", adjusted={}),
        (*fourth, "2024-11-06T12:00:00Z"): Said(
            totals(revenue=38, sales=4), reason="late_data", revision="r3", restated_on="2024-11-05 23:00", adjusted={}
        ),
        (*fourth, "2024-11-08T12:00:00Z"): Said(
            totals(revenue=40), "final", "daily_finalization", "r5", restated_on=taken, adjusted={}
        ),
        (*fourth, "2024-11-10T12:00:00Z"): Said(
            totals(revenue=40), "final", "daily_finalization", "r5", restated_on=taken, adjusted=totals(revenue=45)
        ),
        ("revenue", "2024-11-05", "2024-11-07T12:00:00Z"): Said(totals(revenue=17, sales=2), adjusted={}),
        ("revenue", "2024-W45", "2024-11-04T23:30:00Z"): Said(totals(revenue=35), "live", adjusted={}),
    }
    return sample


def a_day_that_grew(folder: Path, spark: Mapping[str, str]) -> TypedLake:
    """One day to which a row on time is added on the day itself."""
    sample = TypedLake(folder, {"sales": SALES, "revenue": REVENUE}, spark)
    with sample.used():
        sample.at("2024-11-04T12:00:00Z").run("sales", HEADER, sale("a", "4T09", "4T11"))
        sample.at("2024-11-04T23:00:00Z").run("sales", HEADER, sale("c", "4T15", "4T22", "5.00"))
    sample.truth = {("revenue", "2024-11-04"): Said(totals(revenue=15), "live", "new_data", "r2", 0, "", "", None, {}, False)}
    return sample


def a_shop_to_replay(folder: Path, spark: Mapping[str, str]) -> TypedLake:
    """Files of three arrival days: the 5th brings a late row of the 4th, the 6th a correction of the 5th and a malformed row."""
    sample = TypedLake(folder, {"sales": SALES, "revenue": REVENUE}, spark)
    sample.land("sales", "2024-11-04", HEADER, sale("a", "4T09", "4T11"))
    sample.land("sales", "2024-11-05", HEADER, sale("b", "5T09", "5T11"), sale("late", "4T16", "5T20", "3.00"))
    corrected = sale("b2", "5T09", "6T10", "12.00", op="correct", of="b")
    sample.land("sales", "2024-11-06", HEADER, sale("c", "6T09", "6T10"), corrected, sale("bad", "6T09", "6T10", "much"))
    return sample


ORDERS = """
dataset: orders
owner: shop
primary_key: [id]
source: {landing: "arrival_date={arrival_date}*.csv", format: csv, start_date: 2024-11-01}
clocks: {event: at, arrival: received_at, watermark: {strategy: bounded, max_lateness: PT2H}}
changes: {op: op}
lateness: {expected: PT12H}
model:
  fields:
    - {name: id, type: string, required: true}
    - {name: customer, type: string, required: true}
    - {name: amount, type: "decimal(12,2)", required: true}
"""
CUSTOMERS = """
dataset: customers
kind: dimension
primary_key: [customer]
source: {landing: "arrival_date={arrival_date}*.csv", format: csv, start_date: 2024-11-01}
clocks: {event: changed_at, arrival: received_at}
model: {fields: [{name: customer, type: string}, {name: tier, type: string}]}
dimension: {buckets: 2}
"""


def _metric(name: str, *, more: str, total: str = "sum(amount)", terms: str = _TERMS) -> str:
    measure = f'{{name: total, sql: {total}, type: "decimal(18,2)", additive: true}}'
    return f"metric: {name}\nowner: shop\nmeasures: [{measure}]\npublication: {terms}\n{more}\n"


_KINDS = {
    "orders": ORDERS,
    "web": ORDERS.replace("dataset: orders", "dataset: web"),
    "customers": CUSTOMERS,
    "daily": _metric("daily", more="source: orders"),
    "hourly": _metric("hourly", more="source: orders\nwindow: {size: PT1H}"),
    "visits": _metric("visits", more="source: orders\nwindow: {gap: PT30M, key: customer}"),
    "by_tier": _metric(
        "by_tier", more="source: orders\ngrain: [tier]\njoins: [{dimension: customers, on: customer, columns: [tier]}]"
    ),
    "everywhere": _metric("everywhere", more="sources: [orders, {source: web, required: false}]"),
    "punctual": _metric(
        "punctual",
        more="source: orders\nlate_events: {allowed_lateness: PT1H, action: side_output}",
        terms="{final_after: 3, after_close: restate}",
    ),
    "share": (
        "metric: share\nowner: shop\nfrom: [daily, everywhere]\n"
        'measures: [{name: share, sql: daily.total / everywhere.total, type: "decimal(12,6)"}]\n'
        "publication: {final_after: 3, after_close: restate}\n"
    ),
}
_ORDER = "id,customer,amount,at,received_at,op"


def _order(name: str, at: str, received: str, amount: str, customer: str = "c1") -> str:
    times = [f"2024-11-{int(day):02}T{clock}:00Z" for day, clock in (when.split("T") for when in (at, received))]
    return ",".join([name, customer, amount, *times, "insert"])


def kinds_of_numbers(folder: Path, spark: Mapping[str, str]) -> TypedLake:
    """Windows, sessions, a joined, a derived and a metric of two sources, one with late events: each is restated by a late row.

    The late row is of 10:50 and concerns one hour of its day. A tier that is known late restates the joined metric, a correction
    comes after the close.
    """
    sample = TypedLake(folder, _KINDS, spark)
    with sample.used():
        tiers = "customer,tier,changed_at,received_at"
        times = "2024-11-01T00:00:00Z,2024-11-04T11:00:00Z"
        sample.at("2024-11-04T12:00:00Z").run("customers", tiers, f"c1,silver,{times}", f"c2,gold,{times}")
        of_a_day = _order("a", "4T09:10", "4T11:00", "10.00"), _order("b", "4T10:20", "4T11:00", "20.00", "c2")
        sample.run("orders", _ORDER, *of_a_day, _order("c", "4T10:40", "4T11:00", "5.00"))
        sample.run("web", _ORDER, _order("w", "4T09:00", "4T11:00", "7.00"))
        sample.at("2024-11-05T23:00:00Z").run(
            "orders", _ORDER, _order("d", "5T22:00", "5T22:10", "6.00"), _order("late", "4T10:50", "5T22:10", "3.00")
        )
        sample.run("customers", tiers, "c1,gold,2024-11-02T00:00:00Z,2024-11-05T22:00:00Z")
        sample.at("2024-11-08T23:00:00Z").run("orders", _ORDER, _order("e", "8T22:00", "8T22:10", "1.00"))
        sample.run("orders", _ORDER, _order("a", "4T09:10", "8T22:30", "11.00"))
    sample.truth = {
        ("daily", "2024-11-04"): Said(totals(total=38), "final", restated=1, adjusted=totals(total=39), held=False),
        ("hourly", "2024-11-04"): Said(totals(total=38), "final", restated=1, adjusted=totals(total=39)),
        ("hourly", "2024-11-04T10"): Said(totals(total=28), adjusted={}),
        ("hourly", "2024-11-04T09"): Said(totals(total=10), adjusted=totals(total=11)),
        ("hourly", "2024-11-05T22"): Said(totals(total=6), adjusted={}),
        ("visits", "2024-11-04"): Said(totals(total=38), "final", restated=1, adjusted=totals(total=39)),
        ("by_tier", "2024-11-04"): Said(totals(total=38), "final", restated=2, adjusted=totals(total=39)),
        ("everywhere", "2024-11-04"): Said(totals(total=45), "final", restated=1, adjusted=totals(total=46)),
        ("punctual", "2024-11-04"): Said(state="final", adjusted={}),
        ("share", "2024-11-04"): Said(totals(share="0.844444"), "final", restated=1),
        ("daily", "2024-11-08"): Said(totals(total=1), "live", restated=0, adjusted={}, held=False),
    }
    return sample
