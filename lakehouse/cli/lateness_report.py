"""Parts of the output of ``lakehouse lateness``: tiers, hours of the day, durations and times."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from lakehouse.cli.console import counted, out

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakehouse.contracts import SourceContract
    from lakehouse.lateness.measurement import LatenessMeasurement
    from lakehouse.settings import Settings

#: The clock of the hours by which lateness is shown: event or arrival.
Clock = Literal["event", "arrival"]


def duration(seconds: float | None) -> str:
    """A number of seconds as a duration; ``none`` for None."""
    from lakehouse.text import format_duration  # noqa: PLC0415 (`--help` need not wait for it)

    if seconds is None:
        return "none"
    return f"{'-' if seconds < 0 else ''}{format_duration(timedelta(seconds=abs(seconds)))}"


def moment(time: datetime) -> str:
    """A time as text (UTC)."""
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"


def tiers_as_json(contract: SourceContract, measured: LatenessMeasurement) -> list[dict[str, Any]]:
    """The rows beyond each tier."""
    from lakehouse.lateness import measurement  # noqa: PLC0415 (Arrow loads in a second)

    return [
        {
            "within": int(late.tier.within.total_seconds()),
            "serves": late.tier.serves,
            "tolerated": late.tier.tolerated,
            "beyond": late.beyond,
            "share": late.share,
            "is_exceeded": late.is_exceeded,
        }
        for late in measurement.beyond_tiers(contract, measured)
    ]


def print_tiers(contract: SourceContract, measured: LatenessMeasurement) -> None:
    """Print the share of rows beyond each tier."""
    from lakehouse.lateness import measurement  # noqa: PLC0415 (Arrow loads in a second)

    for late in measurement.beyond_tiers(contract, measured):
        tolerated = "" if late.tier.tolerated is None else f"; the contract tolerates {late.tier.tolerated:.2%}"
        tells = f"{counted(late.beyond)} later, {late.share:.2%}{tolerated}"
        text = f"  tier {duration(late.tier.within.total_seconds())} ({late.tier.serves}): {tells}"
        out.print(text, style="yellow" if late.is_exceeded else None, soft_wrap=True)


def hours_as_json(hours: Mapping[int, Sequence[int]]) -> list[dict[str, Any]]:
    """The lateness of the rows of each hour."""
    from lakehouse.lateness.rules import percentiles  # noqa: PLC0415 (Arrow loads in a second)

    return [
        {"hour": hour, "rows": len(seconds), **percentiles(seconds), "max": int(seconds[-1])} for hour, seconds in hours.items()
    ]


def by_hour(
    settings: Settings, contract: SourceContract, measured: LatenessMeasurement, clock: Clock
) -> dict[int, Sequence[int]]:
    """The lateness of the measured rows by the hour of a clock."""
    from lakehouse.lateness import measurement  # noqa: PLC0415 (Arrow loads in a second)

    return measurement.by_hour(settings, contract, measured.first, measured.last, clock)


def print_hours(hours: Mapping[int, Sequence[int]], clock: Clock, timezone: str) -> None:
    """Print the lateness of the rows of each hour."""
    out.print(f"  by hour of the {clock} ({timezone}):", soft_wrap=True)
    for line in hours_as_json(hours):
        spans = ", ".join(f"{name} {duration(line[name])}" for name in ("p50", "p90", "p99", "max"))
        out.print(f"    {line['hour']:02}: {counted(line['rows'])}; {spans}", soft_wrap=True)
