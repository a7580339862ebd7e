"""The promotions and rollbacks of data and models in one form, for a common log as JSON lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.gold.promotion import promotion_log as data_promotions
from lakehouse.models import promotion_log as model_promotions

if TYPE_CHECKING:
    from lakehouse.gold.promotion.promotion_log import PromotionEntry
    from lakehouse.lake import Lake
    from lakehouse.models.promotion_log import ModelPromotion


def records(lake: Lake, name: str | None = None) -> list[dict[str, Any]]:
    """All promotions and rollbacks, or those of the metric or model ``name``, oldest first; times as text in ISO 8601.

    The keys are ``of`` (``data`` or ``model``), ``name``, ``kind``, ``from``, ``to``, ``by``, ``reason``, ``at``, ``accepted``,
    ``sign_off``, ``release_notes`` and ``more``.
    """
    of_data = data_promotions.log(lake).read({"metric": [name]} if name else None)
    of_models = model_promotions.completed(lake, name)
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
