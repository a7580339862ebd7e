"""Commands about numbers that were published without Spark, as people type them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from typer.testing import CliRunner

from lakehouse.cli.program import app
from lakehouse_tests.support.lake import contract

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from lakehouse_tests.support.numbers_without_spark import ScriptedNumbers


def typed(numbers: ScriptedNumbers, folder: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[str, str]:
    """What a command prints, and what it prints on standard error."""
    contracts = folder / "contracts"
    contracts.mkdir(exist_ok=True)
    for name, definition in (("events", contract()), (numbers.metric.name, numbers.metric)):
        written = definition.model_dump(mode="json", exclude_none=True, exclude_unset=True, by_alias=False)
        (contracts / f"{name}.yaml").write_text(yaml.safe_dump(written))
    environment = {"ROOT": numbers.lake.root, "CONTRACTS": f"{contracts}", "NOW": f"{numbers.lake.now().isoformat()}"}
    for name, value in (environment | {"BUNDLED_CONTRACTS": "false"}).items():
        monkeypatch.setenv(f"LAKEHOUSE_{name}", value)
    done = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "250"})
    assert done.exit_code == 0, done.output
    return done.stdout, done.stderr
