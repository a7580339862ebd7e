"""The proofs: each is in one shard, each folder of the product is covered, and the command that runs them says what it did."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakehouse_tests import proofs
from lakehouse_tests.support.proofs import page, records
from lakehouse_tests.support.proofs.changes import changed_files, code_commit
from lakehouse_tests.support.proofs.marked_tests import defined_tests, marked_tests
from lakehouse_tests.support.proofs.records import Record
from lakehouse_tests.support.proofs.shards import MOST_MINUTES, Shard, matches, read_shards, shard_of
from lakehouse_tests.support.proofs.staleness import StaleProofsWarning, shard_states

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TESTS = Path(__file__).parent
CHECKOUT = TESTS.parent
SHARDS = read_shards(CHECKOUT)
marked = cache(lambda: marked_tests(TESTS))


def test_each_law_and_each_proof_is_in_a_shard() -> None:
    assert [test for test in marked().tests if shard_of(SHARDS.entries, test) is None] == [], (
        "add it to lakehouse_tests/proofs.toml"
    )


def test_no_entry_is_in_two_shards() -> None:
    assert SHARDS.repeated == []


def test_no_mark_is_where_it_is_not_counted() -> None:
    assert marked().stray == [], "put it on the test, its case, its fixture or its module"


def test_each_entry_of_a_shard_exists() -> None:
    def exists(entry: str) -> bool:
        path, _, test = entry.partition("[")[0].partition("::")
        return (TESTS / path).exists() and (not test or test in defined_tests(TESTS / path))

    assert [entry for entry in SHARDS.entries if not exists(entry)] == []


def test_each_folder_of_the_product_is_covered_or_has_a_reason() -> None:
    product = CHECKOUT / "lakehouse"
    covered = {folder for shard in SHARDS.by_name.values() for folder in shard.covers}
    assert [folder for folder in (*covered, *SHARDS.uncovered) if not (product / folder).exists()] == []
    folders = {path.parent.name for path in product.glob("*/__init__.py")}
    first_level = {folder.split("/")[0] for folder in covered}
    assert folders - first_level == set(SHARDS.uncovered), "cover each in lakehouse_tests/proofs.toml, or say why not"
    assert all(SHARDS.uncovered.values())


def test_a_shard_fits_into_one_sitting() -> None:
    assert {name: shard.minutes for name, shard in SHARDS.by_name.items() if not 0 < shard.minutes <= MOST_MINUTES} == {}


def test_the_page_is_that_of_the_shards_and_their_results() -> None:
    written = (CHECKOUT / "docs" / "proofs.md").read_text(encoding="utf-8")
    assert written == page.rendered(SHARDS, records.read(CHECKOUT / "docs" / "proofs.json")), "run .ci/proofs page"


@pytest.mark.skipif(not (CHECKOUT / ".git").exists(), reason="what has changed is known only to git")
def test_stale_shards_are_named() -> None:
    states = shard_states(CHECKOUT, SHARDS, marked().tests, records.read(CHECKOUT / "docs" / "proofs.json"))
    stale = [f"{state.shard.name} ({', '.join(state.reasons)})" for state in states if state.reasons]
    with warnings.catch_warnings():
        warnings.simplefilter("always", StaleProofsWarning)  # also where other warnings are errors
        if stale:
            warnings.warn(f"stale proofs: {'; '.join(stale)}", StaleProofsWarning, stacklevel=1)


def test_the_longest_entry_decides() -> None:
    entries = {
        "silver": "laws",
        "silver/test_a.py": "kills",
        "silver/test_a.py::test_b": "b",
        "silver/test_a.py::test_c[by S": "c",
    }
    names = ("silver/test_z.py::test_b", "silver/test_a.py::test_x", "silver/test_a.py::test_b[1]", "silver/test_a.py::test_bc")
    assert [shard_of(entries, name) for name in names] == ["laws", "kills", "b", "kills"]
    cases = [shard_of(entries, f"silver/test_a.py::test_c[{case}]") for case in ("by Spark", "by hand")]
    assert cases == ["c", "kills"]
    assert shard_of(entries, "silverware/test_a.py::test_b") is None
    shard = Shard("x", "", ("silver/test_a.py::test_c[by S", "silver/test_a.py", "gold"), (), 1)
    assert shard.paths == ["gold", "silver/test_a.py"], "pytest gets each path once"
    assert matches("gold", "gold/test_a.py")


#: The plugins of an inner pytest. It starts in a fifth of the time that all installed plugins take.
LIGHT = {
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTEST_ADDOPTS": "-p xdist.plugin -p _hypothesis_pytestplugin -p no:cacheprovider",
}

#: Every way to mark a test.
MARKED_MODULE = """
import pytest
from hypothesis import given, strategies

