"""Runs the waves of a backfill, one or several at a time, with retries after failures, and records their events.

Belongs here: the attempts of a wave, and the number of concurrent waves. The order of the layers, and the remaining partitions,
belong to ``backfill_runner``; the rule for waves that may run in any order is in ``operations.backfills.waves``.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from lakehouse.errors import LakehouseError
from lakehouse.operations.backfills import log as backfill_log
from lakehouse.operations.backfills.log import BackfillEvent
from lakehouse.orchestration.common.backfill_tags import tags_of
from lakehouse.orchestration.execution.in_process import RunFailedError, together

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from datetime import date

    import dagster as dg

    from lakehouse.operations.backfills.plan import BackfillPlan, Layer
    from lakehouse.settings import Settings

#: The pause after the first failure, in seconds; it doubles with each further failure.
_FIRST_PAUSE, _LONGEST_PAUSE = 2, 300


class Layers(Protocol):
    """Materializes partitions of one asset: in this process, or in the deployment of a webserver.

    ``in_parallel``: whether several threads may call it at the same time; a table is written by one run at a time.
    """

    in_parallel: bool

    def run(self, key: dg.AssetKey, days: Sequence[date], tags: Mapping[str, str] | None = None) -> object:
        """Materialize the partitions, and return when they are complete.

        :raises RunFailedError: with the reason.
        """


class CancelledError(LakehouseError):
    """The backfill was cancelled."""


class Waves:
    """The waves of one run of a plan.

    :param wave_done: called after each wave with its layer, its table and the number of its partitions.
    """

    def __init__(
        self, settings: Settings, plan: BackfillPlan, layers: Layers, wave_done: Callable[[Layer, str, int], None]
    ) -> None:
        self._settings = settings
        self._plan = plan
        self._layers = layers
        self._told = wave_done

    def of_tables(self, process: Callable[[Any], None], about: Iterable[Any]) -> None:
        """Process different tables, as many at a time as the plan allows; a failed run does not stop other tables.

        :raises RunFailedError: names every run that failed.
        """
        with ThreadPoolExecutor(self._plan.max_parallel) as threads:
            problems = [done.exception() for done in [threads.submit(process, one) for one in about]]
        failed = [problem for problem in problems if isinstance(problem, RunFailedError)]
        for problem in problems:
            if problem is not None and problem not in failed:
                raise problem
        if failed:
            raise together(failed)

    def of_table(self, layer: Layer, process: Callable[[Any], None], waves: Sequence[Any]) -> None:
        """Process the waves of one table in their order; several run at a time if the plan and the layers allow it.

        The first wave runs alone, because it creates what the others need. After a failure, no further wave starts.
        """
        may = self._layers.in_parallel and any(wave.parallel for wave in self._plan.waves if wave.layer is layer)
        together = waves[1:] if may else []
        for wave in waves[: len(waves) - len(together)]:
            process(wave)
        failed = Event()

        def unless_failed(wave: Any) -> None:
            if failed.is_set():
                return
            try:
                process(wave)
            except BaseException:
                failed.set()
                raise

        self.of_tables(unless_failed, together)

    def run(
        self,
        layer: Layer,
        key: dg.AssetKey,
        whole: Collection[date],
        left: Sequence[date],
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Materialize the remaining partitions of a wave, and record the wave as a whole.

        :raises RunFailedError: if it failed as often as the plan allows, or a further attempt cannot succeed.
        :raises CancelledError: if the backfill was cancelled, also between two attempts.
        """
        table, name = key.to_user_string(), name_of(layer, key, whole)
        details: dict[str, Any] = {"layer": layer.value, "table": table, "partitions": sorted(f"{day}" for day in whole)}

        def attempt() -> None:
            self.stop_if_cancelled()
            try:
                self._layers.run(key, left, {**tags_of(self._plan), **(tags or {})})
            except RunFailedError as problem:
                self._failed_attempt(name, details, problem)
                raise

        self.stop_if_cancelled()
        if left:
            again = Retrying(
                retry=retry_if_exception(lambda problem: isinstance(problem, RunFailedError) and problem.may_pass),
                stop=stop_after_attempt(1 + self._plan.retries),
                wait=wait_exponential(multiplier=_FIRST_PAUSE, max=_LONGEST_PAUSE) + wait_random(0, 1),
                reraise=True,
            )
            again(attempt)
        self.record(name, "wave", details)
        self._told(layer, table, len(whole))

    def _failed_attempt(self, name: str, details: Mapping[str, Any], problem: RunFailedError) -> None:
        """Record a failed attempt; numbering continues after an earlier, stopped run of the plan."""
        begins = f"attempt:{name}:"
        events = backfill_log.events(self._settings, self._plan.plan_id)
        number = sum(entry.event.startswith(begins) for entry in events) + 1
        about = {"attempt": number, "problem": f"{problem}", "may_pass": problem.may_pass}
        self.record(f"{begins}{number}", "attempt", {**details, **about})

    def stop_if_cancelled(self) -> None:
        """:raises CancelledError: if the backfill was cancelled."""
        if self.has("cancelled"):
            msg = f"{self._plan.plan_id} was cancelled; completed waves are kept and are correct"
            raise CancelledError(msg)

    def has(self, event: str) -> bool:
        """Whether an event of the plan is recorded."""
        return any(entry.event == event for entry in backfill_log.events(self._settings, self._plan.plan_id))

    def record(self, event: str, kind: str, details: Mapping[str, Any]) -> None:
        """Record an event of the plan once."""
        entry = BackfillEvent(self._plan.plan_id, event, kind, datetime.now(timezone.utc), said=details)
        backfill_log.record(self._settings, entry)


def name_of(layer: Layer, key: dg.AssetKey, partitions: Collection[date]) -> str:
    """The name of a wave within its plan."""
    return f"{layer.value}:{key.to_user_string()}:{min(partitions)}:{max(partitions)}:{len(partitions)}"
