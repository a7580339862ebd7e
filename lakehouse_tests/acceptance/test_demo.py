"""The README's main job, done by the built wheel in a fresh environment, and the commands that people run after it."""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter, defaultdict
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from lakehouse.lake import Table
from lakehouse.ledger.row_states import Disposition
from lakehouse_tests.support.cli import lakehouse_command
from lakehouse_tests.support.wheel_demo import CHECKOUT, WheelDemo, wheel_demo

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.merge]


@pytest.fixture(name="demo", scope="module")
def _demo(tmp_path_factory: pytest.TempPathFactory) -> WheelDemo:
    return wheel_demo(tmp_path_factory)


@pytest.fixture(name="home", scope="module")
def _home(tmp_path_factory: pytest.TempPathFactory, demo: WheelDemo) -> Path:
    home = tmp_path_factory.mktemp("demo")
    demo.copy_to(home)
    return home


@dataclass(frozen=True)
class SecondDemo:
    """``lakehouse demo`` given once more on its lake: what it printed, and the versions of tables before it and after it."""

    done: subprocess.CompletedProcess[str]
    before: list[int]
    after: list[int]


@pytest.fixture(name="again", scope="module")
def _again(home: Path, spark_remote: dict[str, str]) -> SecondDemo:
    def versions() -> list[int]:
        layers = ("silver/sales", "gold/revenue", "silver/customers", "gold/revenue_by_tier", "gold/gold_share")
        return [Table(str(home / "lake" / layer)).open().version() for layer in layers]

    before = versions()
    return SecondDemo(lakehouse_command(home, "demo", **spark_remote), before, versions())


def test_the_demo_shows_the_numbers_and_how_to_go_on(demo: WheelDemo) -> None:
    assert "Traceback" not in demo.stderr
    assert "Revenue per event day: as first published, and now" in demo.stdout
    assert "dagster dev -w workspace.yaml" in demo.stdout


def test_the_first_screen_shows_the_numbers_of_the_table(demo: WheelDemo, home: Path, again: SecondDemo) -> None:
    table = Table(str(home / "lake" / "gold" / "revenue")).read(["event_date", "revenue", "adjustment", "is_latest"])
    now = {f"{row['event_date']}": row["revenue"] for row in table.to_pylist() if row["is_latest"]}
    adjusted = {f"{row['event_date']}": row["revenue"] for row in table.to_pylist() if row["adjustment"]}
    assert adjusted, "a closed day has an adjustment"
    for days, printed in ((5, again.done.stdout), (14, demo.stdout)):
        lines = printed.splitlines()
        rows = [line.split() for line in lines if re.match(r" 2024-11-\d\d +(live|preliminary|final) ", line)]
        assert len(rows) == days
        assert {row[0]: Decimal(row[3].replace(",", "")) for row in rows} == {row[0]: now[row[0]] for row in rows}
        booked = re.findall(r"^(2024-11-\d\d) was final: ([+-][\d.,]+) is booked to", printed, re.MULTILINE)
        assert {day: Decimal(amount.replace(",", "")) for day, amount in booked} == adjusted
        assert days == 14 or len(lines) <= 35, "one screen"


def test_a_wheel_holds_the_product_only_and_all_of_it(demo: WheelDemo) -> None:
    with zipfile.ZipFile(demo.wheel) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name}
        [licence] = (name for name in archive.namelist() if name.endswith(".dist-info/licenses/LICENSE"))
        assert b"Apache License" in archive.read(licence)
    product = {f"{path.relative_to(CHECKOUT)}" for path in (CHECKOUT / "lakehouse").rglob("*") if path.is_file()}
    assert files == {name for name in product if "__pycache__" not in name}


def test_the_same_demo_again_changes_nothing(again: SecondDemo) -> None:
    assert again.done.returncode == 0
    assert "0 of them new" in again.done.stderr
    assert again.after == again.before


