"""The costs of a run are divided, kept and compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakehouse_tests import costs
from lakehouse_tests.support.durations import read_clock

if TYPE_CHECKING:
    from pathlib import Path


def entry(test: str, *marks: str, call: tuple[float, ...], shared_total: float = 0.0) -> dict[str, Any]:
    line = {"test": f"lakehouse_tests/{test}", "marks": list(marks), "fixtures": [], "shared_total": shared_total}
    return {**line, "setup": [0, 0, 0, 0], "call": list(call)}


RUN = [
    entry("calendar/test_days.py::test_a", call=(1, 1, 0, 9)),
    entry("gold/numbers/test_b.py::test_b", "spark", call=(3, 2, 0, 10), shared_total=15.0),
    entry("gold/test_c.py::test_c[x]", "spark", "merge", call=(4, 3, 0, 20), shared_total=24.0),
]


def test_the_shared_spark_is_divided_among_the_tests_that_need_it() -> None:
    found = costs.measured(RUN).tests
    assert found["default", "calendar/test_days.py::test_a"].processor == 1
    assert found["default", "gold/numbers/test_b.py::test_b"].processor == pytest.approx(2 + 8)
    assert found["merge", "gold/test_c.py::test_c[x]"].jvm == pytest.approx(16)


def test_costs_are_summed_by_tier_and_folder() -> None:
    found = costs.measured(RUN).by_folder()
    assert {key: cost.tests for key, cost in found.items()} == {
        ("default", "calendar"): 1,
        ("default", "gold"): 1,
        ("merge", "gold"): 1,
    }


def test_what_is_kept_is_read_again(tmp_path: Path) -> None:
    run = costs.measured(RUN)
    costs.keep(run, tmp_path / "costs.csv")
    again = costs.kept(tmp_path / "costs.csv")
    assert again.tests == run.tests
    assert costs.kept(tmp_path / "none.csv").tests == {}


@pytest.mark.parametrize(("slower", "grown"), [(1, []), (3, ["gold/test_z.py"])])
def test_a_file_has_grown_if_it_has_more_than_the_others(slower: float, grown: list[str]) -> None:
    names = ["gold/test_x.py", "gold/test_y.py", "gold/test_z.py"]
    before = costs.measured([entry(f"{name}::test", call=(9, 10, 0, 0)) for name in names])
    now = costs.measured([entry(f"{name}::test", call=(9, 20 * (slower if name == names[2] else 1), 0, 0)) for name in names])
    assert [name for _, name, _, _ in costs.grown(before, now)] == grown
    assert any(name in line for line in costs.shown(before, now) for name in names)


def test_work_of_this_process_and_of_its_children_is_measured() -> None:
    before = read_clock()
    sum(range(20_000_000))  # a tenth of a second or two, whatever the machine
    passed = read_clock().since(before)
    assert passed.processor > 0.02
    assert passed.jvm <= passed.processor, "a JVM of this worker may work meanwhile"
    assert passed.shared == 0
