"""The pages in a real browser, on the demo's data and served by the real command: they show what the tables hold.

Needs Debian's Chromium, which is installed where apt-get can; skipped with a message elsewhere.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter, defaultdict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pytest

from lakehouse.lake import Table
from lakehouse_tests.support.cli import BUNDLED_CONTRACTS, lakehouse_command

pytest.importorskip("selenium", reason="pip install -e '.[test]' brings selenium")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from lakehouse_tests.support.browser import PHONE, WIDE, chromium, installed, set_viewport
from lakehouse_tests.support.demo_shop import ServedDemo, demo_environment, served
from lakehouse_tests.support.wheel_demo import wheel_demo

if TYPE_CHECKING:
    from collections.abc import Iterator


pytestmark = [pytest.mark.spark, pytest.mark.merge]
TODAY = date(2024, 11, 16)
DAY = "2024-11-07"
STATES = {"live": "Live (updating)", "preliminary": "Preliminary", "final": "Final"}
MEASURES = ("revenue", "sales", "customers")
PAGES = (
    "/",
    "/page/metrics/revenue",
    "/page/metrics/revenue?by=month",
    f"/page/metrics/revenue/{DAY}",
    f"/page/metrics/revenue/{DAY}/r4",
    "/page/metrics/revenue/2024-W45",
    "/page/metrics/earthquakes_daily",
    "/page/sources/sales",
    "/page/sources/earthquakes",
    "/page/restated",
    "/page/lateness?source=sales",
    "/page/lateness?source=earthquakes",
    "/page/quarantine",
    "/page/quarantine?status=rejected",
    "/page/sign-in",
    "/page/nowhere",
)


@pytest.fixture(name="demo", scope="module")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedDemo]:
    if not installed():
        pytest.skip("there is no Chromium here, and apt-get did not bring one")
    home = tmp_path_factory.mktemp("pages")
    wheel_demo(tmp_path_factory).copy_to(home)
    shutil.copytree(BUNDLED_CONTRACTS, home / "contracts")
    token = lakehouse_command(home, "token", "add", "anna", "--role", "steward", **demo_environment(home)).stdout.strip()
    with served(home) as url, chromium() as browser:
        yield ServedDemo(home, url, browser, token)


def shown(value: Any) -> str:
    return f"{value:,}"


def test_the_overview(demo: ServedDemo) -> None:
    newest = max((row for row in demo.gold() if row["is_latest"]), key=lambda row: row["event_date"])
    set_viewport(demo.browser)
    demo.go("/")
    card = demo.element("#revenue")
    figures = {one.get_attribute("data-measure"): one.text.splitlines()[0] for one in card.find_elements(By.TAG_NAME, "dd")}
    assert figures == {name: shown(newest[name]) for name in MEASURES}
    assert card.find_element(By.CSS_SELECTOR, ".period a").text == newest["period"]
    assert card.find_element(By.CSS_SELECTOR, ".state").text == STATES[newest["state"]]
    times = sum(restates(row) for row in demo.gold() if row["period"] == newest["period"])
    assert card.find_element(By.CSS_SELECTOR, ".badge").text == f"restated {times} times"
    assert "Nothing has been published yet" in demo.text("#earthquakes_daily")
    assert "11 rows of sales wait for a steward" in demo.text()


def restates(row: dict[str, Any]) -> bool:
    return row["revision"] > 1 and row["restated_on"] == row["published_at"]


@pytest.mark.parametrize(("by", "name"), [("day", "revenue"), ("week", "revenue_weekly"), ("month", "revenue_monthly")])
def test_a_series_tells_the_states_apart(demo: ServedDemo, by: str, name: str) -> None:
    demo.go(f"/page/metrics/revenue?by={by}")
    latest = [row for row in demo.gold(name) if row["is_latest"]]
    times = Counter(row["period"] for row in demo.gold(name) if restates(row))
    found = {line[0]: line for line in demo.table("section:first-of-type table")}
    assert found.keys() == {row["period"] for row in latest}
    for row in latest:
        _, state, *numbers, rows, version = found[row["period"]]
        assert numbers == [shown(row[measure]) for measure in MEASURES]
        assert rows == shown(row["row_count"])
        assert version == f"r{row['revision']}"
        assert STATES[row["state"]] in state
        assert ("restated" in state) == (times[row["period"]] > 0)
    if by == "day":
        assert len({row["state"] for row in latest}) > 1


def test_a_story_shows_each_revision_and_the_rows_it_came_from(demo: ServedDemo) -> None:
    versions = [row for row in demo.gold() if row["period"] == DAY]
    demo.go(f"/page/metrics/revenue/{DAY}")
    assert [one.get_attribute("id") for one in demo.all(".steps > li")] == [f"r{row['revision']}" for row in versions[::-1]]
    for before, row in zip([None, *versions], versions):
        step = demo.element(f"#r{row['revision']}")
        assert step.find_element(By.CSS_SELECTOR, ".state").text == STATES[row["state"]]
        assert row["published_at"].strftime("%Y-%m-%d %H:%M") in step.text
        if before is None:
            assert f"First published: revenue {shown(row['revenue'])}" in step.text
        elif restates(row):
            apart = row["revenue"] - before["revenue"]
            assert f"revenue {shown(before['revenue'])} → {shown(row['revenue'])} ({apart:+,}" in step.text
            assert step.find_element(By.CSS_SELECTOR, "summary").text == rows_in_words(row["changed_rows"])
        else:
            assert f"The same number, now {STATES[row['state']].lower()}." in step.text
    # The rows behind a move, held against what silver says of these sales.
    last = next(row for row in reversed(versions) if restates(row))
    demo.go(f"/page/metrics/revenue/{DAY}/r{last['revision']}")
    shown_rows = {line[0]: line for line in demo.table("table.stack")}
    assert len(shown_rows) == last["changed_rows"]
    silver = Table(str(demo.home / "lake" / "silver" / "sales")).read(["record_key", "event_date"]).to_pylist()
    living = {row["record_key"] for row in silver if f"{row['event_date']}" == DAY}
    gone = {key for key, (_, what, *_rest) in shown_rows.items() if what in {"withdrawn", "moved to another day"}}
    assert gone
    assert shown_rows.keys() - gone <= living
    assert gone.isdisjoint(living)
    audit = Table(str(demo.home / "lake" / "ops" / "late_arrival_audit")).read().to_pylist()
    reasons = {row["event_id"]: row["reason"] for row in audit if row["silver_version"] == last["silver_version"]}
    assert all(line[2] == reasons.get(key, "arrived on time") for key, line in shown_rows.items())
    assert "amount" not in demo.text(".stack tbody tr small") or "→" not in demo.text(".stack"), "values are for stewards"


def rows_in_words(count: int) -> str:
    return f"{count:,} {'row' if count == 1 else 'rows'} behind it"


def test_what_was_restated_this_week(demo: ServedDemo) -> None:
    first = datetime.combine(TODAY - timedelta(days=6), datetime.min.time(), timezone.utc)
    gold = [row for name in ("revenue", "revenue_weekly", "revenue_monthly") for row in demo.gold(name) if restates(row)]
    expected = [row for row in gold if row["published_at"] >= first]
    demo.go("/page/restated")
    lines = demo.table()
    assert len(lines) == len(expected) > 0
    assert {(line[1], line[0]) for line in lines} == {
        (f"revenue {row['period']}", row["published_at"].strftime("%Y-%m-%d %H:%M")) for row in expected
    }
    counts = Counter(row["reason"] for row in expected)
    assert all(f"{count} by {reason.replace('_', ' ')}" in demo.text(".lead") for reason, count in counts.items())
    demo.leave(demo.element("a[rel=prev]"), Keys.ENTER)
    earlier = [row for row in gold if first - timedelta(days=7) <= row["published_at"] < first]
    assert len(demo.table()) == len(earlier) > 0


def test_lateness_has_the_watermark_and_the_trend(demo: ServedDemo) -> None:
    bronze = Table(str(demo.home / "lake" / "bronze" / "sales")).read().to_pylist()
    sound = [row for row in bronze if row["malformed_reason"] is None and row["event_ts"]]
    late = [(row["arrival_date"], -(-(row["arrival_ts"] - row["event_ts"]) // timedelta(seconds=1))) for row in sound]
    demo.go("/page/lateness?source=sales")
    count = sum(seconds > 86_400 for _, seconds in late)
    assert f"{count} of {len(late)} rows" in demo.text(".lead")
    drawn = [one.get_attribute("textContent") for one in demo.all(".wide svg text")]
    assert "cutoff: 7 d" in drawn
    assert "on time: 1 d" in drawn
    within = {line[0]: line for line in demo.table()}
    inserts = [seconds for (_, seconds), row in zip(late, sound) if row["change_op"] == "insert"]  # others have their own bounds
    for words, days in (("1 d", 1), ("3 d", 3), ("7 d", 7)):
        share = sum(seconds <= days * 86_400 for seconds in inserts) / len(inserts)
        assert within[words][1] == f"{100 * share:.2f} %"
    assert within["7 d"][3] == "in force, tier of months"
    by_day = defaultdict(list)
    for day, seconds in late:
        by_day[f"{day}"].append(seconds)
    trend = {line[0]: line for line in demo.table("#trend")}
    assert trend.keys() == by_day.keys()
    for day, own in by_day.items():
        assert trend[day][1] == f"{len(own)}"
        for cell, share in zip(trend[day][2:], (50, 95, 99)):
            assert cell == in_words(sorted(own)[-(-share * len(own) // 100) - 1])


def in_words(seconds: int) -> str:
    found = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)):
        many, seconds = divmod(seconds, length)
        found += [f"{many} {unit}"] if many else []
    return " ".join(found[:2])


def sign_in(demo: ServedDemo) -> None:
    demo.go("/page/sign-in?next=/page/quarantine")
    demo.leave(demo.element("#token"), demo.token, Keys.ENTER)
    assert demo.text(".who").startswith("anna, steward")


def axe(demo: ServedDemo) -> list[str]:
    """What axe-core finds to be serious."""
    script = (files("axe_core_python") / "axe.min.js").read_text()
    demo.browser.execute_script(script)
    found = demo.browser.execute_async_script("axe.run().then(arguments[0], error => arguments[0]({error: `${error}`}))")
    assert found["passes"], found
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        (WIDE, "light"),
        pytest.param(WIDE, "dark", marks=pytest.mark.proof),
        pytest.param(PHONE, "light", marks=pytest.mark.proof),
        (PHONE, "dark"),
    ],
)
def test_everybody_can_use_every_page(demo: ServedDemo, size: tuple[int, int], scheme: str) -> None:
    sign_in(demo)
    demo.go("/page/quarantine")
    row = str(demo.element("tbody th a").get_attribute("href")).removeprefix(demo.url)
    set_viewport(demo.browser, size, scheme)
    demo.browser.get_log("browser")
    for path in (*PAGES, row):
        demo.go(path)
        demo.browser.execute_script("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert axe(demo) == [], path
        wide = demo.browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= size[0], f"{path} is too wide"
        asked = demo.browser.execute_script("return performance.getEntriesByType('resource').map(one => one.name)")
        assert asked
        assert all(one.startswith(demo.url) for one in asked), "nothing comes from elsewhere"
        assert demo.element("body").value_of_css_property("color") != "rgb(0, 0, 0)", "the style sheet is there"
    complaints = [line["message"] for line in demo.browser.get_log("browser") if "/page/nowhere" not in line["message"]]
    assert complaints == [], "the policy takes nothing away from a page"


def test_the_keyboard_is_enough(demo: ServedDemo) -> None:
    set_viewport(demo.browser)
    demo.go("/")
    demo.element("body").send_keys(Keys.TAB)
    focused = demo.browser.switch_to.active_element
    assert focused.text == "Skip to the content"
    assert focused.rect["x"] >= 0, "it is seen while it has the focus"
    assert focused.value_of_css_property("outline-style") == "solid"
    focused.send_keys(Keys.ENTER)
    assert demo.browser.switch_to.active_element.get_attribute("id") == "content"
    demo.go(f"/page/metrics/revenue/{DAY}")
    demo.element("summary").send_keys(Keys.ENTER)
    assert demo.element("details").get_attribute("open")
    demo.go("/page/metrics/revenue")
    assert all(one.get_attribute("tabindex") == "0" for one in demo.all(".scroll")), "what scrolls can be scrolled by keys"


def test_a_decision_restates_the_number(demo: ServedDemo) -> None:
    """By keyboard alone, from signing in to the number that changed."""
    day = "2024-11-09"
    before = max((row for row in demo.gold() if row["period"] == day), key=lambda row: row["revision"])
    set_viewport(demo.browser)
    demo.browser.delete_all_cookies()
    demo.go("/page/quarantine")
    assert "S-doubtful" in {line[0] for line in demo.table()}
    demo.leave(demo.browser.find_element(By.LINK_TEXT, "S-doubtful"), Keys.ENTER)
    assert demo.all("fieldset") == []
    demo.leave(demo.element("main section:last-of-type a"), Keys.ENTER)
    demo.leave(demo.element("#token"), "lh_00000000_wrong", Keys.ENTER)
    assert "unknown, expired or revoked" in demo.text("[role=alert]")
    demo.leave(demo.element("#token"), demo.token, Keys.ENTER)
    assert "amount -24.50" in demo.text()
    demo.element("#reason").send_keys("a refund", Keys.ENTER)
    assert demo.all(".decided") == [], "Enter alone decides nothing"
    demo.element("input[value=accept]").send_keys(Keys.SPACE)
    demo.leave(demo.element("#reason"), Keys.ENTER)
    assert "Accepted by anna" in demo.text(".decided")
    assert "The decision is recorded. The numbers follow: 2024-11-09 waits for silver." in demo.text(".decided")
    assert shown(before["revenue"]) in demo.text(".decided")
    row = demo.browser.current_url
    demo.go("/page/quarantine")
    assert "S-doubtful" not in {line[0] for line in demo.table()}
    demo.browser.get(row)

    command = shlex.split(demo.element("#follow").text)
    assert command[0] == "lakehouse"
    assert f"gold/revenue: {day} published again" in demo.run(*command[1:]).stdout

    demo.browser.refresh()
    assert "Silver and gold are up to date." in demo.text(".decided")
    after = max((row for row in demo.gold() if row["period"] == day), key=lambda row: row["revision"])
    assert after["revenue"] == before["revenue"] + Decimal("-24.50")
    assert f"r{after['revision']} {STATES[after['state']]} revenue {shown(after['revenue'])}" in demo.text(".decided")
    demo.leave(demo.element(".decided li a"), Keys.ENTER)
    step = demo.text(f"#r{after['revision']}")
    assert f"revenue {shown(before['revenue'])} → {shown(after['revenue'])} (-24.50" in step
    demo.element(f"#r{after['revision']} summary").click()
    assert re.search(r"S-doubtful new store harbour; amount -24.50.* a refund anna", demo.text(f"#r{after['revision']}"))
    demo.go("/page/restated")
    assert any(line[1] == f"revenue {day}" and "(-24.50" in line[2] for line in demo.table())
    demo.leave(demo.element(".who button"), Keys.ENTER)
    assert demo.text(".who") == "Sign in"
