"""The documentation agrees with the product: paths exist, commands and settings are complete, links lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest

from lakehouse.settings import Settings

CHECKOUT = Path(__file__).parents[1]
PAGES = [
    CHECKOUT / "README.md",
    CHECKOUT / "CONTRIBUTING.md",
    CHECKOUT / "CHANGELOG.md",
    *sorted((CHECKOUT / "docs").rglob("*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_path_of_the_tree_that_a_page_names_exists(page: Path) -> None:
    named = re.findall(r"`((?:lakehouse|lakehouse_tests|docs|benchmarks|dagster_home)/[\w./-]+)`", page.read_text())
    assert [path for path in named if not (CHECKOUT / path).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_to_a_file_leads_to_one(page: Path) -> None:
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [path for path in linked if not (page.parent / path).exists()] == []


def test_a_link_of_an_included_page_leads_to_a_file_from_both_places() -> None:
    for page in sorted((CHECKOUT / "docs").rglob("*.md")):
        for name in re.findall(r'^--8<-- "([^"]+)"', page.read_text(), re.MULTILINE):
            linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (CHECKOUT / name).read_text())
            assert [path for path in linked if not (page.parent / path).exists()] == [], f"{page.name} includes {name}"


LOCKED = re.findall(r"^typer==([\w.]+)", (CHECKOUT / "requirements.lock").read_text(), re.MULTILINE)


@pytest.mark.skipif(metadata.version("typer") not in LOCKED, reason="other versions of typer word the page differently")
def test_the_commands_are_described_as_they_are() -> None:
    done = subprocess.run(
        [sys.executable, "docs/write_commands.py", "--check"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_diagram_of_layers_is_that_of_the_import_contracts() -> None:
    done = subprocess.run(
        [sys.executable, "docs/write_layers.py", "--check"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_product_is_within_the_sizes_and_walks_of_the_tables() -> None:
    done = subprocess.run(
        [sys.executable, "docs/write_structure.py", "--check"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_each_term_of_the_glossary_stands_once() -> None:
    terms = re.findall(r"^\| ([^|]+) \|", (CHECKOUT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    assert {term for term, count in Counter(terms).items() if count > 1} <= {"Term", "---"}, "a table's head may stand twice"


def test_each_command_that_a_page_names_exists() -> None:
    commands = re.findall(r"^#{2,4} `lakehouse ([\w -]+)`$", (CHECKOUT / "docs" / "commands.md").read_text(), re.MULTILINE)
    for page in PAGES:
        for words in re.findall(r"^(?:\| .*`)?lakehouse ([a-z]+(?: [a-z]+)?)", page.read_text(), re.MULTILINE):
            assert words in commands or words.split()[0] in commands, (page.name, words)


def test_the_commands_of_templates_have_the_options_that_they_name() -> None:
    reference = (CHECKOUT / "docs" / "commands.md").read_text()
    sections = re.findall(r"^#{2,4} `lakehouse ([\w -]+)`$(.*?)(?=^#{2,4} `|\Z)", reference, re.MULTILINE | re.DOTALL)
    options = {command: set(re.findall(r"--[a-z-]+", text)) for command, text in sections}
    used = [
        line
        for page in (CHECKOUT / "docs" / "templates").glob("*.md")
        for line in re.findall(r"`lakehouse ([^`]+)`", page.read_text())
    ]
    assert len(used) > 20
    for line in used:
        words = line.split()
        command = " ".join(words[:2]) if " ".join(words[:2]) in options else words[0]
        assert set(re.findall(r"--[a-z-]+", line)) <= options[command], line


def test_each_setting_is_described() -> None:
    text = (CHECKOUT / "docs" / "settings.md").read_text()
    assert [name for name in Settings.model_fields if f"| `LAKEHOUSE_{name.upper()}` |" not in text] == []


def sentences_of_the_product() -> str:
    """Every text in the product's code, with a mark where a value is inserted."""
    texts = []
    for path in (CHECKOUT / "lakehouse").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(f"{part.value}" if isinstance(part, ast.Constant) else "\0" for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(re.sub(r"%[sd]", "\0", node.value))
    return "\n".join(texts)


def test_each_message_in_the_table_of_faults_is_one_that_the_product_prints() -> None:
    page = (CHECKOUT / "docs" / "operations.md").read_text("utf-8")
    rows = page[page.index("| Fault |") :].split("\n\n")[0].splitlines()[2:]
    printed = sentences_of_the_product()
    places = r"\.\.\.|\b[A-Z]\b|\b[nm]\b|\S*/\S*(?: computed)?|\d+|: "
    quoted = [quote for row in rows for quote in re.findall(r'"([^"]+)"', row.split(" | ")[1])]
    assert len(quoted) > 30
    parts = [(part.strip(" (),"), quote) for quote in quoted for part in re.split(places, quote)]
    assert [(part, quote) for part, quote in parts if part not in printed] == []
