"""Contracts as YAML, for tests of what reads contract files."""

from __future__ import annotations

LAKELOGIC = """\
dataset: silver_pos_sales_events
primary_key: [event_id]
model:
  fields:
    - {name: event_id, type: int, required: true}
    - {name: event_date, type: date}
    - {name: amount, type: float}
    - {name: customer_id, type: int}
quality:
  row_rules:
    - {name: positive_amount, sql: "amount > 0", category: correctness}
materialization:
  strategy: append
  partition_by: [event_date]
  reprocess_policy: overwrite_partition_safe
  target_path: output/silver_pos_sales_events
  format: csv
"""
SHOP_SOURCE = """\
dataset: shop
primary_key: id
clocks: {event: at}
model:
  fields:
    - {name: id, type: int}
"""
TURNOVER_METRIC = """\
metric: turnover
source: shop
measures:
  - {name: total, sql: sum(id), type: long}
"""
TOTAL_METRIC = "metric: total\nsource: events\nmeasures:\n  - {name: total, sql: sum(amount), type: long, additive: true}\n"
EVENTS_SOURCE = """\
dataset: events
primary_key: [id]
model:
  fields:
    - {name: id, type: string}
    - {name: amount, type: int}
clocks: {event: event_time, arrival: arrived_at}
"""
#: Labels of payments.
CHARGEBACKS_SOURCE = """\
dataset: chargebacks
primary_key: [payment_id]
clocks: {event: charged_at, arrival: arrived_at}
model:
  fields:
    - {name: payment_id, type: string}
materialization: {reprocess_policy: merge}
"""
