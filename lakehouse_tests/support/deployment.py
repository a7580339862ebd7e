"""A real deployment for tests: ``dagster dev`` with webserver and daemon on a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse_tests.support import tried
from lakehouse_tests.support.cli import inherited
from lakehouse_tests.support.free_port import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A day that is years away.
_NEVER = "0 0 29 2 *"
CHECKOUT = Path(__file__).parents[2]


class Deployment:
    """``dagster dev`` as the README starts it; GraphQL is what the UI itself speaks."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.root = folder / "lake"
        self.home = folder / "dagster_home"
        self.home.mkdir(parents=True)
        shutil.copy(CHECKOUT / "dagster_home" / "dagster.yaml", self.home)
        self.port = free_port()
        self.environment = inherited() | {
            "DAGSTER_HOME": str(self.home),
            "LAKEHOUSE_ROOT": str(self.root),
            "LAKEHOUSE_SENSOR_SECONDS": "4",
            "LAKEHOUSE_SETTLE_SECONDS": "1",
            # What starts at an hour of the day would start runs that no test expects.
            "LAKEHOUSE_CLOSE_CRON": _NEVER,
            "LAKEHOUSE_FRESHNESS_CRON": _NEVER,
            "LAKEHOUSE_MAINTENANCE_CRON": _NEVER,
            "LAKEHOUSE_WEBSERVER": f"http://127.0.0.1:{self.port}",
            **environment,
        }
        self._process: subprocess.Popen[bytes] | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        command = [
            str(Path(sys.executable).with_name("dagster")),
            "dev",
            "-w",
            str(CHECKOUT / "workspace.yaml"),
            "-p",
            str(self.port),
        ]
        with (self.folder / "dagster.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
            self._process = process
            try:
                self.until(lambda: self.graphql("{version}")["version"], 180, "the webserver")
                yield
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGINT)
                    try:
                        process.wait(30)
                    except subprocess.TimeoutExpired:
                        self._end_all()

    def kill(self) -> None:
        """End webserver, daemon, code server and every run with SIGKILL, at once."""
        tried.count("kills")
        self._end_all()

    def _end_all(self) -> None:
        assert self._process is not None
        family = {self._process.pid}
        children = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        pairs = [tuple(map(int, line.split())) for line in children.splitlines()]
        while more := {child for child, parent in pairs if parent in family} - family:
            family |= more
        for process in family:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait()

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        address = f"http://127.0.0.1:{self.port}/graphql"
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer
        return answer["data"]

    def runs(self) -> list[dict[str, Any]]:
        query = """{runsOrError(limit: 1000) {... on Runs {results {
            runId status startTime endTime assetSelection {path} tags {key value}}}}}"""
        return self.graphql(query)["runsOrError"]["results"]

    def written_by(self, run: dict[str, Any]) -> dict[str, Counter[str]]:
        """The partitions that a run has materialized, by asset, each as often as it did."""
        query = """query($id: ID!) {runOrError(runId: $id) {... on Run {
            assetMaterializations {assetKey {path} partition}}}}"""
        written: dict[str, Counter[str]] = {}
        for event in self.graphql(query, id=run["runId"])["runOrError"]["assetMaterializations"]:
            written.setdefault("/".join(event["assetKey"]["path"]), Counter())[event["partition"]] += 1
        return written

    def materialized(self, *path: str) -> set[str]:
        """The partitions of an asset that have a materialization."""
        query = """query($key: AssetKeyInput!) {assetNodeOrError(assetKey: $key) {... on AssetNode {
            assetMaterializations(limit: 1000) {partition}}}}"""
        node = self.graphql(query, key={"path": list(path)})["assetNodeOrError"]
        return {event["partition"] for event in node["assetMaterializations"]}

    def backfill(self, path: list[str], partitions: list[str]) -> str:
        """Launch a backfill as the UI's dialog does; gives its id."""
        query = """mutation($params: LaunchBackfillParams!) {launchPartitionBackfill(backfillParams: $params) {
            __typename ... on LaunchBackfillSuccess {backfillId} ... on PythonError {message}}}"""
        params = {"partitionNames": partitions, "assetSelection": [{"path": path}], "fromFailure": False}
        launched = self.graphql(query, params=params)["launchPartitionBackfill"]
        assert launched["__typename"] == "LaunchBackfillSuccess", launched
        return launched["backfillId"]

    def backfill_status(self, backfill_id: str) -> str:
        query = "query($id: String!) {partitionBackfillOrError(backfillId: $id) {... on PartitionBackfill {status}}}"
        return self.graphql(query, id=backfill_id)["partitionBackfillOrError"]["status"]

    def until(self, met: Callable[[], Any], seconds: float, awaited: str) -> Any:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if result := met():
                    return result
            except OSError:
                pass  # the webserver is not up yet
            time.sleep(1)
        tail = (self.folder / "dagster.log").read_text()[-6000:]
        msg = f"waited {seconds} s in vain for {awaited}; the log ends with:\n{tail}"
        raise AssertionError(msg)