from lakehouse_tests.support import laws
from lakehouse_tests.support.laws import law as a_law

SLOW = pytest.param(1, marks=[pytest.mark.proof])
CASES = [0, SLOW]


@pytest.fixture(params=[0, pytest.param(1, marks=pytest.mark.proof)])
def size(request):
    return request.param


@pytest.fixture
def lake(size):
    return size


@pytest.mark.proof
def test_marked(): ...


@a_law(30, in_each_run=1)
@given(strategies.integers())
def test_law(number): ...


@laws.law(30, in_each_run=1)
@given(strategies.integers())
def test_law_of_the_module(number): ...


@pytest.mark.parametrize("case", [0, pytest.param(1, marks=pytest.mark.proof)], ids=["few", "many"])
def test_case(case): ...


@pytest.mark.parametrize("case", CASES)
def test_constant(case): ...


def test_fixture(lake): ...


class TestMarked:
    pytestmark = pytest.mark.proof

    def test_method(self): ...


@pytest.mark.proof
class TestDecorated:
    def test_method(self): ...


class TestPlain:
    @pytest.mark.proof
    def test_method(self): ...

    def test_plain(self): ...


def test_not_marked():
    law = proof = "law or proof"


@pytest.mark.parametrize("case", [0])
def test_not_marked_either(case): ...


def is_a_number(number): ...


test_assigned = a_law(30, in_each_run=1)(given(strategies.integers())(is_a_number))
"""
WHOLE_MODULE = "import pytest\n\npytestmark = [pytest.mark.law, pytest.mark.timeout(9)]\n\n\ndef test_whole(): ...\n"


def test_marks_are_found_in_the_source_as_pytest_finds_them(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\nmarkers = ['law', 'proof', 'timeout']\n")
    (tmp_path / "test_module.py").write_text(MARKED_MODULE)
    (tmp_path / "test_whole.py").write_text(WHOLE_MODULE)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "law or proof", "-p", "no:cacheprovider"]
    environment = os.environ | LIGHT | {"PYTHONPATH": f"{CHECKOUT}"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    collected = {line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line}
    assert len(collected) == 11, done.stdout + done.stderr
    assert set(marked_tests(tmp_path).tests) == collected
    assert marked_tests(tmp_path).stray == []


def test_a_mark_that_no_test_carries_is_stray(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("import pytest\n\nslow = pytest.mark.proof\n")
    added = "import pytest\n\n\ndef test_x(request):\n    request.node.add_marker(pytest.mark.proof)\n"
    (tmp_path / "test_added.py").write_text(added)
    assert marked_tests(tmp_path).stray == ["helpers.py:3", "test_added.py:5"]


PROOFS = """
import os

import pytest

from lakehouse_tests.support import tried
from lakehouse_tests.support.laws import is_proof


@pytest.mark.proof
@pytest.mark.parametrize("way", ["a", "b"], ids=["by sequence", "by arrival"])
def test_counts(way):
    assert is_proof()
    tried.count("examples", 1200)
    tried.count("kills")


@pytest.fixture
def history():
    tried.count("days", 90)


@pytest.mark.proof
def test_days(history):
    tried.count("kills", 2)
    assert os.path.exists("repaired"), "it is broken"


@pytest.mark.law
def test_skipped():
    pytest.skip("no broker")


@pytest.mark.proof
def test_of_another_shard():
    pass


def test_not_a_proof():
    raise AssertionError
"""
TOML = """
[shards.first]
promise = "The first promise."
tests = ["test_first.py"]
covers = ["silver"]
minutes = 1

