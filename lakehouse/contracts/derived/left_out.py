"""The keys of a metric's contract that a derived metric leaves out, because its inputs decide them.

The rules between a derived metric and its inputs belong to ``resolution``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse.contracts.publication import FinalNeeds

if TYPE_CHECKING:
    from lakehouse.contracts.metric import MetricContract


def unfit(metric: MetricContract) -> list[str]:
    """The keys that a derived metric cannot have, each as ``field: what to do``; empty for other metrics."""
    if not metric.is_derived:
        return []
    names, terms = metric.derived_from, metric.publication
    twice = sorted({name for name in names if names.count(name) > 1})
    in_grain = sorted({*names}.intersection(metric.grain))
    mistakes = {
        f"from: name each metric once: {', '.join(twice)}": twice,
        f"from: {', '.join(in_grain)} is also a column of the grain; an expression could not distinguish them": in_grain,
        "window: a derived metric has none; give one to its inputs": metric.window != 1,
        "rows: a derived metric reads no rows of a source; leave the key out": metric.rows,
        "publication.after_close: a derived number changes with its inputs; let these 'adjust', and leave the key out here": (
            terms.after_close == "adjust"
        ),
        "publication.final_needs: a derived number becomes final after its inputs; leave the key out": (
            terms.final_needs != FinalNeeds()
        ),
        "publication.closes_with: a derived number becomes final after its inputs; leave the key out": terms.closes_with,
        "publication.patch_up_to: a derived number is computed from published numbers; leave the key out": terms.patch_up_to,
    }
    return [text for text, is_wrong in mistakes.items() if is_wrong]
