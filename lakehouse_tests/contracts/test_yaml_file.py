"""Files that are no YAML, or no contract: the mistake is named by file and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts import ContractError, load_contract
from lakehouse_tests.support.contract_texts import SHOP_SOURCE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "contract.yaml"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("dataset: a\nmodel: [", "2: not valid YAML: "),
        ("dataset: a\n\tmodel: b", "2: not valid YAML: "),
        ("dataset: a\n---\ndataset: b", "2: not valid YAML: "),
        ("dataset: a\nowner: !!python/object:os.system x", "2: not valid YAML: "),
        ("dataset: a\n? [x]\n: y", "2: not valid YAML: "),
        ("dataset: a\nowner: \0", "2: not valid YAML: "),
        ("dataset: a\nwindow: " + "9" * 5_000, "1: not valid YAML: "),
        ("[" * 100_000, "1: not valid YAML: "),
        (b"dataset: a\nowner: \xff", "2: not valid UTF-8"),
        ("", "1: a contract is a mapping"),
        ("- dataset: a", "1: a contract is a mapping"),
        ("dataset", "1: a contract is a mapping"),
        ("name: a", "1: name a 'dataset:'"),
        ("dataset: a\nowner: x\nowner: y", "3: owner: is given twice"),
        ("dataset: a\ninfo:\n  x: 1\n  y: 2\n  x: 3", "5: x: is given twice"),
    ],
)
def test_files_that_are_no_contract(file: Path, content: str | bytes, expected: str) -> None:
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ContractError) as caught:
        load_contract(file)
    (mistake,) = caught.value.mistakes
    assert mistake.startswith(f"{file}:{expected}")


def test_aliases_are_followed_once(file: Path) -> None:
    laughs = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 40))
    text = SHOP_SOURCE + "info:\n  l0: &l0 ha\n" + laughs + "  self: &self [*self]\n"
    file.write_text(text, encoding="utf-8")
    assert set(load_contract(file).info) == {"self", *(f"l{number}" for number in range(40))}


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="cannot be read: "):
        load_contract(tmp_path / "none.yaml")