def test_every_row_is_accounted_for(home: Path) -> None:
    bronze = Table(str(home / "lake" / "bronze" / "sales")).read(["arrival_date", "malformed_reason"])
    per_day = Counter(f"{day}" for day in bronze["arrival_date"].to_pylist())
    done = lakehouse_command(home, "account", "sales", "--json")
    account = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["arrival_date"]: line["rows"] for line in account} == per_day
    kinds = [kind.value for kind in Disposition]
    assert all(sum(line[kind] for kind in kinds) == line["rows"] for line in account)
    assert [sum(line[kind] for line in account) for kind in ("malformed", "quarantined")] == [1, 11]
    silver = Table(str(home / "lake" / "silver" / "sales")).read(["record_key"])
    deleted = sum(line["applied"] for line in account) - len(silver)
    assert deleted > 0, "the deletes that count are applied too, and leave no row"
    assert lakehouse_command(home, "account", "sales").stdout.count("\n") > len(account)


def test_a_key_is_followed_from_its_lines_to_the_numbers_it_moved(home: Path) -> None:
    claims = Table(str(home / "lake" / "ops" / "sales_keys")).read(["record_key", "kind", "event_date"]).to_pylist()
    days = {row["record_key"]: set() for row in claims}
    for row in claims:
        if row["kind"] in {"insert", "correct"}:
            days[row["record_key"]].add(row["event_date"])
    moved = min(key for key, seen in days.items() if len(seen) > 1)
    trace = json.loads(lakehouse_command(home, "trace", "sales", moved, "--json").stdout)
    assert [row["disposition"] for row in trace["records"]].count("applied") == 1
    superseded = next(row for row in trace["records"] if row["disposition"] == "superseded")
    assert superseded["decided_by"].startswith("arrival_date=")
    assert {change["change"] for change in trace["silver"]} >= {"inserted", "removed"}
    assert all(change["published"] for change in trace["silver"]), "each of its changes moved a published day"
    assert "gold/revenue of" in lakehouse_command(home, "trace", "sales", moved).stdout
    nobody = lakehouse_command(home, "trace", "sales", "nobody")
    assert nobody.returncode == 1
    assert "No row of bronze/sales has the key 'nobody'" in nobody.stderr


@pytest.mark.usefixtures("spark")
def test_a_steward_lets_a_row_in_and_a_rebuild_keeps_it(home: Path) -> None:
    def revenue() -> dict[str, Decimal]:
        rows = Table(str(home / "lake" / "gold" / "revenue")).read(["event_date", "revenue"], {"is_latest": [True]})
        return {f"{row['event_date']}": row["revenue"] for row in rows.to_pylist()}

    before = revenue()
    listed = lakehouse_command(home, "quarantine", "list", "sales").stdout
    assert "S-doubtful for 2024-11-09" in listed
    assert "rule failed: fails amount_is_positive; review by 2024-11-23" in listed
    row = listed.splitlines()[0]
    assert "amount  -24.50" in lakehouse_command(home, "quarantine", "show", "sales", row).stdout

    done = lakehouse_command(home, "quarantine", "accept", "sales", row, "--by", "anna", "--reason", "a refund")
    assert done.returncode == 0, done.stderr
    assert "1 row accepted by anna" in done.stdout
    assert "gold/revenue: 2024-11-09 published again" in done.stdout
    after = revenue()
    assert {day: after[day] - before[day] for day in after if after[day] != before[day]} == {"2024-11-09": Decimal("-24.50")}
    assert "accepted by anna" in lakehouse_command(home, "trace", "sales", "S-doubtful").stdout
    told = json.loads(lakehouse_command(home, "audit", "sales", "--actor", "anna", "--json").stdout)
    assert (told["action_type"], told["reason"]) == ("steward", "a refund")
    assert told["impacted_kpis"] == ["revenue@2024-11-09", "revenue_weekly@2024-W45", "revenue_monthly@2024-11"]

    days = ("--start-date", "2024-11-08", "--end-date", "2024-11-10")
    done = lakehouse_command(home, "rebuild", "sales", *days, "--reason", "to be sure", "--runner-id", "eve")
    assert done.returncode == 0, done.stderr
    assert "3 event days are rebuilt, 0 rows are judged differently" in done.stdout
    assert "silver/sales: no day changed" in done.stdout
    assert revenue() == after


def test_impossible_decisions_are_reported(home: Path) -> None:
    said = ("--by", "anna", "--reason", "because")
    for arguments, expected in (
        (("accept", "sales", *said), "pass rows, a file of --ids, a filter"),
        (("accept", "sales", "17", *said), "'17' is no row; write it as"),
        (("reject", "sales", "abc:17", *said, "--no-restate"), "abc:17 is not a well-formed row of bronze/sales"),
        (("list", "sales", "--cause", "mood"), "--cause is one of"),
        (("show", "sales", "abc:17"), "abc:17 is not and was not in quarantine"),
    ):
        done = lakehouse_command(home, "quarantine", *arguments)
        assert done.returncode != 0
        assert expected in " ".join(done.stderr.replace("│", " ").split()), done.stderr
        assert "Traceback" not in done.stderr


