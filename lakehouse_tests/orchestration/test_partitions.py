"""Which days a run covers, and what Dagster plans for it."""

from __future__ import annotations

from datetime import date

import dagster as dg

from lakehouse.orchestration.run_events import DAYS_TAG, days_of_run, tags_for

PARTITIONS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-12-31")
SCATTERED = [date(2024, 1, 3), date(2024, 6, 1), date(2024, 11, 30)]


def run_about(days: list[date], *, fail: bool) -> tuple[dg.DagsterInstance, dg.AssetKey, list[date]]:
    """A run of scattered days, as the sensors and the replay request it."""
    seen: list[date] = []

    @dg.asset(key="below", partitions_def=PARTITIONS)
    def below() -> None: ...

    def body(context: dg.AssetExecutionContext) -> None:
        seen.extend(days_of_run(context))
        if fail:
            raise RuntimeError("as asked")
        for day in seen:
            context.log_event(dg.AssetMaterialization("about", partition=f"{day}"))

    body.__annotations__["context"] = dg.AssetExecutionContext
    about = dg.asset(
        key="about",
        partitions_def=PARTITIONS,
        deps=["below"],
        output_required=False,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )(body)
    instance = dg.DagsterInstance.ephemeral()
    dg.materialize([below, about], selection=[about], tags=tags_for(days), instance=instance, raise_on_error=False)
    return instance, dg.AssetKey("about"), seen


def test_a_run_about_scattered_days_materializes_these_and_no_other() -> None:
    instance, key, seen = run_about(SCATTERED, fail=False)
    assert seen == SCATTERED
    assert instance.get_materialized_partitions(key) == {f"{day}" for day in SCATTERED}


def test_when_it_fails_the_days_in_between_are_not_marked() -> None:
    instance, key, seen = run_about(SCATTERED, fail=True)
    assert seen == SCATTERED
    planned = instance.event_log_storage.get_latest_storage_id_by_partition(
        key, dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    )
    assert set(planned) <= {f"{day}" for day in SCATTERED}
    assert not instance.get_materialized_partitions(key)


def test_the_exact_days_stand_in_a_tag() -> None:
    assert tags_for(SCATTERED)[DAYS_TAG] == '["2024-01-03", "2024-06-01", "2024-11-30"]'
