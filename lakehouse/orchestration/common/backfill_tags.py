"""The tags of the runs of a planned backfill or a stage: its name, its reason, and the versions that a backfill was planned with.

A run in another process may load another checkout than the one that the plan was made with; it fails then.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lakehouse.delta import provenance
from lakehouse.errors import LakehouseError
from lakehouse.operations.backfills import plan as backfill_plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehouse.contracts import Catalog
    from lakehouse.operations.backfills.plan import BackfillPlan

PLAN_TAG = "lakehouse/backfill"
REASON_TAG = "lakehouse/reason"
_RUNNER_TAG = "lakehouse/runner"
_PINS_TAG = "lakehouse/pins"
_SOURCE_TAG = "lakehouse/source"
_STAGE_TAG = "lakehouse/stage"
_SIGN_OFF_TAG = "lakehouse/sign_off"


class OtherVersionError(LakehouseError):
    """A run of a backfill has loaded other code or contracts than those the backfill was planned with."""


def tags_of(plan: BackfillPlan) -> dict[str, str]:
    """The tags of every run of a plan."""
    pins = {"code_version": plan.code_version, "contracts": dict(plan.contracts)}
    about = {PLAN_TAG: plan.plan_id, REASON_TAG: plan.reason, _RUNNER_TAG: plan.runner_id}
    return about | {_SOURCE_TAG: plan.source, _PINS_TAG: json.dumps(pins)}


def tags_of_stage(name: str, run_name: str, by: str, reason: str, sign_off: str | None) -> dict[str, str]:
    """The tags of every run that promotes a stage.

    :param run_name: what its commits, audit rows and publications are called.
    :param sign_off: why exceeded thresholds and failed checks are accepted.
    """
    about = {PLAN_TAG: run_name, REASON_TAG: reason, _RUNNER_TAG: by, _STAGE_TAG: name}
    return about | ({_SIGN_OFF_TAG: sign_off} if sign_off else {})


def is_of_stage(tags: Mapping[str, str]) -> bool:
    """Whether a run promotes a stage: readers are to see all of it in one step per table."""
    return _STAGE_TAG in tags


def sign_off(tags: Mapping[str, str]) -> str | None:
    """Why numbers that fail a check are published by this run; None if they are held."""
    return tags.get(_SIGN_OFF_TAG)


def runner(tags: Mapping[str, str]) -> str | None:
    """Who runs the plan or promotes the stage; None for other runs."""
    return tags.get(_RUNNER_TAG)


def is_planned_run(tags: Mapping[str, str]) -> bool:
    """Whether a run belongs to a plan."""
    return PLAN_TAG in tags


def plan_of(tags: Mapping[str, str]) -> str | None:
    """The id of the backfill plan that a run belongs to; None for other runs, and for those that promote a stage."""
    return None if is_of_stage(tags) else tags.get(PLAN_TAG)


def commit_metadata(tags: Mapping[str, str]) -> dict[str, str]:
    """What silver's commits record of the plan that a run belongs to; empty for other runs."""
    named = {"backfill": PLAN_TAG, "reason": REASON_TAG, "by": _RUNNER_TAG}
    return {name: tags[tag] for name, tag in named.items() if tag in tags} if is_planned_run(tags) else {}


def verify_pinned_versions(tags: Mapping[str, str], catalog: Catalog) -> None:
    """:raises OtherVersionError: if a run of a plan would use other code or contracts than were planned."""
    if _PINS_TAG not in tags:
        return
    pins = json.loads(tags[_PINS_TAG])
    now = provenance.of_contracts(catalog, tags[_SOURCE_TAG])
    differences = backfill_plan.moved_pins(pins["code_version"], pins["contracts"], provenance.code(), now)
    if differences:
        msg = f"{tags[PLAN_TAG]} was planned otherwise: {'; '.join(differences)}; reload the code location, or make a new plan"
        raise OtherVersionError(msg)
