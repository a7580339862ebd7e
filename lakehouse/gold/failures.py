"""Why a number cannot be computed, in one sentence.

Here are the texts. Which number fails is determined in ``gold.isolation``, and for adjustments in ``gold.publication``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import date

    from lakehouse.contracts.metric import Measure
    from lakehouse.contracts.series import Series

_CODE = re.compile(r"\[[A-Z_]+(?:\.[A-Z_]+)*\]\s*")
_ADVICE = re.compile(r"\s*(?:If necessary set|To process malformed records|To return NULL instead|Use `?'?try_).*$", re.DOTALL)
_NOISE = re.compile(r"\s*SQLSTATE: \w+.*$", re.DOTALL)
_JAVA = re.compile(r"^\s*(?:Caused by: )?(?:java|org)\.[\w.]+(?:Exception|Error): (.+)$", re.MULTILINE)


def explained(series: Series, start: date, measure: Measure | None, problem: Exception) -> str:
    """Why the number of the period that begins at ``start`` fails: the measure if one is to blame, the reason, the remedy."""
    of = f" (measure {measure.name}: {measure.sql} as {measure.type})" if measure else ""
    return (
        f"{series.name} of {series.period(start).name} cannot be computed{of}: {reason(problem)}. Correct the rows, or the "
        f"measure in the contract of {series.metric.name} (a decimal may have more digits; another type needs "
        "a new dataset_version); the next run then publishes the number"
    )


def reason(problem: Exception) -> str:
    """The part of an error about the value, in one line, without Spark's codes and settings."""
    text = f"{problem}".strip()
    java = _JAVA.findall(text) if "Traceback" in text or "\tat " in text else []
    line = (java[-1] if java else text).splitlines()[0] if text else type(problem).__name__
    line = _ADVICE.sub("", _NOISE.sub("", _CODE.sub("", line)))
    return line.strip().rstrip(".") or type(problem).__name__
