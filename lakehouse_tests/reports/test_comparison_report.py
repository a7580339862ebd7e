"""The reports contain every number, escape every name, and are self-contained."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
from rich.console import Console

from lakehouse.examples.simulation_commands import simulation_html, simulation_markdown
from lakehouse.examples.simulation_results import SimulatedDay, SimulatedPromotion, Simulation
from lakehouse.gold.numbers.comparison import Comparison, MeasureDelta, Threshold
from lakehouse.reports import formatting
from lakehouse.reports.comparison_report import MOST, MovedLatest, as_html, as_json, as_markdown, as_terminal, release_notes
from lakehouse_tests.support.parsed_page import HOSTILE_TEXT, ParsedPage

NOW = datetime(2024, 2, 10, 9, 30, tzinfo=timezone.utc)
D = Decimal


def change(before: Any, after: Any, period: str = "2024-01-15", measure: str = "revenue", **other: Any) -> MeasureDelta:
    return MeasureDelta(period=period, grain=other.pop("grain", ()), measure=measure, before=before, after=after, **other)


def comparison(*changes: MeasureDelta, **other: Any) -> Comparison:
    told = {"metric": "sales", "from_version": "v1", "to_version": "v2", "first": "2024-01-01", "last": "2024-01-31"}
    given = {"thresholds": (), "made_at": NOW, "additive": frozenset({"revenue"})}
    return Comparison(**{**told, **given, **other, "changes": changes})


MONTH = comparison(
    *(change(D("100.00"), D("100.00") + (day % 3), f"2024-01-{day:02}", before_version="r1") for day in range(1, 31)),
    change(None, D("77.77"), "2024-01-31", reason="late_data", rows=1234, after_version="r3", after_state="final"),
    change(0, 5, measure="orders"),
    thresholds=(Threshold("revenue", D("1.5")), Threshold("orders", D(10)), Threshold("buyers", D(1))),
)
EVIL = comparison(
    change(
        1,
        2,
        HOSTILE_TEXT,
        HOSTILE_TEXT,
        grain=((HOSTILE_TEXT, HOSTILE_TEXT),),
        before_version=HOSTILE_TEXT,
        after_state=HOSTILE_TEXT,
        reason=HOSTILE_TEXT,
    ),
    change(1, None, HOSTILE_TEXT, HOSTILE_TEXT, grain=((HOSTILE_TEXT, "b"),)),
    metric=HOSTILE_TEXT,
    from_version=HOSTILE_TEXT,
    to_version=HOSTILE_TEXT + "2",
    first=HOSTILE_TEXT,
    last=HOSTILE_TEXT,
    thresholds=(Threshold(HOSTILE_TEXT, D(1)),),
)
LOG = (SimulatedPromotion("2024-01-01", "r2", "final", "late_data", NOW, "bronze/sales@7", "gold/sales@12"),)
DAYS = (
    SimulatedDay("2024-01-01", "revenue", D("90.00"), D("100.00"), (D("90.00"), D("95.00"), D("100.00")), 45, 5),
    SimulatedDay("2024-01-02", "revenue", D("50.00"), D("50.00"), (D("50.00"),), 50, 0),
)
SIMULATION = Simulation("A late week", {"late share": "10 %"}, DAYS, LOG, NOW, frozenset({"revenue"}))
EVIL_SIMULATION = Simulation(
    HOSTILE_TEXT,
    {HOSTILE_TEXT: HOSTILE_TEXT},
    (SimulatedDay(HOSTILE_TEXT, HOSTILE_TEXT, 1, 2, (1, 2), 1, 1),),
    (SimulatedPromotion(HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, HOSTILE_TEXT, NOW, HOSTILE_TEXT, HOSTILE_TEXT),),
    NOW,
)

#: The pages, drawn by the first test that reads them.
PAGES = {
    "a month": cache(lambda: as_html(MONTH)),
    "a hostile comparison": cache(lambda: as_html(EVIL)),
    "a simulation": cache(lambda: simulation_html(SIMULATION)),
    "a hostile simulation": cache(lambda: simulation_html(EVIL_SIMULATION)),
}


def printed(shown: Comparison, **console: Any) -> str:
    file = io.StringIO()
    Console(file=file, width=console.pop("width", 80), **console).print(as_terminal(shown))
    return file.getvalue()


def test_the_summary_names_how_much_and_from_where_to_where():
    days = [change(D("600.00"), D("600.00"), "2024-01-01"), change(D("604.50"), D("711.20"), "2024-01-02")]
    found = comparison(*days)
    assert formatting.summary(found) == "1 of 2 days differs; revenue 1,204.50 -> 1,311.20 (+8.86 %)."
    assert formatting.summary(comparison(days[0])) == "None of 1 day differs; revenue stays 600.00."
    assert formatting.summary(comparison()) == "There was nothing to compare."
    weeks = comparison(change(1, 2, "2024-W01"), change(1, 2, "2024-W02"), additive=frozenset())
    assert formatting.summary(weeks) == "2 of 2 weeks differ."


@pytest.mark.parametrize("report", [as_html, as_markdown, printed])
def test_every_kind_of_page_has_the_numbers(report):
    text = re.sub(r"\s+", " ", report(MONTH).replace("\N{NO-BREAK SPACE}", " "))
    summary = "22 of 31 days differ"
    for said in (summary, "3,000.00", "3,107.77", "+3.59 %", "77.77", "+2.00", "late data", "from 0", "1.5 %", "broken by 11"):
        assert said in text
    assert "No number in v1 for 2024-01-31" in text
    assert "kept" in text


def test_the_terminal_folds_no_number_and_takes_no_name_for_markup():
    assert re.search(r"2024-01-31 +none +77\.77 +new +late data", printed(MONTH))
    assert "\x1b" not in printed(EVIL, width=4000)
    assert "[a](http" in printed(EVIL, width=4000)
    assert "[bold]" in printed(comparison(change(1, 2, measure="[bold]")))


def test_a_narrow_terminal_shows_which_versions_are_compared_and_their_numbers_whole():
    """As heads of the columns, long names of versions cut each other and the numbers."""
    names = {"from_version": "everywhere_v2024-11-04.r1", "to_version": "everywhere_v2024-11-04.r2.a1"}
    shown = printed(comparison(change(D("42.00"), D("46.00"), "2024-11-04", reason="late_data"), **names))
    assert "From everywhere_v2024-11-04.r1 to everywhere_v2024-11-04.r2.a1." in shown
    [row] = [line.split() for line in shown.splitlines() if line.strip().startswith("2024-11-04")]
    assert row[:5] == ["2024-11-04", "42.00", "46.00", "+4.00", "+9.52"]


def test_json_has_all_and_rounds_nothing():
    exact, more = D("12345678901234567890.123456789012"), D("12345678901234567891.123456789012")
    report = json.loads(as_json(comparison(change(exact, more), change(0, 5, measure="orders", grain=(("store", "x"),)))))
    first, second = report["changes"]
    assert (first["before"], first["difference"], first["percent"]) == (str(exact), "1.000000000000", "0.00")
    assert (second["before"], second["after"], second["percent"]) == (0, 5, None)
    assert second["grain"] == {"store": "x"}
    assert report["totals"]["revenue"]["after"] == str(more)
    assert json.loads(as_json(comparison(change(1.5, float("nan")))))["changes"][0]["after"] == "nan"
    assert list(report) == list(json.loads(as_json(EVIL)))
    assert json.loads(as_json(EVIL))["metric"] == HOSTILE_TEXT


def test_json_names_what_is_beyond_and_what_is_missing():
    found = json.loads(as_json(MONTH))
    assert [one["broken_by"] for one in found["thresholds"]] == [11, 1, 0]
    assert sum(one["beyond"] for one in found["changes"]) == 12
    assert found["missing"] == {"before": ["2024-01-31"], "after": []}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_well_formed_and_needs_nothing(name):
    html = PAGES[name]()
    page = ParsedPage(html)
    assert not {"script", "img", "link", "iframe", "object", "metadata"} & {tag for tag, _ in page.tags}
    loading = [value for _, attrs in page.tags for name, value in attrs.items() if name in {"src", "href", "xlink:href"}]
    assert loading
    assert all(value and value.startswith("#") for value in loading)
    assert "http" not in html.replace("http-equiv", "").replace("http://evil.example", "")
    assert "@import" not in html
    assert not re.search(r"url\((?!#)", html)
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert {value[1:] for value in loading if value} <= set(ids)


@pytest.mark.parametrize("name", [name for name in PAGES if "hostile" in name])
def test_hostile_names_are_shown_and_do_nothing(name):
    html = PAGES[name]()
    page = ParsedPage(html)
    assert formatting.plain(HOSTILE_TEXT) in page.text
    assert "{{ 7*7 }}" in page.text
    assert "\x1b" not in html
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)


@pytest.mark.parametrize("name", [name for name in PAGES if "hostile" not in name])
def test_a_page_can_be_heard(name):
    html = PAGES[name]()
    page = ParsedPage(html)
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("caption")) == len(page.all("table")) > 1
    assert all(head.get("scope") in {"col", "row"} for head in page.all("th"))
    drawings = [attrs for attrs in page.all("div") if attrs.get("role") == "img"]
    assert drawings
    assert all("chart of" in (attrs["aria-label"] or "") for attrs in drawings)
    assert len(page.all("svg")) == 2 * len(drawings)


@pytest.mark.merge
def test_the_same_comparison_makes_the_same_page():
    assert as_html(MONTH) == as_html(MONTH)
    assert simulation_html(SIMULATION) == simulation_html(SIMULATION)


def test_drawings_take_their_colours_from_the_page():
    drawn = "".join(re.findall(r"<svg.*?</svg>", as_html(MONTH), re.DOTALL))
    assert {"var(--before)", "var(--after)", "var(--up)"} <= set(re.findall(r"var\(--\w+\)", drawn))
    assert not re.search(r"#[0-9a-f]{6}[;\"]", drawn.replace("#m", "").replace("url(#", ""))


def test_a_name_that_looks_like_mathematics_is_drawn_as_it_is():
    stores = [change(1.0, 2.0, measure="average", grain=(("store", name),)) for name in ("$x^$", "$x^2$")]
    drawn = "".join(re.findall(r"<svg.*?</svg>", as_html(comparison(*stores)), re.DOTALL))
    assert ">store $x^$</text>" in drawn
    assert ">store $x^2$</text>" in drawn


@pytest.mark.merge
def test_where_the_grain_does_not_add_up_each_is_drawn():
    stores = [change(1.0, 2.0 + at, measure="average", grain=(("store", f"shop {at}"),)) for at in range(8)]
    html = as_html(comparison(*stores))
    drawn = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    assert "store shop 7" in drawn
    assert "store shop 1" not in drawn
    assert "the 6 of 8 that changed most" in html


@pytest.mark.merge
def test_a_long_table_is_cut_and_says_so():
    start = date(2024, 1, 1)
    days = [change(100, 101 + at, f"{start + timedelta(days=at)}") for at in range(MOST + 50)]
    compared = comparison(*days)
    for text in (as_html(compared), as_markdown(compared)):
        assert len(re.findall(r">2024-[\d-]+</th>|^\| 2024-", text, re.MULTILINE)) == MOST
        assert "50 smaller" in text
        assert f">+{MOST + 50}<" in text or f"+{MOST + 50} |" in text
    assert "200 smaller" in printed(compared)
    assert len(json.loads(as_json(compared))["changes"]) == MOST + 50
    assert "not shown" not in as_html(comparison(*days[:MOST]))


def test_markdown_shows_hostile_names_as_they_are():
    text = as_markdown(EVIL)
    assert not re.search(r"(?<!\\)[<>`\[{]", text.replace("\n", ""))
    assert text.startswith("# \\<")
    assert len(re.findall(r"^# ", text, re.MULTILINE)) == 1
    assert "http\\://" in text
    cells = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
    assert cells == {4, 10}


def notes(**other: Any) -> str:
    move = MovedLatest("ana", "net of refunds", "v1", "v2", NOW)
    return release_notes(MONTH, move, **{"deprecated_on": None, "description_changes": ["refunds are deducted"], **other})


def test_release_notes_name_what_changed_why_and_how_to_roll_back():
    text = notes(deprecated_on=date(2024, 5, 1))
    for line in (
        "# sales: v1 → v2",
        "2024-02-10 09:30 UTC ana moved `latest` of sales from v1 to v2",
        "Reason: net of refunds",
        "- refunds are deducted",
        "22 of 31 days differ",
        "2024-01-01 to 2024-01-02, 2024-01-04 to 2024-01-05",
        "v1 is deprecated from 2024-05-01",
        "lakehouse gold rollback sales --by",
    ):
        assert line in text
    assert "16 smaller changes not shown" in text
    assert "no date is set" in notes()


def test_the_way_back_is_a_command_that_can_be_pasted():
    move = MovedLatest("x", "y", "v1", "v2", NOW)
    text = release_notes(replace(MONTH, metric="a; rm -rf /\n"), move, deprecated_on=None, description_changes=())
    assert "    lakehouse gold rollback 'a; rm -rf /\\n' --by YOU" in text


@pytest.mark.parametrize("report", [simulation_html, simulation_markdown])
def test_a_simulation_reports_its_results(report):
    text = report(SIMULATION).replace("\N{NO-BREAK SPACE}", " ")
    summary = "1 of 2 days ended with another number; revenue 140.00 → 150.00 (+7.14 %); 5 of 100 rows arrived late (5.00 %)."
    for said in (summary, "late share", "10 %", "90.00", "+11.11 %", "late data", "bronze/sales@7", "gold/sales@12", "r2", "45"):
        assert said in text


def test_many_revisions_are_named_correctly():
    day = SimulatedDay("2024-01-01", "revenue", 1, 30, tuple(range(1, 31)), 1, 29)
    drawn = re.findall(r"<svg.*?</svg>", simulation_html(replace(SIMULATION, days=(day,))), re.DOTALL)[2]
    assert re.findall(r">(r\d+)</text>", drawn) == [f"r{at}" for at in range(1, 31, 3)]


def test_numbers_that_are_none_are_drawn_as_gaps():
    odd = [change(before, 1.0, f"2024-01-0{day}") for day, before in enumerate((float("nan"), float("inf"), None, 2.0), start=1)]
    assert "nan" not in "".join(re.findall(r"<svg.*?</svg>", as_html(comparison(*odd)), re.DOTALL)).lower()


def test_a_simulation_of_nothing_is_a_page_too():
    empty = Simulation("Nothing", {}, (), (), NOW)
    assert "No day was simulated." in simulation_html(empty)
    zero = replace(SIMULATION, days=(SimulatedDay("2024-01-01", "revenue", None, 0, (None, 0), 0, 0),))
    assert "How far each revision" not in simulation_html(zero)
    assert "new" in simulation_markdown(zero)


def test_matplotlib_waits_until_a_chart_is_drawn():
    script = (
        "import sys, lakehouse.reports.comparison_report, "
        "lakehouse.examples.simulation_commands; sys.exit('matplotlib' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
