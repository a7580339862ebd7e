"""The chart of a watermark: which deliveries it shows of many, and the drawing itself."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.lateness.charts import DeliveryPoint, against_bound, thinned, watermark
from lakehouse.reports.templates import COLOURS

NOON = datetime(2024, 2, 1, 12, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
#: Minutes from one arrival to the next, and how old the newest event of the delivery is, if it has one.
ARRIVALS = st.lists(st.tuples(st.integers(0, 500), st.none() | st.integers(0, 3000)), min_size=1, max_size=120)


def points(arrivals: list[tuple[int, int | None]]) -> list[DeliveryPoint]:
    """Deliveries with a watermark that an hour's lateness gives."""
    made, at, standing = [], NOON, None
    for apart, age in arrivals:
        at += apart * MINUTE
        event = None if age is None else at - age * MINUTE
        if event is not None:
            standing = max(event - 60 * MINUTE, standing or event - 60 * MINUTE)
        made.append(DeliveryPoint(at, event, standing))
    return made


def of_day(number: float) -> DeliveryPoint:
    at = NOON + number * timedelta(days=1)
    return DeliveryPoint(at, at - 90 * MINUTE, at - 150 * MINUTE)


def test_a_share_is_drawn_in_percent_beside_its_bound() -> None:
    names, shares, bounds = ("1 Feb", "2 Feb", "3 Feb"), (0.1, None, 0.4), (0.25, 0.25, 0.25)
    texts = re.findall(r"<text[^>]*>([^<]*)<", against_bound(names, shares, bounds, in_percent=True).wide)
    assert {"0 %", "20 %", "40 %"} <= set(texts)
    assert {"0 %", "60 %", "100 %"} - set(texts) == {"60 %", "100 %"}
    plain = re.findall(r"<text[^>]*>([^<]*)<", against_bound(names, (1, None, 4), (2, 2, 2)).wide)
    assert {"0", "2", "4"} <= {text.removesuffix(".0") for text in plain}


@given(arrivals=ARRIVALS, most=st.integers(3, 40))
def test_a_thinned_line_is_never_ahead_of_the_watermark_and_less_than_a_span_behind(
    arrivals: list[tuple[int, int | None]], most: int
) -> None:
    every = points(arrivals)
    kept = thinned(every, most)
    assert len(kept) <= most
    assert [kept[0], kept[-1]] == [every[0], every[-1]]
    places = [place for place, point in enumerate(every) if any(point is one for one in kept)]
    assert [every[place] for place in places] == kept, "points of the whole, in its order"
    span = (every[-1].arrived - every[0].arrived) / (most // 3)
    for place, point in enumerate(every):
        shown = every[max(kept_place for kept_place in places if kept_place <= place)]
        assert shown.watermark is None or (point.watermark is not None and shown.watermark <= point.watermark)
        assert point.arrived - shown.arrived <= span
    oldest = min((point.newest_event for point in every if point.newest_event is not None), default=None)
    assert oldest is None or oldest in [point.newest_event for point in kept], "what came late is seen"


@given(arrivals=ARRIVALS)
def test_few_points_are_all_kept(arrivals: list[tuple[int, int | None]]) -> None:
    every = points(arrivals)
    assert thinned(every, len(every) + 2) == every


def test_ten_thousand_deliveries_are_a_small_drawing() -> None:
    every = [of_day(number / 24) for number in range(10_000)]
    kept = thinned(every, 150)
    assert 100 <= len(kept) <= 150
    drawing = watermark(tuple(kept), every[0].arrived, every[-1].arrived, follows_clock=False)
    for svg in (drawing.wide, drawing.narrow):
        assert len(svg.encode()) < 40_000
        assert svg.count("<use ") == len(kept), "a dot for each"


@pytest.mark.parametrize("follows_clock", [False, True])
def test_the_drawing_has_the_colours_of_the_page_and_loads_nothing(follows_clock: bool) -> None:
    shown = tuple(of_day(number) for number in range(5))
    svg = watermark(shown, NOON, NOON + timedelta(days=5), follows_clock=follows_clock).wide
    assert not re.search(r"<script|<style|\sstyle=|https?:", svg)
    assert not any(colour in svg for colour in COLOURS.values())
    for name in ("after", "before", "muted"):
        assert f"var(--{name})" in svg
    (line,) = re.findall(r'<path d="([^"]*)"[^>]*stroke="var\(--after\)"', svg)
    corners = line.count("L")
    assert corners == (4 if follows_clock else 8), "a step has a corner where it begins and where it ends"


def test_a_very_old_event_leaves_room_for_the_others() -> None:
    old = DeliveryPoint(NOON, datetime(1970, 1, 1, tzinfo=timezone.utc), None)
    svg = watermark((old, of_day(1), of_day(2)), NOON, NOON + timedelta(days=2), follows_clock=False).wide
    assert "1970" not in svg


def test_nothing_to_draw_but_the_diagonal() -> None:
    svg = watermark((DeliveryPoint(NOON, None, None),), NOON, NOON + timedelta(days=2), follows_clock=False).wide
    assert "<use " not in svg
    assert "var(--after)" not in svg
    assert "var(--muted)" in svg
