"""How much a law tries: in a normal run what it names, in a proof all of its examples.

A law of a rule in this process tries its examples in every run. A law that needs Spark tries there the examples that are
written beside it (``@example``), each with a comment that says what it covers; ``.ci/proofs`` tries generated ones, too, with a
seed that it prints. What was tried is counted in :mod:`lakehouse_tests.support.tried`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as examples

from lakehouse_tests.support import tried

_T = TypeVar("_T")
#: Set by ``.ci/proofs``: each law tries all its examples.
PROOFS = "LAKEHOUSE_PROOFS"
_LEAST_PROVED = 25


def is_proof() -> bool:
    """Whether this run tries all examples."""
    return bool(os.environ.get(PROOFS))


def law(in_proofs: int, *, in_each_run: int = 0, shrinks: bool = False) -> Callable[[_T], _T]:
    """A law on generated examples; put it above ``@example`` and ``@given``.

    :param in_proofs: how many examples are generated in a proof; 25 at least.
    :param in_each_run: how many are generated in a normal run, the same in each. 0: only the written examples are tried.
    :param shrinks: whether a failure is minimised in a normal run, too; in a proof it always is.
    """
    assert in_proofs >= _LEAST_PROVED, "a law with two examples is an example"
    phases = [Phase.explicit]
    count = in_proofs if is_proof() else in_each_run
    if count:
        phases.append(Phase.generate)
    if count and (shrinks or is_proof()):
        phases.append(Phase.shrink)
    tries = examples(
        max_examples=max(count, 1),
        deadline=None,
        phases=phases,
        derandomize=not is_proof(),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )

    def decorate(function: Any) -> Any:
        written = getattr(function, "hypothesis_explicit_examples", [])
        assert in_each_run or written, f"{function.__name__} tries nothing in a normal run: write examples beside it"
        inner = function.hypothesis.inner_test

        @wraps(inner)
        def counted(*args: Any, **kwargs: Any) -> Any:
            tried.count("examples")
            return inner(*args, **kwargs)

        function.hypothesis.inner_test = counted
        return pytest.mark.law(tries(function))

    return decorate


def some(entries: Sequence[_T], count: int) -> Sequence[_T]:
    """``count`` of some entries, evenly spread, the last one among them; all of them in a proof."""
    if is_proof() or len(entries) <= count:
        return entries
    return [entries[(number + 1) * len(entries) // count - 1] for number in range(count)]
