"""Groups of options: a command gets its options as values, and its users see ordinary options."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isfunction, signature
from typing import TYPE_CHECKING, Annotated, Any, Optional, get_origin, get_type_hints

import typer
from typer.testing import CliRunner

from lakehouse.cli import arguments

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True)
class Color:
    name: Annotated[str, typer.Option("--color", help="Its name.")]
    tags: Annotated[list[str] | None, typer.Option("--tag", help="Repeated.")] = None
    is_bright: Annotated[bool, typer.Option("--bright", help="More of it.")] = False


@dataclass(frozen=True)
class Size:
    height: Annotated[int, typer.Option(min=1, help="In points.")] = 3


def invoked(*texts: str) -> tuple[int, str]:
    app = typer.Typer()

    @app.command()
    @arguments.with_groups
    def paint(
        thing: Annotated[str, typer.Argument()],
        color: Color,
        depth: Annotated[int, typer.Option()] = 1,
        *,
        size: Size,
    ) -> None:
        """Paint a thing."""
        typer.echo(f"{thing} {color} {depth} {size}")

    done = CliRunner().invoke(app, texts, env={"TERM": "dumb", "COLUMNS": "100"})
    return done.exit_code, done.output


def test_the_command_gets_an_instance_of_each_group() -> None:
    given = invoked("door", "--color", "red", "--tag", "a", "--tag", "b", "--bright", "--height", "7")
    assert given == (0, f"door {Color('red', ['a', 'b'], is_bright=True)} 1 {Size(7)}\n")


def test_fields_have_their_defaults() -> None:
    code, text = invoked("door", "--color", "red", "--depth", "2")
    assert (code, text) == (0, f"door {Color('red', None)} 2 {Size(3)}\n")


def test_an_option_without_a_default_is_required() -> None:
    code, text = invoked("door")
    assert code == 2
    assert "Missing option '--color'" in text


def test_a_value_is_checked_as_its_option_says() -> None:
    code, text = invoked("door", "--color", "red", "--height", "0")
    assert code == 2
    assert "--height" in text


def test_help_lists_the_fields_at_the_place_of_the_parameter() -> None:
    code, text = invoked("--help")
    places = [text.index(name) for name in ("--color", "--tag", "--bright", "--depth", "--height")]
    assert code == 0
    assert places == sorted(places)
    assert "Paint a thing." in text


def _hints_of_python_3_10(of: Any, **options: Any) -> dict[str, Any]:
    """The hints of a function as Python 3.10 gives them: what has the default None is optional around its declaration."""
    hints = get_type_hints(of, **options)
    if not isfunction(of):
        return hints
    optional = {name for name, parameter in signature(of).parameters.items() if parameter.default is None}
    return {name: Optional[hint] if name in optional else hint for name, hint in hints.items()}  # noqa: UP045


def test_an_option_whose_default_is_none_keeps_its_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    def paint(color: Color, depth: Annotated[int | None, typer.Option("--deep")] = None) -> None: ...

    monkeypatch.setattr(arguments, "get_type_hints", _hints_of_python_3_10)
    parameters = signature(arguments.with_groups(paint)).parameters
    assert {name: get_origin(parameter.annotation) for name, parameter in parameters.items()} == dict.fromkeys(
        ("name", "tags", "is_bright", "depth"), Annotated
    )
