"""What a terminal would obey is shown by commands, not sent: keys are data of others."""

from __future__ import annotations

import io
from typing import Literal

import pytest
from rich.table import Table

from lakehouse.cli.console import DataConsole


@pytest.mark.parametrize("colours", ["standard", None])
def test_control_characters_of_data_are_shown_as_escapes(
    colours: Literal["standard"] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    file = io.StringIO()
    console = DataConsole(file=file, width=80, force_terminal=True, color_system=colours, markup=False, highlight=False)
    table = Table("key")
    table.add_row("a\x1b[2J\x9b31mb\x7f")
    console.print("k\x1b]0;title", style="red")
    console.print(table)
    printed = file.getvalue()
    assert r"k\x1b]0;title" in printed
    assert r"a\x1b[2J\x9b31mb\x7f" in printed
    assert ("\x1b[31m" in printed) is (colours is not None), "its own colours stay"
    assert "\x1b]" not in printed
    assert "\x1b[2J" not in printed
