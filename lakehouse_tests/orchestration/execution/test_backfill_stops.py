"""What a backfill does when its waves fail, are cancelled, find more than before, or are stopped. None of this starts Spark.

Layers leave in the operational tables what runs of the assets leave there, or fail.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster_graphql.schema import create_schema
from graphql import parse, validate

from lakehouse.contracts import load_catalog
from lakehouse.ledger import applied_inputs, ingestions, publications
from lakehouse.ledger.ingestions import Ingestion
from lakehouse.ledger.publications import Restatement
from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills import planner
from lakehouse.operations.backfills import verification as backfill_verification
from lakehouse.operations.backfills.plan import BackfillStatus, Layer
from lakehouse.operations.backfills.planner import BackfillRequest
from lakehouse.orchestration.assets.metric_assets import FOLLOWS_TAG
from lakehouse.orchestration.execution import backfill_runner, webserver
from lakehouse.orchestration.execution.backfill_runner import Backfill, CancelledError
from lakehouse.orchestration.execution.in_process import RunFailedError
from lakehouse.orchestration.execution.webserver import Webserver, WebserverError
from lakehouse_tests.support.sales_files import FIRST_DAY, SECOND_DAY, deliver_sales
from lakehouse_tests.support.silver_log import append_to_silver

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import BackfillPlan

CATALOG = load_catalog(None)
BRONZE, SILVER, GOLD = (dg.AssetKey(path) for path in (["bronze", "sales"], ["silver", "sales"], ["gold", "revenue"]))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)


def planned(lake: Lake, target: str = "sales", first: date = FIRST_DAY, last: date = SECOND_DAY) -> BackfillPlan:
    wish = BackfillRequest(target=target, first_day=first, last_day=last, reason="why", runner_id="anna")
    made = planner.plan(lake, CATALOG, wish, datetime.now(timezone.utc))
    backfill_log.store_plan(lake, made)
    return made


@dataclass
class Layers:
    """The results of runs: files with the event day that each touches, days of silver, a metric that follows."""

    lake: Lake
    plan: BackfillPlan
    landed: dict[str, date] = field(default_factory=dict)
    requested: list[tuple[dg.AssetKey, list[date]]] = field(default_factory=list)
    tags: list[Mapping[str, str]] = field(default_factory=list)
    in_parallel: bool = False

    def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> object:
        self.requested.append((key, list(days)))
        self.tags.append(tags or {})
        now = self.lake.now()
        if key == BRONZE:
            for file in self.plan.new_files:
                if file.file in self.landed and file.arrival_date in days:
                    self._ingested(file.file, file.sha256, file.arrival_date, file.rows)
        elif key == SILVER:
            ids = set().union(*(applied_inputs.pending(self.lake, "sales")[day] for day in days))
            applied_inputs.record(self.lake, "sales", run_id="run", days=days, ingestion_ids=ids, method="merge")
        elif key == GOLD:
            publications.record_restatement(
                self.lake, Restatement("revenue", "run", now, followed_version=0, gold_version=-1, days=[])
            )
        return None

    def _ingested(self, name: str, content: str, arrival: date, rows: int) -> None:
        entry = Ingestion("sales", content[:16], content, arrival, name, 1, None, "ingested", "run", self.lake.now(), rows=rows)
        ingestions.record(self.lake, Ingestion(**vars(entry) | {"touched_days": [self.landed[name]], "touched_rows": [rows]}))

    def go(self) -> backfill_verification.BackfillVerification | None:
        def no_session() -> Any:
            pytest.fail("nothing of this needs Spark")

        return Backfill(self.lake, CATALOG, self.plan, self, no_session).run()


def test_a_wave_that_was_cancelled_is_not_tried_again(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")

    class Cancelled(Layers):
        def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> object:
            super().run(key, days, tags)
            backfill_runner.cancel(self.lake, self.plan, "bob")
            msg = "bronze/sales: backfill abc is canceled"
            raise RunFailedError(msg)

    layers = Cancelled(lake, planned(lake))
    with pytest.raises(CancelledError):
        layers.go()
    assert layers.requested == [(BRONZE, [FIRST_DAY])]
    assert backfill_log.status(backfill_log.events(lake, layers.plan.plan_id)) is BackfillStatus.CANCELLED


@pytest.mark.merge
def test_what_a_second_run_brings_in_goes_on_to_silver(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")
    deliver_sales(lake, SECOND_DAY, "s2@2024-11-04")
    first, second = (file.file for file in planned(lake).files)
    layers = Layers(lake, planned(lake), {first: date(2024, 11, 1)})
    verdict = layers.go()
    assert verdict is not None
    assert any(f"{second}: is not in Bronze" in problem for problem in verdict.problems)
    layers.landed[second] = date(2024, 11, 4)  # somebody has sent what it waited for
    layers.go()
    assert [days for key, days in layers.requested if key == SILVER] == [[date(2024, 11, 1)], [date(2024, 11, 4)]]
    assert not applied_inputs.pending(lake, "sales")
    told = [entry.event for entry in backfill_log.events(lake, layers.plan.plan_id) if entry.kind == "wave"]
    assert [one for one in told if one.startswith("silver")] == [
        "silver:silver/sales:2024-11-01:2024-11-01:1",
        "silver:silver/sales:2024-11-04:2024-11-04:1",
    ]


def test_numbers_left_behind_are_planned_and_reported_after_a_stop(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    append_to_silver(lake, ("s1", 5, 1), source=CATALOG.sources["sales"])  # and somebody stopped here
    plan = planned(lake)
    assert (plan.waves[0].layer, plan.waves[0].partitions) == (Layer.GOLD, (date(2024, 2, 5),))
    layers, real = Layers(lake, plan), backfill_log.record

    def stopped(lake: Lake, entry: backfill_log.BackfillEvent) -> bool:
        if entry.kind == "wave":
            raise KeyboardInterrupt
        return real(lake, entry)

    with monkeypatch.context() as patched:
        patched.setattr(backfill_runner.backfill_log, "record", stopped)
        with pytest.raises(KeyboardInterrupt):
            layers.go()
    verdict = layers.go()
    assert verdict is not None
    assert not verdict.problems
    assert [key for key, _ in layers.requested] == [GOLD]
    assert layers.tags[0][FOLLOWS_TAG] != "revenue:0", "the sensor would count it among its own attempts"
    told = [entry.event for entry in backfill_log.events(lake, plan.plan_id) if entry.kind == "wave"]
    assert told == ["gold:gold/revenue:2024-02-05:2024-02-05:1"]


def test_a_metric_is_not_judged_by_days_outside_of_its_range(lake: Lake) -> None:
    append_to_silver(lake, ("s1", 5, 1), ("s2", 20, 1), source=CATALOG.sources["sales"])
    plan = planned(lake, "revenue", date(2024, 2, 5), date(2024, 2, 5))
    assert backfill_verification.verify(lake, CATALOG, plan).problems == []


@contextmanager
def answering(*answers: Any) -> Iterator[Webserver]:
    """A server that gives each of the answers, the last one again and again; None: it hangs up."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer = left.pop(0) if len(left) > 1 else left[0]
            if answer is not None:
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Length", f"{len(body)}")
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield Webserver(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()


@pytest.mark.parametrize("answer", [{"message": "Not found"}, [], {"data": None}, {"data": {}}, {"errors": ["no"]}])
def test_what_else_answers_at_the_port_is_not_ours(answer: Any) -> None:
    with answering(answer) as other:
        assert not other.is_ours(BRONZE, "somewhere")
        if answer != {"data": {}}:
            with pytest.raises(WebserverError, match="does not belong to Dagster"):
                other.cancel("bf-1")


def test_a_webserver_that_is_away_for_a_while_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webserver.time, "sleep", lambda _seconds: None)
    nothing = {"data": {"partitionBackfillsOrError": {"results": []}}}
    launched = {"data": {"launchPartitionBackfill": {"__typename": "LaunchBackfillSuccess", "backfillId": "abc"}}}
    at_work, done = ({"data": {"partitionBackfillOrError": {"status": one}}} for one in ("REQUESTED", "COMPLETED_SUCCESS"))
    with answering(nothing, launched, at_work, None, None, at_work, done) as server:
        assert server.run(BRONZE, [FIRST_DAY]) == "abc"
    with answering(nothing, launched, {"data": {"partitionBackfillOrError": {}}}) as server, pytest.raises(RunFailedError):
        server.run(BRONZE, [FIRST_DAY])


