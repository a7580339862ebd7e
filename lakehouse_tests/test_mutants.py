"""The mutation runner, on a product of three functions whose tests are known."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("cosmic_ray", reason="the extra `mutation` is not installed")

from lakehouse_tests.mutation import results
from lakehouse_tests.mutation.project import Project
from lakehouse_tests.mutation.runner import Limits, Run, UnusableMapError
from lakehouse_tests.mutation.selection import CoverageMap, record
from lakehouse_tests.mutation.sites import Module, Mutant, draw, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

PRODUCT = '''
    """A shop, with 3 functions."""

    from __future__ import annotations

    from typing import TYPE_CHECKING

    if TYPE_CHECKING:
        from collections.abc import Sequence

    RATE = 2


    def total(prices: list[int | None]) -> int:
        return sum(price * RATE for price in prices if price)


    def is_large(amount: int) -> bool:
        if amount < 0:
            raise ValueError(f"{amount + 1} is below 0")
        return amount > 100


    def countdown(start: int) -> int:
        while start > 0:
            start = start - 1
        return start
'''
TESTS = """
    from shop.desk import prices


    def test_total():
        assert prices.total([1, None]) == 2


    def test_some_amount_is_large():
        assert prices.is_large(1000)


    def test_countdown_ends_at_zero():
        assert prices.countdown(2) == 0


    def test_that_always_fails():
        assert prices.total([1]) == 3
"""
MODULE = "shop/desk/prices.py"


@pytest.fixture(scope="module", autouse=True)
def without_plugins() -> Iterator[None]:
    """Plugins of pytest take longer to import than these tests take to run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        yield


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    root = tmp_path_factory.mktemp("shop")
    files = {MODULE: PRODUCT, "shop_tests/desk/test_prices.py": TESTS, "pyproject.toml": "[tool.pytest.ini_options]\n"}
    files |= dict.fromkeys(
        ("shop/__init__.py", "shop/desk/__init__.py", "shop_tests/__init__.py", "shop_tests/desk/__init__.py"), ""
    )
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(dedent(text).lstrip())
    return Project(root, ("desk",), product="shop", tests="shop_tests")


@pytest.fixture(scope="module")
def recorded(project: Project) -> CoverageMap:
    return record(project, [])


def texts(project: Project) -> dict[str, str]:
    return {path.relative_to(project.root).as_posix(): path.read_text() for path in project.root.rglob("*") if path.is_file()}


def line_of(project: Project, text: str) -> int:
    return next(number for number, line in enumerate(texts(project)[MODULE].splitlines(), 1) if text in line)


def mutant_at(project: Project, text: str, operator: str) -> Mutant:
    """The first mutant of an operator at a site that begins with a text."""
    module = Module(project.root, MODULE)
    lines = module.source.splitlines()
    sites = [site for site in module.sites() if lines[site.start[0] - 1][site.start[1] :].startswith(text)]
    change = next((site.start, *change) for site in sites for change in site.changes if change[0] == operator)
    mutant = module.mutant(*change)
    assert mutant
    return mutant


@pytest.mark.merge
def test_a_mutant_is_killed_or_survives_or_is_stopped(project: Project, recorded: CoverageMap, tmp_path: Path) -> None:
    before = texts(project)
    mutants = [
        mutant_at(project, "*", "ReplaceBinaryOperator_Mul_Add"),
        mutant_at(project, "> 100", "ReplaceComparisonOperator_Gt_GtE"),
        mutant_at(project, "- 1", "ReplaceBinaryOperator_Sub_Add"),
        mutant_at(project, "2", "NumberReplacer"),  # RATE, at import
    ]
    target = tmp_path / "results.jsonl"
    printed: list[str] = []
    Run(project, recorded, target, Limits(grace=3), printed.append).measure(mutants, workers=2)
    entries = {entry["line"]: entry for entry in results.read(target).values()}
    killed, survived, stopped, at_import = (
        entries[line_of(project, text)] for text in ("price * RATE", "> 100", "start - 1", "RATE =")
    )
    assert (killed["outcome"], killed["test"]) == ("killed", "shop_tests/desk/test_prices.py::test_total")
    assert "price + RATE" in killed["diff"]
    assert (survived["outcome"], survived["tests"]) == ("survived", 1)
    assert stopped["outcome"] == "timeout"
    assert (at_import["outcome"], at_import["test"]) == ("killed", "shop_tests/desk/test_prices.py::test_total")
    assert texts(project) == before
    assert results.table([results.read(target)] * 2, project.folders).splitlines()[:3] == [
        "folder  mutants  killed  survived  timeout  share  mutants  killed  survived  timeout  share",
        "desk          4       2         1        1    75%        4       2         1        1    75%",
        "all           4       2         1        1    75%        4       2         1        1    75%",
    ]

    # A run that goes on measures nothing again.
    written = target.read_text()
    printed.clear()
    Run(project, recorded, target, Limits(grace=3), printed.append).measure(mutants)
    assert (target.read_text(), printed) == (written, [])


def test_a_test_that_fails_without_a_mutant_kills_none(project: Project, recorded: CoverageMap, tmp_path: Path) -> None:
    assert recorded.recorded["tests"]["shop_tests/desk/test_prices.py::test_that_always_fails"]["outcome"] == "failed"
    wrong = CoverageMap({**recorded.recorded, "tests": {test: entry | {"outcome": "passed"} for test, entry in every(recorded)}})
    mutant = mutant_at(project, "amount < 0", "AddNot")
    always = {test: entry for test, entry in every(wrong) if test.endswith(("always_fails", "countdown_ends_at_zero"))}
    contexts = wrong.recorded["contexts"]
    lines = {MODULE: {str(mutant.start[0]): [contexts.index(test) for test in always]}}
    target = tmp_path / "results.jsonl"
    run = Run(project, CoverageMap({**wrong.recorded, "lines": lines}), target, Limits(grace=10), [].append)
    run.measure([mutant], workers=1)
    assert [entry["outcome"] for entry in results.read(target).values()] == ["survived"]
    assert run.failing == {"shop_tests/desk/test_prices.py::test_that_always_fails"}


def test_a_map_of_another_text_of_the_product_is_refused(project: Project, recorded: CoverageMap, tmp_path: Path) -> None:
    old = CoverageMap({**recorded.recorded, "files": {MODULE: "another"}})
    run = Run(project, old, tmp_path / "results.jsonl", Limits(), [].append)
    with pytest.raises(UnusableMapError, match=f"another text of {MODULE}; make it again"):
        run.measure([mutant_at(project, "*", "ReplaceBinaryOperator_Mul_Add")], workers=1)


def every(recorded: CoverageMap) -> Iterator[tuple[str, dict[str, object]]]:
    yield from recorded.recorded["tests"].items()


def test_the_same_seed_draws_the_same_mutants(project: Project) -> None:
    candidates = modules(project.root, project.product, project.folders)
    first, again, other = (draw(candidates, 5, seed) for seed in (1, 1, 2))
    assert len({mutant.key for mutant in first}) == 5
    assert first == again
    assert first != other


def test_text_annotations_and_imports_are_no_sites(project: Project) -> None:
    sites = Module(project.root, MODULE).sites()
    lines = texts(project)[MODULE].splitlines()
    mutated = {lines[site.start[0] - 1][site.start[1] : site.end[1]] for site in sites}
    assert mutated == {"2", "*", "price", "amount < 0", "<", "0", ">", "100", "start > 0", "-", "1"}
    assert not [site for site in sites if "raise" in lines[site.start[0] - 1]]
