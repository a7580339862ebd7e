"""The file of addresses: who is reached where, and what is wrong in it, by line and field."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from lakehouse.contracts.yaml_file import ContractError
from lakehouse.operations.delivery import directory

if TYPE_CHECKING:
    from pathlib import Path

    from lakehouse.lake import Lake
    from lakehouse.operations.delivery import Directory


def read(lake: Lake, tmp_path: Path, text: str) -> Directory:
    lake.settings.addresses = tmp_path / "addresses.yaml"
    lake.settings.addresses.write_text(text)
    return directory(lake)


def test_without_a_file_everything_goes_to_the_targets_of_the_deployment(lake: Lake) -> None:
    lake.settings.alert_targets = ["log", "file:/tmp/alerts.jsonl"]
    reached = directory(lake)
    assert reached.of_owners(["anna"]) == reached.platform == ["log", "file:/tmp/alerts.jsonl"]
    assert reached.of_consumer("board") == reached.platform
    assert reached.escalate_after is None


def test_owners_consumers_and_the_platform_team_have_addresses(lake: Lake, tmp_path: Path) -> None:
    reached = read(
        lake,
        tmp_path,
        """
owners:
  anna: ["file:/var/anna.jsonl", "https://example.com/anna/secret"]
stewards:
  anna: ["file:/var/anna.jsonl", "file:/var/desk.jsonl"]
  sue: ["file:/var/sue.jsonl"]
consumers:
  board: ["file:/var/board.jsonl"]
platform: [log]
escalate_after: PT30M
""",
    )
    hook = reached.of_owners(["anna"])[1]
    assert hook.startswith("webhook:example.com:"), "a name contains no secret"
    assert reached.of_owners(["anna"]) == ["file:/var/anna.jsonl", hook, "file:/var/desk.jsonl"]
    assert reached.of_owners(["sue", "anna"])[:2] == ["file:/var/sue.jsonl", "file:/var/anna.jsonl"]
    assert reached.of_owners(["ben"]) == ["log"]
    assert reached.of_consumer("board") == ["file:/var/board.jsonl"]
    assert reached.of_consumer("press") == ["log"], "who has no address is reached through the platform team"
    assert reached.escalate_after == timedelta(minutes=30)
    files = {f"file:/var/{name}.jsonl" for name in ("anna", "board", "desk", "sue")}
    assert reached.targets.keys() == {"log", hook, *files}
    assert {name: target.name for name, target in reached.targets.items()} == {name: name for name in reached.targets}


def test_the_platform_team_is_reached_at_the_targets_of_the_deployment_by_default(lake: Lake, tmp_path: Path) -> None:
    lake.settings.alert_targets = ["file:/var/all.jsonl"]
    reached = read(lake, tmp_path, "owners: {anna: [log]}\n")
    assert (reached.platform, reached.escalate_after) == (["file:/var/all.jsonl"], timedelta(hours=1))
    assert read(lake, tmp_path, "# nothing yet\n").of_owners(["anna"]) == ["file:/var/all.jsonl"]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("owners:\n  anna:\n    - log\n    - ftp://example.com\n", ":4: owners.anna.1: the target is unknown; write a JSON list"),
        ("owner: {}\n", ":1: owner: unknown key; docs/alerts.md lists the known ones"),
        ("owners:\n  anna: log\n", ":2: owners.anna: Input should be a valid list"),
        ("platform: [log]\nescalate_after: soon\n", ":2: escalate_after: "),
        ("owners: {}\nowners: {}\n", ":2: owners: is given twice; keep one"),
        ("owners: [\n", ": not valid YAML"),
    ],
)
def test_a_mistake_is_reported_with_its_line_and_field(lake: Lake, tmp_path: Path, text: str, mistake: str) -> None:
    with pytest.raises(ContractError) as problem:
        read(lake, tmp_path, text)
    assert mistake in f"{problem.value}"
    assert f"{tmp_path / 'addresses.yaml'}:" in f"{problem.value}"


@pytest.mark.parametrize(
    "text",
    [
        *('platform: ["htps://h/hunter2"]', 'platform: ["https://h:hunter2/"]', "platform: https://h/hunter2"),
        *("platform: [{hunter2: 1}]", 'owners: {anna: ["slack://hunter2"]}'),
    ],
)
def test_a_misspelt_address_is_never_printed(lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str) -> None:
    with pytest.raises(ContractError) as problem:
        read(lake, tmp_path, text)
    assert "hunter2" not in f"{problem.value} {caplog.text}"


def test_a_file_that_is_not_there_is_a_mistake(lake: Lake, tmp_path: Path) -> None:
    lake.settings.addresses = tmp_path / "none.yaml"
    with pytest.raises(ContractError, match=r"none.yaml: cannot be read: No such file"):
        directory(lake)
