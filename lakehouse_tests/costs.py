"""What the tests of a run have cost, by tier and folder, and what has grown since the costs that are kept.

``python -m lakehouse_tests.costs MEASURED...`` reads what ``LAKEHOUSE_TEST_COSTS`` has had written, and prints it beside
``lakehouse_tests/costs.csv``; with ``--keep`` it replaces that file. Measuring is in ``support/durations``.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEPT = Path(__file__).with_name("costs.csv")
TIERS = ("default", "merge", "proof")
_PHASES = ("setup", "call", "teardown")
#: A test is kept by its own name from so many processor seconds on; the others are kept as the rest of their file.
_DEAR = 1.0
#: What has grown by less is noise.
_GROWN, _GROWN_SECONDS = 1.2, 2.0
_DEAREST = 20


@dataclass
class Cost:
    """Tests together: seconds on the wall and of processors; those of JVMs are part of the latter."""

    tests: int = 0
    wall: float = 0.0
    processor: float = 0.0
    jvm: float = 0.0

    def add(self, other: Cost) -> None:
        self.tests += other.tests
        self.wall += other.wall
        self.processor += other.processor
        self.jvm += other.jvm


@dataclass
class Costs:
    """The costs of tests by tier and name, and those of fixtures that several tests share."""

    tests: dict[tuple[str, str], Cost] = field(default_factory=dict)
    fixtures: dict[str, Cost] = field(default_factory=dict)

    def by_folder(self) -> dict[tuple[str, str], Cost]:
        """By tier and folder."""
        return self._grouped(lambda name: name.split("::")[0].rpartition("/")[0].split("/")[0] or ".")

    def by_file(self) -> dict[tuple[str, str], Cost]:
        """By tier and file."""
        return self._grouped(lambda name: name.split("::")[0])

    def _grouped(self, group: Any) -> dict[tuple[str, str], Cost]:
        result: dict[tuple[str, str], Cost] = defaultdict(Cost)
        for (tier, name), cost in self.tests.items():
            result[tier, group(name)].add(cost)
        return result


def measured(lines: Iterable[Mapping[str, Any]]) -> Costs:
    """The costs that a run has written.

    The Spark that the workers share works for all of them at once. What it has used is divided among the tests that need Spark,
    in proportion to what it used while they ran.
    """
    entries = list(lines)
    used = sum(_seconds(entry, 3) for entry in entries if "spark" in entry["marks"])
    total = max((entry["shared_total"] for entry in entries), default=0.0)
    share = total / used if used else 0.0
    costs = Costs()
    for entry in entries:
        tier = next((name for name in reversed(TIERS) if name in entry["marks"]), "default")
        spark = _seconds(entry, 3) * share if "spark" in entry["marks"] else 0.0
        name = entry["test"].removeprefix("lakehouse_tests/")
        costs.tests[tier, name] = Cost(1, _seconds(entry, 0), _seconds(entry, 1) + spark, _seconds(entry, 2) + spark)
        for fixture, scope, wall, processor, jvm, shared in entry["fixtures"]:
            costs.fixtures.setdefault(f"{fixture} ({scope})", Cost()).add(Cost(1, wall, processor + shared, jvm + shared))
    return costs


def _seconds(entry: Mapping[str, Any], which: int) -> float:
    return sum(entry[phase][which] for phase in _PHASES if phase in entry)


def keep(costs: Costs, path: Path) -> None:
    """Write the dear tests by name, and what is left of each file."""
    rest: dict[tuple[str, str], Cost] = defaultdict(Cost)
    rows = {}
    for (tier, name), cost in costs.tests.items():
        if cost.processor >= _DEAR:
            rows[tier, name] = cost
        else:
            rest[tier, name.split("::")[0]].add(cost)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["tier", "tests of", "tests", "wall", "processor", "jvm"])
        for (tier, name), cost in sorted({**rest, **rows}.items()):
            writer.writerow([tier, name, cost.tests, *(f"{seconds:.1f}" for seconds in (cost.wall, cost.processor, cost.jvm))])


def kept(path: Path) -> Costs:
    """What :func:`keep` has written; nothing if there is no such file."""
    if not path.exists():
        return Costs()
    with path.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    return Costs({(tier, name): Cost(int(tests), *map(float, seconds)) for tier, name, tests, *seconds in rows})


def grown(before: Costs, now: Costs) -> list[tuple[str, str, float, float]]:
    """Tier, file, and processor seconds before and now of what costs a fifth more.

    Machines differ: the seconds before are scaled by the median ratio of all files.
    """
    earlier, later = before.by_file(), now.by_file()
    both = [key for key in later if key in earlier and earlier[key].processor > _DEAR]
    speed = median(later[key].processor / earlier[key].processor for key in both) if both else 1.0
    result = [(*key, earlier[key].processor * speed, later[key].processor) for key in both]
    return sorted(
        (entry for entry in result if entry[3] > entry[2] * _GROWN and entry[3] - entry[2] > _GROWN_SECONDS),
        key=lambda entry: entry[2] - entry[3],
    )


def shown(before: Costs, now: Costs) -> list[str]:
    """The lines of a report."""
    lines = ["== costs of tests: tier, folder, tests, seconds on the wall, processor seconds (of JVMs), before"]
    earlier, folders = before.by_folder(), now.by_folder()
    for tier in TIERS:
        of_tier = {folder: cost for (its, folder), cost in folders.items() if its == tier}
        total = Cost()
        for cost in of_tier.values():
            total.add(cost)
        if total.tests:
            lines.append(_line(tier, "all", total, sum(cost.processor for (its, _), cost in earlier.items() if its == tier)))
        lines += [
            _line(tier, folder, cost, earlier.get((tier, folder), Cost()).processor)
            for folder, cost in sorted(of_tier.items(), key=lambda entry: -entry[1].processor)
        ]
    dearest = sorted(now.tests.items(), key=lambda entry: -entry[1].processor)[:_DEAREST]
    lines += ["== the dearest tests", *(f"{cost.processor:8.1f}  {tier:8} {name}" for (tier, name), cost in dearest)]
    fixtures = sorted(now.fixtures.items(), key=lambda entry: -entry[1].processor)[: _DEAREST // 2]
    lines += ["== fixtures of several tests", *(f"{cost.processor:8.1f}  {cost.tests:5} x {name}" for name, cost in fixtures)]
    more = grown(before, now)
    lines.append("== grown by more than a fifth" if more else "== nothing has grown by more than a fifth")
    lines += [f"{after:8.1f}  {tier:8} {name}, before {was:.1f}" for tier, name, was, after in more]
    return lines


def _line(tier: str, folder: str, cost: Cost, before: float) -> str:
    return f"{tier:8} {folder:16} {cost.tests:5} {cost.wall:8.0f} {cost.processor:8.0f} ({cost.jvm:.0f})  {before:8.0f}"


def main(arguments: list[str] | None = None) -> None:
    """Print the report, and keep the costs on demand."""
    parser = argparse.ArgumentParser(prog="python -m lakehouse_tests.costs", description=__doc__)
    parser.add_argument("measured", nargs="+", type=Path, help="what LAKEHOUSE_TEST_COSTS has had written")
    parser.add_argument("--keep", action="store_true", help=f"replace {KEPT.name}")
    parser.add_argument("--before", type=Path, default=KEPT, help="costs to compare with")
    given = parser.parse_args(arguments)
    before, now = kept(given.before), Costs()
    for path in given.measured:
        run = measured(json.loads(line) for line in path.read_text().splitlines())
        now.tests |= run.tests
        for name, cost in run.fixtures.items():
            now.fixtures.setdefault(name, Cost()).add(cost)
    print("\n".join(shown(before, now)))  # noqa: T201
    if given.keep:
        keep(now, KEPT)


if __name__ == "__main__":
    main()