[shards.second]
promise = "The second promise."
tests = ["test_first.py::test_of_another_shard", "other"]
covers = ["gold/numbers"]
minutes = 2
"""


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=anna", "-c", "user.email=anna@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-m", "change")
    changed_files.cache_clear()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small checkout with two shards, under git."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)  # the inner runs are no part of the run that this test is part of
    for name, value in LIGHT.items():
        monkeypatch.setenv(name, value)
    markers = "[tool.pytest.ini_options]\naddopts = \"-ra -m 'not proof'\"\nmarkers = ['law', 'proof']\n"
    files = {
        "pyproject.toml": markers,
        ".gitignore": ".proofs/\n__pycache__/\n.hypothesis/\n.pytest_cache/\n",
        "lakehouse/silver/merge.py": "",
        "lakehouse/gold/numbers/history.py": "",
        "lakehouse_tests/proofs.toml": TOML,
        "lakehouse_tests/test_first.py": PROOFS,
        "lakehouse_tests/other/test_second.py": "",
        "docs/proofs.md": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    yield tmp_path
    changed_files.cache_clear()


Command = "Callable[..., tuple[int, str]]"


@pytest.fixture
def run(checkout: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Runs the command; gives the exit code and what it printed, without how long proofs took."""

    def command(*words: str) -> tuple[int, str]:
        code = proofs.main([*words], root=checkout)
        printed = capfd.readouterr()
        return code, re.sub(r"\b\d+ s$", "0 s", printed.out, flags=re.MULTILINE)

    return command


@pytest.mark.merge
def test_each_proof_has_a_line_with_what_it_tried_and_a_failure_stops_nothing(run: Command) -> None:
    code, printed = run("all", "-n", "1", "--seed", "7")
    assert code == 1
    lines = printed.splitlines()
    assert "passed  first  test_first.py::test_counts[by sequence]  seed 7  1,200 examples  1 kill  0 s" in lines
    assert "passed  first  test_first.py::test_counts[by arrival]  seed 7  1,200 examples  1 kill  0 s" in lines
    assert "failed  first  test_first.py::test_days  seed 7  2 kills  90 days  0 s" in lines
    assert "AssertionError: it is broken" in printed
    assert "skipped  first  test_first.py::test_skipped  no broker" in lines
    assert "passed  second  test_first.py::test_of_another_shard  seed 7  0 s" in lines
    assert "== first: 1 failed, 2 passed, 1 skipped, 2,400 examples, 4 kills, 90 days, 0 s" in lines
    assert lines[-1] == "== all: 1 failed, 3 passed, 1 skipped, 2,400 examples, 4 kills, 90 days, 0 s"
    assert "test_not_a_proof" not in printed


@pytest.mark.merge
def test_a_shard_is_resumed_and_the_page_has_the_last_result_of_each_proof(run: Command, checkout: Path) -> None:
    page_file = checkout / "docs" / "proofs.md"
    other = Record("test_first.py::test_of_another_shard", "passed", 7, {}, 3, "a" * 40, "2024-11-05")
    records.write(checkout / "docs" / "proofs.json", [other])
    commit(checkout)
    assert run("first", "-n", "0", "--seed", "7")[0] == 1
    written = page_file.read_text()
    assert "The first promise.\n\nCovers `lakehouse/silver`. Takes about 1 min." in written
    cells = [
        r"`test_first.py::test_counts\[by arrival\]`",
        "passed",
        "seed 7, 1,200 examples, 1 kill",
        "0",
        r"`\w{9}`",
        r"20\d\d-\d\d-\d\d",
    ]
    assert re.search(r" \| ".join(cells), written)
    assert "| `test_first.py::test_skipped` | skipped: no broker |  | 0 |" in written
    assert "| `test_first.py::test_days` | failed |" in written
    assert "| `test_first.py::test_of_another_shard` | passed | seed 7 | 3 | `aaaaaaaaa` | 2024-11-05 |" in written

    (checkout / "repaired").touch()
    commit(checkout)  # of the page, too: the code is the same
    code, printed = run("first", "-n", "0", "--seed", "7")
    assert code == 0
    assert "test_counts" not in printed
    assert "\npassed  first  test_first.py::test_days  seed 7  2 kills  90 days" in printed
    assert "== first: 1 passed, 1 skipped, 2 passed before, 2 kills, 90 days, 0 s" in printed
    assert "| `test_first.py::test_days` | passed | seed 7, 2 kills, 90 days |" in page_file.read_text()
    again = run("first", "-n", "0", "--again", "--", "-k", "test_counts")
    assert (again[0], again[1].count("\npassed")) == (0, 2)

    module = checkout / "lakehouse_tests" / "test_first.py"
    module.write_text(PROOFS.replace("by arrival", "by clock"))
    commit(checkout)
    run("first", "-n", "0", "--", "-k", "skipped")
    assert "by arrival" in page_file.read_text(), "only a part was run"
    code, printed = run("first", "-n", "0")
    assert (code, printed.count("\npassed")) == (0, 3), "other code"
    assert "by arrival" not in page_file.read_text()
    assert "by clock" in page_file.read_text()
    assert "aaaaaaaaa" in page_file.read_text()


