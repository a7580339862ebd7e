"""The key ``window`` of a metric: its forms, its grain columns, and its requirements on the source.

The kinds of windows are defined in ``event_window`` and ``session_window``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Discriminator, Field, Tag

from lakehouse.contracts.base import SYSTEM_COLUMNS
from lakehouse.contracts.windows.event_window import WINDOW_START, EventWindow
from lakehouse.contracts.windows.session_window import SessionWindow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehouse.contracts.metric import MetricContract
    from lakehouse.contracts.source import SourceContract


def _kind(value: Any) -> str:
    if isinstance(value, SessionWindow) or (
        isinstance(value, dict) and not {"gap", "key"}.isdisjoint(value) and "size" not in value
    ):
        return "(sessions)"
    return "(windows)" if isinstance(value, (dict, EventWindow)) else "(days)"


#: A number of days, event-time windows, or sessions; a mistake is reported for the intended form.
Window = Annotated[
    Annotated[int, Field(ge=1, le=366), Tag("(days)")]
    | Annotated[EventWindow, Tag("(windows)")]
    | Annotated[SessionWindow, Tag("(sessions)")],
    Discriminator(_kind),
]


def with_start_in_grain(content: Any) -> Any:
    """Put the columns that identify a window first in the grain of a metric's file, if the metric has windows."""
    window = content.get("window") if isinstance(content, dict) else None
    if not isinstance(window, (dict, EventWindow, SessionWindow)):
        return content
    grain = content.get("grain") or []
    if not isinstance(grain, list) or WINDOW_START in grain:
        return content
    key = window.key if isinstance(window, SessionWindow) else window.get("key") if isinstance(window, dict) else None
    key = [key] if isinstance(key, str) else key
    own = [WINDOW_START, *(key if isinstance(key, list) else [])]
    return {**content, "grain": [*own, *(name for name in grain if name not in own)]}


def unfit(metric: MetricContract) -> list[str]:
    """The keys that a metric with windows cannot have, each as ``field: what to do``."""
    if not metric.publication.rollups:
        return []
    if metric.trailing_days > 1 or metric.windows_overlap:
        return ["publication.rollups: numbers that count rows several times have none; give them to a metric without a window"]
    others = [measure.name for measure in metric.measures if not measure.additive]
    if metric.days_behind and others:
        # A period's sessions are those that begin in it: no set of silver days has exactly their rows.
        text = f"sessions are added up, and {', '.join(others)} is not additive; give the roll-ups to another metric"
        return [f"publication.rollups: {text}"]
    return []


def misfits(metric: MetricContract, sources: Mapping[str, SourceContract]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """The mistakes between a metric with windows and its source: where in the metric's file, and what to do."""
    if metric.event_window is None:
        return
    zone, own = sources[metric.source].clocks.timezone, metric.event_window.timezone
    if own not in (None, zone):
        text = f"the event days of {metric.source} are those of {zone}; leave the key out, or give the source another zone"
        yield ("window", "timezone"), text
    if isinstance(metric.event_window, SessionWindow):
        brought = {name for join in metric.joins for name in join.names}
        fields = [field.name for field in sources[metric.source].typed_fields]
        unknown = [name for name in metric.event_window.key if name not in {*fields, *SYSTEM_COLUMNS, *brought}]
        if unknown:
            text = f"{', '.join(unknown)} is neither a field of {metric.source} nor brought by a join; it has {', '.join(fields)}"
            yield ("window", "key"), text
