"""When files start bronze: once they are stable and their day is complete, and three times at most in one state."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from lakehouse.bronze.ingest import Ingest
from lakehouse.contracts import load_catalog
from lakehouse.contracts.loader import Catalog
from lakehouse.lake import Lake
from lakehouse.lateness import missing_inputs
from lakehouse.ledger import ingestions
from lakehouse.orchestration.automation import landing_sensor
from lakehouse.orchestration.execution.replay import Replay
from lakehouse.orchestration.plan_runs import AT_ONCE
from lakehouse.settings import Settings
from lakehouse_tests.support.sensor_ticks import SensorTicks, days_of

if TYPE_CHECKING:
    from lakehouse.bronze.ingest import DayReport

BUNDLED = load_catalog(None)
DAY = date(2024, 11, 5)
NAME = f"arrival_date={DAY}.csv"
HEADER = "sale_id,store,amount,customer_id,sold_at,received_at,op,is_correction,corrects_sale_id\n"


def no_session() -> None:
    """For runs that write nothing into Bronze."""
    pytest.fail("nothing of this needs Spark")


class Landing(SensorTicks):
    """The landing sensor of sales, and what happens to its folder."""

    def __init__(self, lake: Lake, instance: dg.DagsterInstance, **complete_when: str) -> None:
        sales = BUNDLED.sources["sales"]
        if complete_when:
            source = type(sales.source).model_validate({**sales.source.model_dump(), "complete_when": complete_when})
            sales = sales.model_copy(update={"source": source})
        super().__init__(lake, Catalog({"sales": sales}), "landing_sales", instance)

    def put(self, name: str, content: str | bytes = HEADER, modified: float = 1_700_000_000) -> Path:
        """Write a file as copying tools do: with the time of the original."""
        path = Path(str(self.lake.settings.landing), name)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (modified, modified))
        return path

    def settle(self) -> None:
        """Look, and let the time pass."""
        assert not self.run_requests()
        self.wait(self.lake.settings.settle_seconds)

    def run(self, request: dg.RunRequest | None = None) -> DayReport:
        """What bronze does in the requested run, up to where Spark begins; by default in one started by a person."""
        files = None if request is None else request.run_config["ops"]["bronze__sales"]["config"]["files"]
        report = Ingest(self.lake, self.catalog.sources["sales"], no_session, "run").day(DAY, files)  # type: ignore[arg-type]
        if request is not None:
            self.add_run(request, dg.DagsterRunStatus.SUCCESS)
        return report


@pytest.fixture(name="landing")
def _landing(deployment: Lake, instance: dg.DagsterInstance) -> Landing:
    return Landing(deployment, instance)


def known_missing(landing: Landing) -> list[str]:
    return [entry.text for entry in missing_inputs.of(landing.lake, "sales")]


def test_a_file_is_ingested_when_two_scans_have_seen_it_unchanged(landing: Landing) -> None:
    assert landing.skip_message() == "no new file"
    landing.put(NAME)
    assert landing.skip_message() == f"not stable yet: {NAME}"
    landing.wait(landing.lake.settings.settle_seconds - 1)
    assert landing.skip_message() == f"not stable yet: {NAME}"
    landing.wait(1)
    (request,) = landing.run_requests()
    assert days_of(request) == ["2024-11-05"]
    assert request.asset_selection == [dg.AssetKey(["bronze", "sales"]), dg.AssetKey(["silver", "sales"])]
    (again,) = landing.run_requests()
    assert again.run_key == request.run_key, "a repeated tick starts nothing twice"


def test_a_file_that_grows_under_an_old_time_is_left(landing: Landing) -> None:
    for rows in range(3):
        landing.put(NAME, HEADER + "1,north\n" * rows)
        landing.settle()
    assert len(landing.run_requests()) == 1


def test_a_file_from_the_future_is_taken_all_the_same(landing: Landing) -> None:
    landing.put(NAME, modified=4_000_000_000)
    landing.settle()
    assert len(landing.run_requests()) == 1


def test_only_the_stable_files_of_a_day_are_ingested(landing: Landing) -> None:
    landing.put(NAME, "id\n")
    landing.settle()
    landing.put(f"arrival_date={DAY}.late.csv", "half a f")
    (request,) = landing.run_requests()
    report = landing.run(request)
    assert [entry.source_file for entry in report.held] == [NAME]
    assert report.waiting == [f"arrival_date={DAY}.late.csv is left until it is stable"]
    landing.wait(5)
    (late,) = landing.run_requests()
    assert list(late.run_config["ops"]["bronze__sales"]["config"]["files"]) == [f"arrival_date={DAY}.late.csv"]


def test_a_file_that_changed_after_the_tick_is_left_to_later_ticks(landing: Landing) -> None:
    landing.put(NAME, "half")
    landing.settle()
    (request,) = landing.run_requests()
    landing.put(NAME, "half, and some more")
    assert landing.run(request).waiting == [f"{NAME} is left until it is stable"]
    assert not ingestions.all_of(landing.lake, "sales")
    landing.settle()
    (other,) = landing.run_requests()
    assert other.run_key != request.run_key


def test_a_file_that_was_held_is_taken_when_it_is_completed(landing: Landing) -> None:
    whole = gzip.compress((HEADER + "1,north,1.00,7,2024-11-04T10:00:00Z,2024-11-05T06:00:00Z,insert,0,\n").encode())
    landing.put(NAME, whole[: len(whole) // 2])
    landing.settle()
    (request,) = landing.run_requests()
    (held,) = landing.run(request).held
    assert "the gzip stream breaks off" in str(held.message)
    assert landing.skip_message() == "no new file", "what is held as it is needs no run"
    landing.put(NAME, whole)
    landing.settle()
    (completed,) = landing.run_requests()
    assert completed.run_config["ops"]["bronze__sales"]["config"]["files"].keys() == {NAME}


def test_a_run_that_failed_is_tried_three_times(landing: Landing) -> None:
    landing.put(NAME)
    landing.settle()
    run_keys = set()
    for _ in range(3):
        (request,) = landing.run_requests()
        run_keys.add(request.run_key)
        landing.add_run(request)
    assert len(run_keys) == 3, "the daemon never runs a run key twice"
    assert landing.skip_message() == "3 runs did not ingest the files of 2024-11-05; see the newest one and start it again"
    assert known_missing(landing) == ["3 runs failed to ingest files of 2024-11-05"]
    landing.put(NAME, "something else")
    landing.settle()
    assert len(landing.run_requests()) == 1, "another state of the file is another cause"
    assert known_missing(landing) == []
    landing.put(NAME)
    landing.settle()
    assert "3 runs did not ingest" in landing.skip_message()
    Path(str(landing.lake.settings.landing), NAME).unlink()
    assert landing.skip_message() == "no new file"
    assert known_missing(landing) == []


def test_a_day_with_a_run_on_its_way_is_not_asked_for(landing: Landing) -> None:
    landing.put(NAME)
    landing.settle()
    (request,) = landing.run_requests()
    landing.add_run(request, dg.DagsterRunStatus.STARTED)
    assert landing.skip_message() == "runs for 2024-11-05 are in progress"


@pytest.mark.merge
@pytest.mark.parametrize("is_shared", [True, False])
def test_a_thousand_old_files_wait_for_one_scan_and_are_requested_in_portions(landing: Landing, *, is_shared: bool) -> None:
    days = [f"{date.fromordinal(DAY.toordinal() + number)}" for number in range(300)]
    for day in days:
        landing.put(f"arrival_date={day}.csv")
    landing.settle()
    landing.lake.settings.shared_runs = is_shared
    requested: list[str] = []
    for _ in range(3):
        requests = landing.run_requests()
        assert len(requests) == (1 if is_shared else AT_ONCE)
        portion = days_of(requests[0]) if is_shared else [f"{request.partition_key}" for request in requests]
        assert [request.run_key for request in landing.run_requests()] == [request.run_key for request in requests]
        for request in requests:
            landing.add_run(request, dg.DagsterRunStatus.STARTED)
        assert "in progress" in landing.skip_message()
        requested += portion
        for run in landing.instance.get_runs():
            landing.instance.delete_run(run.run_id)
        for name in (f"arrival_date={day}.csv" for day in requested):
            Path(str(landing.lake.settings.landing), name).unlink(missing_ok=True)
    assert requested == days
    assert landing.skip_message() == "no new file"


def test_a_day_that_failed_among_others_is_tried_alone_and_the_others_go_on(landing: Landing) -> None:
    first, *others = (f"{date.fromordinal(DAY.toordinal() + number)}" for number in range(4))
    for day in (first, *others):
        landing.put(f"arrival_date={day}.csv")
    landing.settle()
    [together] = landing.run_requests()
    assert days_of(together) == [first, *others]
    landing.add_run(together)
    for _ in range(2):
        [alone] = landing.run_requests()
        assert days_of(alone) == [first]
        landing.add_run(alone)
    [several] = landing.run_requests()
    assert days_of(several) == others
    assert known_missing(landing) == [f"3 runs failed to ingest files of {first}"]


def test_large_files_have_a_run_of_their_own(landing: Landing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landing_sensor, "LARGE", 3 * len(HEADER))
    days = [f"{date.fromordinal(DAY.toordinal() + number)}" for number in range(5)]
    for number, day in enumerate(days):
        landing.put(f"arrival_date={day}.csv", HEADER * (4 if number == 2 else 1))
    landing.settle()
    for portion in (days[:2], days[2:3], days[3:]):
        [request] = landing.run_requests()
        assert days_of(request) == portion
        for day in portion:
            Path(str(landing.lake.settings.landing), f"arrival_date={day}.csv").unlink()


def test_the_days_files_wait_for_its_marker(deployment: Lake, instance: dg.DagsterInstance) -> None:
    landing = Landing(deployment, instance, marker="arrival_date={arrival_date}.done")
    landing.put(NAME)
    landing.settle()
    assert landing.skip_message() == f"{NAME} of 2024-11-05 wait for the marker arrival_date=2024-11-05.done"
    remembered = landing.cursor
    assert known_missing(landing) == [f"{NAME} of 2024-11-05 wait for the marker arrival_date=2024-11-05.done"]
    assert landing.skip_message() == f"{NAME} of 2024-11-05 wait for the marker arrival_date=2024-11-05.done"
    assert landing.cursor == remembered
    in_one_process = landing.run()
    assert in_one_process.waiting == [f"{NAME} of 2024-11-05 wait for the marker arrival_date=2024-11-05.done"]
    assert not ingestions.all_of(deployment, "sales"), "a run started by a person leaves what is not ready, too"
    (replayed,) = Replay(deployment, landing.catalog, "sales", instance).days([DAY])
    assert (replayed.files, replayed.held) == (0, in_one_process.waiting), "and so does a replay, which says so"
    landing.put("arrival_date=2024-11-06.done")
    landing.settle()
    assert "wait for the marker" in landing.skip_message(), "another day's marker is none"
    landing.put(f"arrival_date={DAY}.done", "")
    landing.settle()
    (request,) = landing.run_requests()
    assert days_of(request) == ["2024-11-05"]
    assert known_missing(landing) == []


def manifest(**files: str) -> str:
    """A manifest of files by the end of their name, with their content."""
    entries = [
        {
            "file": f"arrival_date={DAY}.{name}.csv",
            "bytes": len(content),
            "rows": max(0, content.count("\n") - 1),
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
        }
        for name, content in files.items()
    ]
    return json.dumps(entries)


@pytest.fixture(name="promised")
def _promised(deployment: Lake, instance: dg.DagsterInstance) -> Landing:
    return Landing(deployment, instance, manifest="arrival_date={arrival_date}.manifest.json")


A, B, MANIFEST = (f"arrival_date={DAY}.{end}" for end in ("a.csv", "b.csv", "manifest.json"))


def test_nothing_of_a_day_is_taken_before_all_that_its_manifest_names_is_there(promised: Landing) -> None:
    promised.put(A)
    promised.settle()
    assert promised.skip_message() == f"{A} of 2024-11-05 wait for the manifest {MANIFEST}"
    promised.put(MANIFEST, manifest(a=HEADER, b=HEADER + "\n"))
    promised.settle()
    assert promised.skip_message() == f"{MANIFEST} names {B}, which is not there, {A} wait for that"
    assert promised.run().waiting == [f"{MANIFEST} names {B}, which is not there", f"{A} wait for that"]
    promised.put(B, HEADER + "\n")
    promised.settle()
    (request,) = promised.run_requests()
    assert request.run_config["ops"]["bronze__sales"]["config"]["files"].keys() == {A, B}


def test_files_that_break_their_manifest_are_held_with_file_and_field_and_requested_again_when_either_is_resent(
    promised: Landing,
) -> None:
    promised.put(A)
    promised.put(B, HEADER)
    promised.put(MANIFEST, manifest(a=HEADER, b=HEADER + "1,north\n"))
    promised.settle()
    (request,) = promised.run_requests()
    report = promised.run(request)
    (held,) = report.held
    assert str(held.message).startswith(f"{B}: bytes is {len(HEADER)}, and {MANIFEST} says {len(HEADER) + 8}; ")
    assert "rows is 0, and" in str(held.message)
    assert "sha256 is" in str(held.message)
    assert report.waiting == [f"{A} waits, because another file of 2024-11-05 differs from its manifest"]
    assert promised.skip_message() == "files of 2024-11-05 are held: see the check no_file_held"
    promised.put(MANIFEST, manifest(a=HEADER, b=HEADER), modified=1_700_000_001)
    promised.settle()
    (mended,) = promised.run_requests()
    assert mended.tags != request.tags


def test_a_day_that_is_held_as_a_whole_is_not_asked_for_until_something_changes(promised: Landing) -> None:
    promised.put(A, "id\n")
    promised.put(MANIFEST, manifest(a="id\n"))
    promised.settle()
    (request,) = promised.run_requests()
    (held,) = promised.run(request).held
    assert "column" in str(held.message)
    assert "is missing" in str(held.message)
    assert promised.skip_message() == "files of 2024-11-05 are held: see the check no_file_held"
    promised.put(MANIFEST, manifest(a="id\n") + "\n")
    promised.settle()
    assert len(promised.run_requests()) == 1


def test_a_file_that_no_manifest_names_waits_beside_those_that_go_on(promised: Landing) -> None:
    promised.put(A)
    promised.put(B)
    promised.put(MANIFEST, manifest(a=HEADER))
    promised.settle()
    (request,) = promised.run_requests()
    assert request.run_config["ops"]["bronze__sales"]["config"]["files"].keys() == {A}


def test_a_manifest_that_cannot_be_read_is_reported(promised: Landing) -> None:
    promised.put(A)
    promised.put(MANIFEST, manifest(a=HEADER)[:-5])
    promised.settle()
    assert promised.skip_message().startswith(f"{MANIFEST}: not JSON")
    assert promised.run().waiting[0].startswith(f"{MANIFEST}: not JSON")


def test_a_settled_file_that_matches_no_pattern_is_complained_about(landing: Landing) -> None:
    landing.put(f"sales-{DAY}.csv.zip", "PK")
    assert "not stable yet: sales-2024-11-05.csv.zip" in landing.skip_message()
    landing.settle()
    assert "sales-2024-11-05.csv.zip: its name does not match " in landing.skip_message()
    assert "its name does not match" in landing.skip_message(), "until it is renamed or taken away"


def test_a_file_outside_the_calendar_is_complained_about_at_every_tick(landing: Landing) -> None:
    landing.put("arrival_date=2024-02-30.csv")
    said = "arrival_date=2024-02-30.csv: 2024-02-30 is no day of the calendar; rename the file"
    assert [landing.skip_message(), landing.skip_message()] == [said, said]


def test_in_a_store_one_listing_serves_the_sources_of_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(Settings(root=f"file://{tmp_path}/lake"))
    sales, earthquakes = (load_catalog(None).sources[name] for name in ("sales", "earthquakes"))
    for source in ("sales", "earthquakes", "sales_of_others"):
        (tmp_path / "lake" / "landing" / source).mkdir(parents=True)
        (tmp_path / "lake" / "landing" / source / f"{source}.csv").write_text("id\n")
    listings, real = list[str](), landing_sensor.bronze_landing.list_every_landing

    def counted(*about: Any) -> Any:
        listings.append("all")
        return real(*about)

    monkeypatch.setattr(landing_sensor.bronze_landing, "list_every_landing", counted)
    for contract in (sales, earthquakes):
        assert [info.base_name for info in landing_sensor.listed(lake, contract)] == [f"{contract.dataset}.csv"]
    assert listings == ["all"]
    monkeypatch.setattr(landing_sensor, "_TICK", -1.0)
    (tmp_path / "lake" / "landing" / "sales" / "more.csv").write_text("id\n")
    assert {info.base_name for info in landing_sensor.listed(lake, sales)} == {"sales.csv", "more.csv"}
    assert listings == ["all", "all"]