def test_a_shard_is_stale_by_what_it_covers(run: Command, checkout: Path) -> None:
    assert run("stale") == (0, "first: never proved\nsecond: never proved\n")
    proved = code_commit(checkout)
    names = ("test_counts[by sequence]", "test_days", "test_of_another_shard")
    results = [Record(f"test_first.py::{name}", "passed", 7, {}, 3, proved, "2024-11-05") for name in names]
    skipped = Record("test_first.py::test_skipped", "skipped", 7, {}, 0, proved, "2024-11-05", "no broker")
    records.write(checkout / "docs" / "proofs.json", [*results, skipped])
    assert run("stale")[1] == "first: 1 not proved yet\n", "a proof that was skipped has proved nothing"
    (checkout / "lakehouse" / "gold" / "numbers" / "history.py").write_text("# changed\n")
    changed_files.cache_clear()
    assert run("stale")[1].splitlines()[1] == "second: lakehouse/gold/numbers"
    commit(checkout)
    assert run("stale")[1].splitlines()[1] == "second: lakehouse/gold/numbers"
    printed = run("list")[1]
    assert f"second    2 min    1 tests  {proved[:9]}  2024-11-05  stale: lakehouse/gold/numbers\n" in printed
    assert "The first promise." in printed
    git(checkout, "checkout", "--orphan", "elsewhere")
    records.write(checkout / "docs" / "proofs.json", [Record(results[2].proof, "passed", 7, {}, 3, "a" * 40, "2024-11-05")])
    assert run("stale")[1].splitlines()[1] == "second: commit aaaaaaaaa is unknown here"


def test_code_that_is_not_committed_is_proved_for_its_author_only(run: Command, checkout: Path) -> None:
    (checkout / "lakehouse" / "silver" / "new.py").touch()
    code, printed = run("second", "-n", "0")
    assert code == 0
    assert "not committed (lakehouse/silver/new.py)" in printed
    assert "\npassed  second  test_first.py::test_of_another_shard" in printed
    assert (checkout / "docs" / "proofs.md").read_text() == ""
    assert not (checkout / ".proofs" / f"{code_commit(checkout)}.jsonl").exists(), "the next call runs it again"


@pytest.mark.merge
def test_a_module_that_cannot_be_imported_fails_and_keeps_the_rows(run: Command, checkout: Path) -> None:
    (checkout / "lakehouse_tests" / "other" / "test_second.py").write_text("import nothing_of_this_name\n")
    gone = Record("test_first.py::test_of_another_shard[gone]", "passed", 7, {}, 3, "a" * 40, "2024-11-05")
    records.write(checkout / "docs" / "proofs.json", [gone])
    commit(checkout)
    code, printed = run("second")
    assert code == 1
    assert "No module named 'nothing_of_this_name'" in printed
    assert "not collected  second  other/test_second.py" in printed
    assert "passed  second  test_first.py::test_of_another_shard" in printed
    assert "[gone]" in (checkout / "docs" / "proofs.md").read_text()


def test_a_shard_that_does_not_exist_is_named(run: Command, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("third")
    assert "no shard is called third; the shards are first, second" in capfd.readouterr().err


def test_a_line_that_a_crash_has_cut_spoils_no_other(tmp_path: Path) -> None:
    state, record = tmp_path / "state.jsonl", Record("test_a.py::test_b", "passed", 7)
    records.append(state, record)
    with state.open("a") as file:
        file.write('\n{"proof": "test_a')
    records.append(state, record)
    assert records.appended(state) == [record, record]
