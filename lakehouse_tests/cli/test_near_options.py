"""An unknown option names the argument or the option that was meant."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from lakehouse.cli.program import app, hint

SHOW = {"metric": "METRIC", "period": "PERIOD"}


@pytest.mark.parametrize(
    ("option", "arguments", "options", "text"),
    [
        ("--date", SHOW, [], "the period is an argument: lakehouse x METRIC PERIOD"),
        ("--metric", SHOW, [], "the metric is an argument: lakehouse x METRIC PERIOD"),
        ("--day", {"source": "SOURCE"}, ["--date", "--key"], "did you mean --date?"),
        ("--colour", SHOW, ["--date"], None),
    ],
)
def test_what_was_meant(option: str, arguments: dict[str, str], options: list[str], text: str | None) -> None:
    assert hint(option, arguments, options, "lakehouse x") == text


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("gold show revenue --date 2024-11-01", "the period is an argument: lakehouse gold show METRIC PERIOD"),
        ("rows sales --day 2024-11-01", "did you mean --date?"),
    ],
)
def test_the_command_line_names_it(line: str, text: str) -> None:
    done = CliRunner(env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"}).invoke(app, line.split(), prog_name="lakehouse")
    assert done.exit_code == 2
    assert text in " ".join(done.output.replace("│", " ").split())