def test_a_tier_that_is_known_late_restates_exactly_the_days_of_the_customers_sales_in_the_range(demo: WheelDemo) -> None:
    sample = demo.folder / "home" / "lake"  # the other tests change their copy
    story = demo.stdout.partition("A tier that was known late")[2].partition("For the numbers by tier")[0]
    (customer,) = set(re.findall(r"the tier of customer (\d+) from 2024-11-04 to 2024-11-11 became gold", story))

    sales = Table(str(sample / "silver" / "sales")).read(["event_date", "customer_id", "amount"]).to_pylist()
    of_customer: dict[str, Decimal] = defaultdict(Decimal)
    for sale in sales:
        if sale["customer_id"] == int(customer):
            of_customer[f"{sale['event_date']}"] += sale["amount"]
    expected = {day: amount for day, amount in of_customer.items() if "2024-11-04" <= day < "2024-11-11"}
    assert expected.keys() < of_customer.keys(), "the customer bought on other days, too"

    moved = {name: restated(sample, name) for name in ("revenue_by_tier", "gold_share")}
    assert moved["revenue_by_tier"].keys() == expected.keys()
    assert moved["gold_share"].keys() == expected.keys()
    assert moved["revenue_by_tier"] == {day: {"gold": amount, "silver": -amount} for day, amount in expected.items()}
    assert set(re.findall(r"^ (2024-11-\d\d)", story, re.MULTILINE)) == expected.keys()
    days = len({sale["event_date"] for sale in sales})
    assert f"{len(expected)} of {days} days of revenue_by_tier were restated, and gold_share on {len(expected)} of them" in story
    assert story.partition("Untouched: ")[2].partition(".")[0].count("Nov ") == days - len(expected)
    assert re.search(rf"customers +{customer} +tier +2024-11-04 +2024-11-11 +silver +gold", story)


def restated(sample: Path, name: str) -> dict[str, dict[str, Decimal]]:
    """Per restated day what the last restatement added to each row of the grain; of a number without a grain under its name."""
    by_day: dict[str, dict[int, dict[str, Decimal]]] = defaultdict(lambda: defaultdict(dict))
    measure, changed = {"revenue_by_tier": "revenue", "gold_share": "gold_percent"}[name], {}
    for row in Table(str(sample / "gold" / name)).read().to_pylist():
        by_day[f"{row['event_date']}"][row["revision"]][row.get("tier", name)] = row[measure]
    for day, revisions in by_day.items():
        for before, after in pairwise(sorted(revisions)):
            old, new = revisions[before], revisions[after]
            if old != new:
                assert day not in changed, "once"
                changed[day] = {tier: new[tier] - old.get(tier, Decimal(0)) for tier in new if new[tier] != old.get(tier)}
    return changed


def test_the_story_of_a_restated_day_names_the_change(home: Path) -> None:
    environment = {"LAKEHOUSE_CONTRACTS": str(home / "lake" / "demo_contracts")}
    day = min(restated(home / "lake", "revenue_by_tier"))
    because = r"restated because the tier of customer \d+ from 2024-11-04 to 2024-11-11 became gold"
    for command in ("history", "show"):
        text = lakehouse_command(home, "gold", command, "revenue_by_tier", day, **environment).stdout
        assert len(re.findall(because, text)) == 1
    history = lakehouse_command(home, "gold", "history", "revenue_by_tier", day, "--json", **environment).stdout
    named = [json.loads(line).get("because") for line in history.splitlines()]
    assert [bool(one) for one in named].count(True) == 1
    assert "r2" in lakehouse_command(home, "gold", "show", "gold_share", day, **environment).stdout
    (customer,) = set(re.findall(r"of customer (\d+) from", history))
    key = f'["{customer}","2024-11-04T00:00:00.000000Z"]'
    trace = lakehouse_command(home, "trace", "customers", key, **environment).stdout
    assert len(re.findall(because, trace)) == 1
    assert f"gold/revenue_by_tier of {day}, " in trace
