"""The Git commit of contracts and code, next to the hashes: of the repository, or as the setting names it. No Spark."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from lakehouse.delta import provenance
from lakehouse.ledger import publications
from lakehouse_tests.support.empty_lake import lake_in
from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers, metric, without_spark

if TYPE_CHECKING:
    from pathlib import Path


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=anna", "-c", "user.email=anna@example.com", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(name="contracts")
def _contracts(tmp_path: Path) -> Path:
    folder = tmp_path / "repository" / "contracts"
    folder.mkdir(parents=True)
    (folder / "sales.yaml").write_text("dataset: sales\n")
    git(folder.parent, "init", "-q")
    git(folder.parent, "add", "-A")
    git(folder.parent, "commit", "-qm", "contracts")
    return folder


def test_a_number_names_the_commit_of_its_contracts_and_is_found_by_it(tmp_path: Path, contracts: Path) -> None:
    lake = lake_in(tmp_path).with_settings(contracts=contracts)
    commit = git(contracts, "rev-parse", "HEAD")[:12]
    with without_spark():
        numbers = ScriptedNumbers(lake, metric())
        numbers.at(1)
        numbers.set(1, 5)
        numbers.publish()
    [made] = publications.numbers_made_by(lake, numbers.series, commit[:7])
    assert (made.version_name, made.code_commit) == ("total_v2024-01-01.r1", commit)


def test_a_changed_file_is_seen(tmp_path: Path, contracts: Path) -> None:
    (contracts / "sales.yaml").write_text("dataset: orders\n")
    commit = provenance.commit_of_folder(lake_in(tmp_path), contracts)
    assert commit == f"{git(contracts, 'rev-parse', 'HEAD')[:12]}+modified"


def test_a_change_outside_of_the_folder_is_none_of_the_contracts(tmp_path: Path, contracts: Path) -> None:
    (contracts.parent / "notes").write_text("later\n")
    assert provenance.commit_of_folder(lake_in(tmp_path), contracts) == git(contracts, "rev-parse", "HEAD")[:12]


def test_the_setting_names_the_commit_where_no_repository_is_deployed(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    assert provenance.commit_of_folder(lake, tmp_path / "nowhere") is None
    assert provenance.commit_of_folder(lake, tmp_path) is None, "a folder that is in no repository"
    named = lake.with_settings(code_commit="v1.4")
    assert provenance.commit_of_contracts(named) == "v1.4"
