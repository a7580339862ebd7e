"""How strong the tests are: ``python -m lakehouse_tests.mutants`` changes the product in places, and counts what tests notice.

``map`` records which tests execute which lines. Without a command, mutants are drawn and measured; ``report`` prints results
again, those of two runs side by side. How it works is in ``lakehouse_tests.mutation``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from lakehouse_tests.mutation import results
from lakehouse_tests.mutation.project import Project
from lakehouse_tests.mutation.runner import Limits, Run, SharedSpark, UnusableMapError
from lakehouse_tests.mutation.selection import CoverageMap, record
from lakehouse_tests.mutation.sites import Mutant, draw, modules

CHECKOUT = Path(__file__).parents[1]
FOLDERS = ("calendar", "dispositions", "silver", "gold/numbers", "gold/restatement", "lateness", "contracts")
#: What a worker imports once, before it starts a process per mutant. Nothing of the product.
LIBRARIES = (
    *("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "deltalake", "numpy", "pandas", "yaml", "duckdb"),
    *("pydantic", "pydantic_settings", "typer", "rich.console", "rich.table", "rich.progress", "tenacity"),
    *("hypothesis", "dagster", "pyspark.sql.connect.session", "zoneinfo"),
)
_FOLDER = CHECKOUT / ".mutants"


def main(arguments: list[str]) -> int:
    """Run a command; without one, ``run``."""
    if not arguments or arguments[0] not in {"map", "run", "report", "-h", "--help"}:
        arguments = ["run", *arguments]
    options = _parser().parse_args(arguments)
    if options.command == "report":
        _print(results.table([results.read(path) for path in options.files], FOLDERS))
        return 0
    project = Project(CHECKOUT, FOLDERS, libraries=LIBRARIES, revision=options.before)
    if options.map is None:
        options.map = _FOLDER / ("map-before.json" if options.before else "map.json")
    return _map(project, options) if options.command == "map" else _run(project, options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lakehouse_tests.mutants", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("map", help="run the tests once and record which lines each executes")
    recording.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="only these tests")
    recording.add_argument("--marks", metavar="EXPRESSION", help='marker expression instead of the default one: "not spark"')
    recording.add_argument("--processes", type=int, default=2, help="how many processes run tests (default: 2)")
    running = commands.add_parser("run", help="draw mutants and measure them (the default)")
    running.add_argument("--count", type=int, default=300, help="how many mutants (default: 300)")
    running.add_argument("--seed", type=int, default=1, help="mutants of the same seed and product are the same (default: 1)")
    running.add_argument(
        "--folders", nargs="+", default=list(FOLDERS), metavar="FOLDER", help="only these folders of the product"
    )
    running.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="only tests below these paths")
    running.add_argument("--limit", type=float, default=60, help="seconds of tests per mutant (default: 60)")
    running.add_argument("--workers", type=int, default=2, help="how many mutants at once (default: 2)")
    running.add_argument(
        "--results", type=Path, default=_FOLDER / "results.jsonl", help="a line per mutant; a run goes on from it"
    )
    running.add_argument("--only-survivors", type=Path, metavar="FILE", help="the mutants that survived in these results instead")
    for each in (recording, running):
        each.add_argument("--before", metavar="REVISION", help="take the tests from this git revision")
        each.add_argument("--map", type=Path, help="where the map is (default: .mutants/map.json, with --before map-before.json)")
    reporting = commands.add_parser("report", help="print the table of results, or of two side by side")
    reporting.add_argument("files", nargs="+", type=Path, metavar="FILE")
    return parser


def _map(project: Project, options: argparse.Namespace) -> int:
    processes = options.processes if options.processes > 1 else 0
    arguments = [*options.tests, *(["-m", options.marks] if options.marks else []), "-n", str(processes), "--dist", "loadfile"]
    with tempfile.TemporaryDirectory() as folder, SharedSpark(project, Path(folder)) as spark:
        environment = {} if options.marks and "not spark" in options.marks else spark.environment()
        recorded = record(project, arguments, environment)
    recorded.write(options.map)
    failed = [test for test, entry in recorded.recorded["tests"].items() if entry["outcome"] == "failed"]
    _print(f"{options.map}: {len(recorded.tests)} tests passed, {len(failed)} failed and are left out")
    return 0 if recorded.tests else 1


def _run(project: Project, options: argparse.Namespace) -> int:
    if not options.map.exists():
        before = f" --before {options.before}" if options.before else ""
        _print(f"{options.map} does not exist; run `python -m lakehouse_tests.mutants map{before}` first")
        return 2
    recorded = CoverageMap.read(options.map).below(options.tests)
    mutants = _mutants(options)
    began = time.monotonic()
    try:
        Run(project, recorded, options.results, Limits(selection=options.limit), _print).measure(mutants, options.workers)
    except UnusableMapError as error:
        _print(f"{options.map}: {error}")
        return 2
    known = results.read(options.results)
    _print(results.table([{mutant.key: known[mutant.key] for mutant in mutants}], options.folders))
    _print(f"{time.monotonic() - began:.0f} seconds; results in {options.results}")
    return 0


def _mutants(options: argparse.Namespace) -> list[Mutant]:
    candidates = modules(CHECKOUT, "lakehouse", options.folders)
    if options.only_survivors is None:
        return draw(candidates, options.count, options.seed)
    by_path = {module.path: module for module in candidates}
    survivors = [entry for entry in results.read(options.only_survivors).values() if entry["outcome"] == results.SURVIVED]
    again = [
        by_path[entry["module"]].mutant((entry["line"], entry["column"]), entry["operator"], entry["occurrence"])
        for entry in survivors
        if entry["module"] in by_path
    ]
    keys = {entry["key"] for entry in survivors}
    return [mutant for mutant in again if mutant and mutant.key in keys]


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
