"""A client for the GraphQL API of a running Dagster webserver: starts backfills, waits for them, and cancels them.

It also estimates the duration of a plan, from earlier runs in Dagster's storage, by table and number of partitions.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import date
from statistics import StatisticsError, linear_regression, median
from typing import TYPE_CHECKING, Any

import dagster as dg
import requests
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from lakehouse import locations
from lakehouse.calendar.days import span
from lakehouse.errors import LakehouseError
from lakehouse.operations.backfills.plan import Layer
from lakehouse.orchestration import run_events
from lakehouse.orchestration.dagster_internals import ASSET_PARTITION_RANGE_END_TAG, ASSET_PARTITION_RANGE_START_TAG
from lakehouse.orchestration.execution.in_process import TABLE_TAG, RunFailedError, may_pass
from lakehouse.orchestration.plan_runs import PLAN_TAG
from lakehouse.orchestration.run_events import DAYS_TAG, asset_key, table_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakehouse.lake import Lake
    from lakehouse.operations.backfills.plan import Wave


_LOOK_AT = 200


@dataclass(frozen=True)
class Cost:
    """The seconds of all waves, run consecutively, and the number of earlier runs used; None if a table has no earlier run."""

    seconds: float | None
    runs: int
    unknown: tuple[str, ...] = ()


def estimate(instance: dg.DagsterInstance, waves: Sequence[Wave]) -> Cost:
    """Estimate each wave from earlier runs of its table: a fixed part and a part per partition, if the runs determine both."""
    past = _past(instance, {wave.table for wave in waves if wave.layer is Layer.ROLLUPS})
    unknown = sorted({wave.table for wave in waves} - past.keys())
    used = sum(len(past[table]) for table in {wave.table for wave in waves} & past.keys())
    if unknown or not waves:
        return Cost(None, used, tuple(unknown))
    return Cost(sum(_seconds(past[wave.table], len(wave.partitions)) for wave in waves), used)


def _past(instance: dg.DagsterInstance, longer: Collection[str]) -> dict[str, list[tuple[int, float]]]:
    """By table, the partitions and seconds of the successful runs that materialized only that table, and of its part of others.

    :param longer: the tables with partitions longer than a day, whose number a range does not determine.
    """
    durations: dict[str, list[tuple[int, float]]] = defaultdict(list)
    done = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS])
    for record in instance.get_run_records(done, limit=_LOOK_AT):
        run = record.dagster_run
        if run_events.is_shared(run):
            for table, partitions, seconds in _shares(instance, run):
                durations[table].append((partitions, seconds))
            continue
        tables = [table_of(key) for key in run.asset_selection or ()] or [run.tags.get(TABLE_TAG, "")]
        if len(tables) == 1 and record.start_time and record.end_time:
            partitions = _partitions(run.tags)
            if partitions == 1 or DAYS_TAG in run.tags or tables[0] not in longer:
                durations[tables[0]].append((partitions, record.end_time - record.start_time))
    return durations


def _shares(instance: dg.DagsterInstance, run: dg.DagsterRun) -> Iterator[tuple[str, int, float]]:
    """The tables that a shared run has written, each with its partitions and the seconds of its step."""
    steps = {key.to_python_identifier(): key for key in run.asset_selection or ()}
    for step in instance.get_run_step_stats(run.run_id):
        key, events = steps.get(step.step_key), [entry.get_dagster_event() for entry in step.materialization_events]
        partitions = sum(event.asset_key == key for event in events)
        if key is not None and partitions and step.start_time and step.end_time:
            yield table_of(key), partitions, step.end_time - step.start_time


def _partitions(tags: Mapping[str, str]) -> int:
    """The number of days of a run: scattered days, those of a range, or one."""
    if DAYS_TAG in tags:
        return len(json.loads(tags[DAYS_TAG]))
    if ASSET_PARTITION_RANGE_START_TAG not in tags:
        return 1
    ends = (date.fromisoformat(tags[end]) for end in (ASSET_PARTITION_RANGE_START_TAG, ASSET_PARTITION_RANGE_END_TAG))
    return len([*span(*ends)])


def _seconds(past: Sequence[tuple[int, float]], partitions: int) -> float:
    try:
        slope, fixed = linear_regression([count for count, _ in past], [seconds for _, seconds in past])
    except StatisticsError:  # one run, or all of the same size
        slope, fixed = 0.0, median(seconds for _, seconds in past)
    if slope < 0 or fixed < 0:
        return median(seconds for _, seconds in past)
    return fixed + slope * partitions


_TIMEOUT_SECONDS = 30
_POLL_SECONDS = 2
#: The time for which a webserver may be unreachable while a backfill of its daemon continues.
_PATIENCE_SECONDS = 300
_STEP_TAG = "lakehouse/step"
_OVER = {"COMPLETED_SUCCESS", "COMPLETED", "COMPLETED_FAILED", "FAILED", "CANCELED"}
_WELL = {"COMPLETED_SUCCESS", "COMPLETED"}

_ABOUT = """query($key: AssetKeyInput!) {
  assetNodeOrError(assetKey: $key) {... on AssetNode {metadataEntries {label ... on TextMetadataEntry {text}}}}
  instance {daemonHealth {allDaemonStatuses {daemonType healthy}}}
}"""
_LAUNCH = """mutation($params: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $params) {
  __typename ... on LaunchBackfillSuccess {backfillId} ... on PythonError {message} ... on UnauthorizedError {message}}}"""
_NEWEST = """{partitionBackfillsOrError(limit: 200) {... on PartitionBackfills {results {id status tags {key value}}}}}"""
_STATUS = """query($id: String!) {partitionBackfillOrError(backfillId: $id) {... on PartitionBackfill {
  status error {message}}}}"""
_FAILURES = """query($id: String!) {
  runsOrError(filter: {tags: [{key: "dagster/backfill", value: $id}], statuses: [FAILURE]}, limit: 5) {... on Runs {results {
    eventConnection {events {... on ExecutionStepFailureEvent {
      error {message className cause {message className}}}}}}}}}"""
_CANCEL = """mutation($id: String!) {cancelPartitionBackfill(backfillId: $id) {__typename}}"""


class WebserverError(LakehouseError):
    """The webserver does not answer, or not as expected."""


class Webserver:
    """Materializes partitions through Dagster's backfill API, whose queue lets one run write a table at a time.

    :param url: the address of the webserver, such as http://127.0.0.1:3000.
    """

    in_parallel = True

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")

    def serves(self, lake: Lake, source: str) -> bool:
        """Whether the webserver serves this deployment, with a healthy daemon: its asset of Bronze has the same table."""
        return self.is_ours(asset_key("bronze", source), locations.bronze(lake, source).address)

    def is_ours(self, key: dg.AssetKey, address: str) -> bool:
        """Whether the webserver has this asset, with a table at this address, and a healthy daemon."""
        try:
            answer = self._ask(_ABOUT, key={"path": list(key.path)})
            entries = answer["assetNodeOrError"].get("metadataEntries", [])
            daemons = answer["instance"]["daemonHealth"]["allDaemonStatuses"]
        except (WebserverError, LookupError):  # no webserver, or one of another deployment
            return False
        same = any(entry["label"] == "dagster/uri" and entry.get("text") == address for entry in entries)
        healthy = {one["daemonType"] for one in daemons if one["healthy"]}
        return same and {"BACKFILL", "QUEUED_RUN_COORDINATOR"} <= healthy

    def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> str:
        """Materialize days of one asset by a backfill, or wait for a backfill already launched for the same days.

        :returns: the backfill's id.
        :raises RunFailedError: with its status and address.
        :raises WebserverError: if the webserver is unreachable for five minutes.
        """
        partitions = [day.isoformat() for day in days]
        step = hashlib.sha256(f"{table_of(key)}{partitions}".encode()).hexdigest()[:16]
        wanted = {**(tags or {}), _STEP_TAG: step}
        backfill = self._under_way(wanted) or self._launch(key, partitions, wanted)
        while (status := self._stands(backfill))["status"] not in _OVER:
            time.sleep(_POLL_SECONDS)
        if status["status"] not in _WELL:
            errors = self._failures(backfill)
            problems = [status.get("error") or {}, *errors]
            why = next(
                (problem["message"].strip().partition("\n")[0] for problem in problems if problem.get("message")),
                "look at its runs",
            )
            msg = f"{table_of(key)}: backfill {backfill} is {status['status'].lower()}: {why} ({self.url}/runs/b/{backfill})"
            raise RunFailedError(msg, may_pass=all(may_pass(error.get("className")) for error in errors))
        return backfill

    def cancel(self, plan_id: str) -> list[str]:
        """Cancel every running backfill of a plan.

        :returns: the ids of the cancelled backfills.
        """
        own = [one["id"] for one in self._newest() if one["tags"].get(PLAN_TAG) == plan_id and one["status"] not in _OVER]
        for backfill in own:
            self._ask(_CANCEL, id=backfill)
        return own

    def _failures(self, backfill: str) -> list[dict[str, Any]]:
        """The errors of the failed runs of a backfill, each with ``className`` and ``message``."""
        try:
            runs = self._ask(_FAILURES, id=backfill)["runsOrError"].get("results", [])
        except (WebserverError, LookupError):  # the failure is reported without its reason
            return []
        errors = [event["error"] for run in runs for event in run["eventConnection"]["events"] if event.get("error")]
        return [error.get("cause") or error for error in errors]

    @retry(
        retry=retry_if_exception_type(WebserverError),
        stop=stop_after_delay(_PATIENCE_SECONDS),
        wait=wait_fixed(_POLL_SECONDS),
        reraise=True,
    )
    def _stands(self, backfill: str) -> dict[str, Any]:
        status: dict[str, Any] = self._ask(_STATUS, id=backfill)["partitionBackfillOrError"]
        return (
            status
            if "status" in status
            else {"status": "FAILED", "error": {"message": "the webserver does not know it any longer"}}
        )

    def _under_way(self, tags: Mapping[str, str]) -> str | None:
        """A backfill launched by the same command before it was stopped."""
        for one in self._newest():
            same = all(one["tags"].get(name) == tags[name] for name in (PLAN_TAG, _STEP_TAG) if name in tags)
            if same and PLAN_TAG in tags and one["status"] not in _OVER:
                return str(one["id"])
        return None

    def _launch(self, key: dg.AssetKey, partitions: Sequence[str], tags: Mapping[str, str]) -> str:
        params = {
            "assetSelection": [{"path": list(key.path)}],
            "partitionNames": list(partitions),
            "fromFailure": False,
            "title": f"{tags.get(PLAN_TAG, 'lakehouse')}: {table_of(key)}",
            "tags": [{"key": name, "value": value} for name, value in tags.items()],
        }
        answer = self._ask(_LAUNCH, params=params)["launchPartitionBackfill"]
        if "backfillId" not in answer:
            msg = f"{self.url} did not launch a backfill of {table_of(key)}: {answer.get('message', answer['__typename'])}"
            raise WebserverError(msg)
        return str(answer["backfillId"])

    def _newest(self) -> list[dict[str, Any]]:
        found = self._ask(_NEWEST)["partitionBackfillsOrError"].get("results", [])
        return [one | {"tags": {tag["key"]: tag["value"] for tag in one["tags"]}} for one in found]

    def _ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """:raises WebserverError: if there is no answer, or an unexpected one."""
        try:
            body: dict[str, Any] = {"query": query, "variables": variables}
            answer = requests.post(f"{self.url}/graphql", json=body, timeout=_TIMEOUT_SECONDS)
            payload = answer.json()
        except (requests.RequestException, ValueError) as error:
            msg = f"no Dagster webserver answers at {self.url}: {error}"
            raise WebserverError(msg) from None
        data: dict[str, Any] | None = payload.get("data") if isinstance(payload, dict) and not payload.get("errors") else None
        if not isinstance(data, dict):
            msg = f"the webserver at {self.url} refused, or does not belong to Dagster: {payload!s:.300}"
            raise WebserverError(msg)
        return data
