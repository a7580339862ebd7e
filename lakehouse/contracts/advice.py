"""Advice on the consequences of keys that a contract leaves out, as sentences for its author. Advice is never a mistake."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


#: Words in the names of columns that hold times.
_TIME = re.compile(
    r"(?:^|_)(?:ts|at|time|timestamp|date|datetime|epoch|millis|ms|updated|modified|changed)(?:_|$)", re.IGNORECASE
)


def on_source(source: SourceContract) -> Iterator[str]:
    """Advice on a source, each sentence with the key that it is about."""
    for column in source.order.sequence:
        if source.source.envelope is None and _TIME.search(column.column):
            yield (
                f"order.sequence: {column.column} may hold times: a record that a sender's clock puts into the future then "
                f"counts until that time. Under 'clocks.arrival: {column.column}' it is compared with its delivery "
                "(clocks.max_ahead); 'source.formats' reads times that are numbers"
            )


def on_metric(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[str]:
    """Advice on a metric, each sentence with the key that it is about.

    :param sources: the known sources; there is no advice on others.
    """
    terms = metric.publication
    read = [sources[entry.source] for entry in metric.read if entry.source in sources]
    without = [source.dataset for source in read if source.clocks.watermark is None]
    if without:
        yield (
            f"publication: a number is final {terms.final_after} days after its period by the calendar, whether or not "
            f"everything has arrived, because {' and '.join(without)} has no clocks.watermark"
        )
    if not metric.is_derived and terms.after_close == "restate":
        exact = all(measure.is_exact for measure in metric.measures)
        booked, unfit = "'adjust' books the change in the open day", "'adjust' needs measures that are decimals or integers"
        instead = booked if exact else unfit
        yield f"publication.after_close: a final number changes with its rows ('restate', the default); {instead}"
    doubles = {field.name for source in read for field in source.typed_fields if field.type == "double"}
    for number, measure in enumerate(metric.measures):
        summed = {name for name in doubles if re.search(rf"\bsum\s*\(\s*{re.escape(name)}\b", measure.sql, re.IGNORECASE)}
        for name in sorted(summed):
            why = "a double holds 16 digits, and has no adjustments"
            yield f"measures[{number}].sql: {name} is a double; use decimals for money: {why}"
