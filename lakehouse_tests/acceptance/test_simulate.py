"""``lakehouse demo simulate`` on the real command line, compared with the events themselves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import accumulate
from typing import TYPE_CHECKING

import pytest

from lakehouse.examples import late_events
from lakehouse.examples.late_events import FINAL_AFTER, Options
from lakehouse.lake import Table
from lakehouse_tests.support import tried
from lakehouse_tests.support.cli import lakehouse_command

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.examples.late_events import Event

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark"), pytest.mark.merge]

OPTIONS = Options(days=6, events=30, late_share=0.3, seed=3)
COMMAND = ("simulate", "--days", "6", "--events", "30", "--late-share", "0.3", "--seed", "3")
#: For what depends on a second process, not on many days.
TWO_DAYS = Options(days=2, events=30, late_share=0.3, seed=3)
TWO_DAYS_COMMAND = ("simulate", "--days", "2", *COMMAND[3:])


class Model:
    """What should be published of a day, from its events alone."""

    def __init__(self, day: date, events: list[Event]) -> None:
        self.events = [event for event in events if event.happened_at.date() == day]
        ends = datetime.combine(day + timedelta(days=1), datetime.min.time(), timezone.utc)
        self.waited = 0
        while watermark(events, ends + timedelta(days=FINAL_AFTER + self.waited, minutes=-1)) < ends:
            self.waited += 1
        closed = FINAL_AFTER + self.waited
        self.provisional, self.final = self.known(day, 0), self.known(day, closed)
        self.on_time = sum(event.received_at.date() == day for event in self.events)
        sums = [self.known(day, after) for after in range(closed + 1)]
        told = list(zip(sums, [*["live"] * closed, "final"]))
        #: A revision for each day on which the number or its state is another one.
        self.revisions = [one for before, one in zip([None, *told], told) if one != before]

    def known(self, day: date, after: int) -> Decimal:
        """The sum of what has come by the end of a later day."""
        return sum((event.amount for event in self.events if event.received_at.date() <= day + timedelta(days=after)), Decimal(0))


def watermark(events: list[Event], now: datetime) -> datetime:
    """The watermark at ``now``: 48 hours behind the newest event of all files so far, and behind the clock in a pause."""
    files = defaultdict(list)
    for event in events:
        files[event.received_at.date(), event.received_at.hour // 6].append(event)
    stands, before = datetime.min.replace(tzinfo=timezone.utc), None
    arrivals = [(max(event.received_at for event in file), max(event.happened_at for event in file)) for file in files.values()]
    for arrived, newest in [*sorted(one for one in arrivals if one[0] <= now), (now, None)]:
        if before is not None and arrived - before > late_events.IDLE_TIMEOUT:
            stands = max(stands, arrived - late_events.IDLE_TIMEOUT - late_events.MAX_LATENESS)
        if newest is not None:
            stands, before = max(stands, newest - late_events.MAX_LATENESS), arrived
    return stands


@pytest.fixture(name="home", scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory, spark_remote: dict[str, str]) -> Path:
    home = tmp_path_factory.mktemp("simulation")
    done = lakehouse_command(home, *COMMAND, **spark_remote)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "Nothing changed" not in done.stdout
    return home


def models(options: Options) -> dict[date, Model]:
    events = late_events.events(options)
    return {day: Model(day, events) for day in sorted({event.happened_at.date() for event in events})}


@pytest.fixture(name="model", scope="module")
def _model() -> dict[date, Model]:
    return models(OPTIONS)


@pytest.mark.proof
def test_stopped_between_a_day_and_its_week_it_continues_where_it_was(tmp_path: Path) -> None:
    days = tmp_path / "lake" / "simulation" / "gold" / "simulation_revenue" / "_delta_log"
    said = os.environ | {"LAKEHOUSE_ROOT": str(tmp_path / "lake")}
    with subprocess.Popen(
        [sys.executable, "-m", "lakehouse", *TWO_DAYS_COMMAND], cwd=tmp_path, env=said, start_new_session=True
    ) as run:
        while run.poll() is None and not (days / f"{4:020}.json").exists():
            time.sleep(0.02)
        assert run.poll() is None
        os.killpg(run.pid, signal.SIGKILL)
        tried.count("kills")
    done = lakehouse_command(tmp_path, *TWO_DAYS_COMMAND)
    assert "Replaying 2024-11-07 to 2024-11-14" in done.stderr.replace("\n", " "), done.stderr
    rows_by_day = published(tmp_path)
    assert {day: [row["revenue"] for row in rows] for day, rows in rows_by_day.items()} == {
        day: [number for number, _ in expected.revisions] for day, expected in models(TWO_DAYS).items()
    }
    weeks = Table(str(tmp_path / "lake" / "simulation" / "gold" / "simulation_revenue_weekly")).read().to_pylist()
    for week in weeks:
        made_from = [
            rows_by_day[date.fromisoformat(day)][int(label[1:]) - 1] for day, label in json.loads(week["made_from"]).items()
        ]
        assert week["published_at"] >= max(row["published_at"] for row in made_from), "no week is older than its days"


def sample(home: Path) -> Path:
    return home / "lake" / "simulation"


def published(home: Path) -> dict[date, list[dict]]:
    rows = Table(str(sample(home) / "gold" / "simulation_revenue")).read().to_pylist()
    found = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["revision"]):
        found[row["event_date"]].append(row)
    return found


def test_every_revision_shows_what_had_arrived_by_then(home: Path, model: dict[date, Model]) -> None:
    found = published(home)
    assert {day: [(row["revenue"], row["state"]) for row in rows] for day, rows in found.items()} == {
        day: one.revisions for day, one in model.items()
    }
    assert any(len(one.revisions) == 4 for one in model.values()), "restated on each day, until it is final"
    assert {one.waited for one in model.values()} >= {1}, "due after two days, the close waits for the watermark"


def test_the_week_is_the_sum_of_its_days_and_becomes_final(home: Path, model: dict[date, Model]) -> None:
    rows = Table(str(sample(home) / "gold" / "simulation_revenue_weekly")).read(None, {"is_latest": [True]}).to_pylist()
    assert [(row["period"], row["state"], row["revenue"]) for row in rows] == [
        ("2024-W45", "final", sum(one.final for one in model.values()))
    ]


def test_the_reports_hold_the_numbers(home: Path, model: dict[date, Model]) -> None:
    html = (sample(home) / "reports" / "simulation.html").read_text()
    revenue = re.search(r"<h2>revenue</h2>.*?</section>", html, re.DOTALL)[0]
    lines = {
        cells[0]: cells[1:]
        for row in re.findall(r"<tr><th scope=\"row\">.*?</tr>", revenue, re.DOTALL)
        if (
            cells := [re.sub(r"<small>.*|<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)]
        )
    }
    assert lines == {
        f"{day}": [
            *(f"{expected.provisional:,.2f}", "none", f"{expected.final:,.2f}"),
            f"+{expected.final - expected.provisional:,.2f}" if expected.final != expected.provisional else "0.00",
            *(f"{count}" for count in (len(expected.revisions), expected.on_time, len(expected.events) - expected.on_time)),
        ]
        for day, expected in model.items()
    }
    waited = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)
        for row in re.findall(r"<tr>.*?</tr>", html.partition("<h2>The watermark</h2>")[2].partition("</tbody>")[0])
    ]
    assert {cells[0]: cells[4] for cells in waited if cells[0] != "Day"} == {
        f"{day}": "1 day" if expected.waited == 1 else f"{expected.waited} days" if expected.waited else ""
        for day, expected in model.items()
    }
    assert revenue.count("<svg") == 4, "two charts, for wide screens and narrow ones"
    text = (sample(home) / "reports" / "simulation.md").read_text()
    for expected in model.values():
        assert f"{expected.provisional:,.2f}" in text
        assert f"{expected.final:,.2f}" in text


def test_every_promotion_is_logged_with_what_it_was_made_from(home: Path, model: dict[date, Model]) -> None:
    log = [json.loads(line) for line in (sample(home) / "reports" / "promotions.jsonl").read_text().splitlines()]
    days = [line for line in log if "weekly" not in line["version"]]
    assert Counter(line["period"] for line in days) == {f"{day}": len(one.revisions) for day, one in model.items()}
    newest_arrival = max(event.received_at.date() for one in model.values() for event in one.events)
    for line in days:
        made = re.fullmatch(r"silver/simulation_events@\d+, arrivals to (\S+)", line["inputs"])
        on = datetime.fromisoformat(line["published_at"]).date()
        assert made[1] == f"{min(on, newest_arrival)}"
        assert re.fullmatch(r"gold/simulation_revenue@\d+", line["output"])
    weeks = [line for line in log if "weekly" in line["version"]]
    assert [line["version"] for line in weeks] == [f"simulation_revenue_weekly_v2024-W45.r{at + 1}" for at in range(len(weeks))]
    outputs = {line["output"] for line in days}
    assert {line["inputs"] for line in weeks} <= outputs
    assert list(accumulate((line["published_at"] for line in log), max)) == [line["published_at"] for line in log]


def test_the_same_again_changes_nothing_and_reports_it(home: Path) -> None:
    def content() -> dict[Path, tuple[int, int]]:
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in home.rglob("*") if path.is_file()}

    before = content()
    done = lakehouse_command(home, *COMMAND, PATH="/nonexistent", JAVA_HOME="")
    assert done.returncode == 0, done.stderr
    assert "Nothing changed: every event, number and report exists already." in done.stdout
    assert content() == before
    assert sorted(path.name for path in (home / "lake").iterdir()) == ["simulation"], "the user's own lake is not touched"


def test_other_options_and_other_folders_are_refused(home: Path) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "thesis").touch()
    for arguments, message in (
        (
            ("--seed", "4"),
            "contains a simulation with other options (days 6, events 30, late share 0.3, late hours 24-72, seed 3)",
        ),
        (("--root", "mine"), "contains something other than a simulation"),
        (("--late-hours", "72-24"), "--late-hours is the least and the most in whole hours, as in 24-72"),
    ):
        done = lakehouse_command(home, *COMMAND, *arguments)
        assert done.returncode == 2
        assert message in " ".join(done.stderr.replace("│", " ").split())
    assert [path.name for path in (home / "mine").iterdir()] == ["thesis"]


def test_a_simulated_number_can_be_asked_for_as_any_other(home: Path, model: dict[date, Model]) -> None:
    said = {"LAKEHOUSE_ROOT": str(sample(home)), "LAKEHOUSE_CONTRACTS": str(sample(home) / "contracts")}
    day, one = next(iter(model.items()))
    told = lakehouse_command(home, "gold", "show", "simulation_revenue", f"{day}", "--json", **said)
    assert Decimal(str(json.loads(told.stdout)["rows"][0]["revenue"])) == one.final, told.stderr
    found = lakehouse_command(home, "impact", "simulation_events", "--file", f"arrival_date={day}.12h.csv", "--json", **said)
    moved = [step["version"] for step in json.loads(found.stdout)["moved"]]
    assert moved == [f"simulation_revenue_v{day}.r1", "simulation_revenue_weekly_v2024-W45.r1"]