@pytest.mark.parametrize(
    ("name", "may_pass"), [("SchemaChangeError", False), ("IncompleteKeyLogError", True), ("OSError", True)], ids=str
)
def test_a_failed_backfill_of_a_webserver_tells_its_reason_and_whether_it_may_pass(name: str, may_pass: bool) -> None:
    nothing = {"data": {"partitionBackfillsOrError": {"results": []}}}
    launched = {"data": {"launchPartitionBackfill": {"__typename": "LaunchBackfillSuccess", "backfillId": "abc"}}}
    failed = {"data": {"partitionBackfillOrError": {"status": "COMPLETED_FAILED", "error": None}}}
    cause = {"message": f"{name}: the column amount has two types\nand so on", "className": name}
    error = {"message": "DagsterExecutionStepExecutionError: a step", "className": "DagsterError", "cause": cause}
    runs = {"data": {"runsOrError": {"results": [{"eventConnection": {"events": [{}, {"error": error}]}}]}}}
    with answering(nothing, launched, failed, runs) as server, pytest.raises(RunFailedError) as caught:
        server.run(BRONZE, [FIRST_DAY])
    assert "backfill abc is completed_failed: " in f"{caught.value}"
    assert f"{name}: the column amount has two types (" in f"{caught.value}"
    assert caught.value.may_pass is may_pass


def test_every_query_fits_the_schema_of_the_installed_webserver() -> None:
    schema = create_schema().graphql_schema
    queries = [getattr(webserver, name) for name in ("_ABOUT", "_LAUNCH", "_NEWEST", "_STATUS", "_FAILURES", "_CANCEL")]
    assert [error.message for query in queries for error in validate(schema, parse(query))] == []


def test_a_webserver_that_stays_away_is_reported(lake: Lake) -> None:
    deliver_sales(lake, FIRST_DAY, "s1@2024-11-01")

    class Away(Layers):
        def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> object:
            super().run(key, days, tags)
            msg = "no Dagster webserver answers"
            raise WebserverError(msg)

    layers = Away(lake, planned(lake))
    with pytest.raises(WebserverError):
        layers.go()
    assert backfill_log.status(backfill_log.events(lake, layers.plan.plan_id)) is BackfillStatus.FAILED
