"""``ops/model_promotions``: the promotions and rollbacks of models, each with its start and its end.

Here are also the release notes of a promotion, as Markdown: author, version, reason, training data, and comparison; and
:func:`records`, the promotions of data and models in one form, for a common log as JSON lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any

from lakehouse import locations
from lakehouse.delta import leases
from lakehouse.gold.promotion.promotion_log import PromotionKind
from lakehouse.gold.promotion.promotion_log import log as data_log
from lakehouse.ledger.log_table import LogTable
from lakehouse.text import format_moment
from lakehouse.training_sets import releases
from lakehouse.training_sets.releases import ReleaseError, ReleaseKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.gold.promotion.promotion_log import PromotionEntry
    from lakehouse.lake import Lake
    from lakehouse.models.backtest_log import Backtest
    from lakehouse.training_sets.releases import Release


__all__ = ["ModelPromotion", "PromotionKind", "PromotionStep"]

#: The time within which a process must move the alias after the first entry of a promotion. MLflow's client gives up earlier.
PATIENCE = timedelta(minutes=5)


class PromotionStep(str, Enum):
    """The step that a promotion has reached."""

    BEGUN = "begun"
    STOPPED = "stopped"
    """It failed, and where the alias points to could not be read."""
    DONE = "done"
    UNDONE = "undone"


@dataclass(frozen=True)
class ModelPromotion:
    """A step of a promotion or rollback.

    :param number: counts the promotions of the model; if two begin at once, only one gets the number.
    :param from_version: the version in use before; None for the first promotion.
    :param accepted: the unmet acceptance rules that ``by`` has signed off, with ``sign_off`` as the reason.
    :param backtest: the backtest on which the promotion relies, as text.
    :param notes: the reason; ``release_notes`` is the Markdown text made from it and the lineage.
    :param process: the process that carries out the promotion: host, process id, start.
    :param expires_at: the time, by the real clock, from which other processes may end the promotion.
    """

    model: str
    number: int
    step: PromotionStep
    kind: PromotionKind
    from_version: str | None
    to_version: str
    by: str
    notes: str
    recorded_at: datetime
    process: str
    expires_at: datetime
    accepted: list[str] = field(default_factory=list)
    sign_off: str | None = None
    backtest: str | None = None
    release_notes: str = ""

    @property
    def title(self) -> str:
        """A one-line description."""
        return f"{self.kind.value} {self.model} {self.from_version or 'none'} -> {self.to_version}"


@dataclass(frozen=True)
class PromotionRequest:
    """The data to record for a promotion. ``number`` was free before the state on which the promotion relies was read."""

    number: int
    kind: PromotionKind
    release: Release
    by: str
    notes: str
    accepted: Sequence[str] = ()
    sign_off: str | None = None
    backtest: str | None = None
    release_notes: str = field(default="", repr=False)


def log(lake: Lake) -> LogTable[ModelPromotion]:
    """The table of promotions."""
    return LogTable(ModelPromotion, lake, locations.model_promotions(lake), partition_by="model", journaled=True)


def begin(lake: Lake, entry: ModelPromotion) -> bool:
    """Record the start of a promotion, and return whether its number was free."""
    return log(lake).append([entry], app_id=f"begun:{entry.model}", app_version=entry.number)


def stop(lake: Lake, entry: ModelPromotion) -> None:
    """Record that a promotion failed and that another command may end it."""
    ended = replace(entry, step=PromotionStep.STOPPED, recorded_at=lake.now())
    log(lake).append([ended], app_id=f"stopped:{entry.model}:{entry.number}")


def end(lake: Lake, entry: ModelPromotion, *, done: bool) -> ModelPromotion:
    """Record the end of a promotion once, and return the valid entry, which another command may have written."""
    step = PromotionStep.DONE if done else PromotionStep.UNDONE
    ended = replace(entry, step=step, recorded_at=lake.now())
    log(lake).append([ended], app_id=f"ended:{entry.model}:{entry.number}")
    of_number = [step for step in _steps(lake, entry.model) if step.number == entry.number]
    return next(step for step in of_number if step.step in {PromotionStep.DONE, PromotionStep.UNDONE})


def completed(lake: Lake, model: str | None = None) -> list[ModelPromotion]:
    """The completed promotions and rollbacks, those of a model oldest first."""
    return [entry for entry in _steps(lake, model) if entry.step is PromotionStep.DONE]


def in_use(lake: Lake, model: str) -> str | None:
    """The version in use according to the log; None before the first promotion. Needs no MLflow."""
    entries = completed(lake, model)
    return entries[-1].to_version if entries else None


def unended(lake: Lake, model: str) -> ModelPromotion | None:
    """The promotion that has begun but not ended; None without one."""
    steps = _steps(lake, model)
    ended = {entry.number for entry in steps if entry.step in {PromotionStep.DONE, PromotionStep.UNDONE}}
    begun = [entry for entry in steps if entry.number not in ended]
    return begun[-1] if begun else None


def next_number(lake: Lake, model: str) -> int:
    """The number of the next promotion."""
    return max((entry.number for entry in _steps(lake, model)), default=0) + 1


def is_running(entry: ModelPromotion) -> bool:
    """Whether the process of a promotion may still be working on it. On another host, it is assumed to until it expires."""
    if entry.step is not PromotionStep.BEGUN or datetime.now(timezone.utc) >= entry.expires_at:
        return False
    return not leases.has_ended(entry.process)


def _steps(lake: Lake, model: str | None) -> list[ModelPromotion]:
    """The steps of each model in the order in which they were made, even if the clock stands still."""
    order = list(PromotionStep)
    entries = log(lake).read({"model": [model]} if model else None)
    return sorted(entries, key=lambda entry: (entry.model, entry.number, order.index(entry.step)))


def as_markdown(lake: Lake, catalog: Catalog, request: PromotionRequest, before: str | None, backtest: Backtest | None) -> str:
    """The release notes for the promotion of a version that replaces ``before``.

    :param backtest: the newest comparison of both versions.
    """
    release, by = request.release, request.by
    replaced = _release_of(lake, release.name, before)
    about = release.about
    title = f"# {release.name} {release.version}" + (f" replaces {before}" if before else "")
    lines = [title, "", f"By {by} on {format_moment(lake.now())}: {request.notes}", ""]
    lines += [f"Released by {release.by}: {release.notes}", ""]
    description = catalog.models[release.name].description if release.name in catalog.models else ""
    lines += [description, ""] if description else []
    labels = about["training_set"].get("labels") or {}
    of_labels = f", with the labels {labels['source']} {labels['version']}" if labels else ""
    function = f"`{about['function']}`, code {about['code']['training']}"
    lines += [f"Learned from {about['training_set']['full_name']}{of_labels} by {function}.", ""]
    changes = [*_changed("parameter", about, replaced, "parameters"), *_changed("feature", about, replaced, "features")]
    lines += [*(f"- {change}" for change in changes), *([""] if changes else [])]
    lines += _quality(release, replaced)
    if backtest is not None:
        lines += [f"Backtest of {backtest.title}: {'passed' if backtest.passed else 'not passed'} ({backtest.report}).", ""]
    lines += [*(f"- Not met: {rule}" for rule in request.accepted), *([""] if request.accepted else [])]
    lines += [f"Signed off by {by}: {request.sign_off}", ""] if request.accepted else []
    back = f"lakehouse model rollback {release.name} --by YOU --notes WHY"
    lines += ["To go back:", "", f"    {back}"] if before else []
    return "\n".join(lines).rstrip() + "\n"


def _release_of(lake: Lake, model: str, version: str | None) -> Release | None:
    if version is None:
        return None
    try:
        return releases.find(lake, ReleaseKind.MODEL, model, version)
    except ReleaseError:  # registered without the lakehouse
        return None


def _changed(noun: str, about: Mapping[str, Any], replaced: Release | None, key: str) -> list[str]:
    """The differences from the replaced version: new, removed and changed entries of ``key``."""
    if replaced is None:
        return []
    new, old = about.get(key, {}), replaced.about.get(key, {})
    sentences = [f"The {noun} {name} is new." for name in new if name not in old]
    sentences += [f"The {noun} {name} is gone." for name in old if name not in new]
    differing = [name for name in new if name in old and new[name] != old[name]]
    if noun == "parameter":
        return sentences + [f"The {noun} {name} was {old[name]} and is {new[name]}." for name in differing]
    return sentences + [f"The {noun} {name} is defined otherwise." for name in differing]


def _quality(release: Release, replaced: Release | None) -> list[str]:
    """The quality measures on the part on which each version was evaluated."""
    columns = [entry for entry in (release, replaced) if entry is not None]
    measured = [entry.about["metrics"][entry.about["evaluated_on"]] for entry in columns]
    headings = [
        f"{entry.version} on {entry.about['training_set']['full_name']}/{entry.about['evaluated_on']}" for entry in columns
    ]
    rows = [[name, *(_number(of_version.get(name)) for of_version in measured)] for name in measured[0]]
    table = [["measure", *headings], ["---"] * (len(columns) + 1), *rows]
    return [*(f"| {' | '.join(row)} |" for row in table), ""]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def records(lake: Lake, name: str | None = None) -> list[dict[str, Any]]:
    """All promotions and rollbacks of data and models, or those of ``name``, oldest first; times as text in ISO 8601.

    The keys are ``of`` (``data`` or ``model``), ``name``, ``kind``, ``from``, ``to``, ``by``, ``reason``, ``at``, ``accepted``,
    ``sign_off``, ``release_notes`` and ``more``.
    """
    of_data = data_log(lake).read({"metric": [name]} if name else None)
    of_models = completed(lake, name)
    of_both = [*map(_of_data, of_data), *map(_of_model, of_models)]
    return sorted(of_both, key=lambda record: (record["at"], record["name"]))


def _of_data(entry: PromotionEntry) -> dict[str, Any]:
    return {
        "of": "data",
        "name": entry.metric,
        "kind": entry.kind.value,
        "from": f"v{entry.from_version}",
        "to": f"v{entry.to_version}",
        "by": entry.by,
        "reason": entry.reason,
        "at": entry.moved_at.isoformat(),
        "accepted": entry.accepted or [],
        "sign_off": None,
        "release_notes": entry.release_notes,
        "more": {"gold_version": entry.gold_version, "periods": entry.periods, "inputs": dict(entry.inputs)},
    }


def _of_model(entry: ModelPromotion) -> dict[str, Any]:
    return {
        "of": "model",
        "name": entry.model,
        "kind": entry.kind.value,
        "from": entry.from_version,
        "to": entry.to_version,
        "by": entry.by,
        "reason": entry.notes,
        "at": entry.recorded_at.isoformat(),
        "accepted": entry.accepted or [],
        "sign_off": entry.sign_off,
        "release_notes": entry.release_notes,
        "more": {"number": entry.number, "backtest": entry.backtest},
    }
