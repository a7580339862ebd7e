"""``lakehouse admin token``: the tokens for reading and deciding through the API."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated

import typer

from lakehouse.cli.console import deployment, errors, out

if TYPE_CHECKING:
    from lakehouse.serving.http.tokens import Token


app = typer.Typer(help="Tokens for the API: add, list, revoke. Only hashes are stored.", no_args_is_help=True)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Who holds it; decisions are recorded under this name.")],
    role: Annotated[str, typer.Option(help="reader, or steward (may also decide).")] = "reader",
    days: Annotated[int, typer.Option(min=1, max=3650, help="For how many days it is valid.")] = 365,
) -> None:
    """Create a token and show it once."""
    from lakehouse.serving.http import tokens  # noqa: PLC0415 (Arrow loads in a second)

    if role not in [one.value for one in tokens.Role]:
        msg = f"--role is one of {', '.join(one.value for one in tokens.Role)}"
        raise typer.BadParameter(msg)
    if not name.strip():
        msg = "NAME is empty: enter who holds the token"
        raise typer.BadParameter(msg)
    lake, _ = deployment()
    _, text = tokens.add(lake, name.strip(), tokens.Role(role), lake.now() + timedelta(days=days))
    errors.print(f"A {role}'s token for {name.strip()}, for {days} days. It is not shown again:", style="yellow", soft_wrap=True)
    out.print(text, soft_wrap=True)


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per token.")] = False) -> None:  # noqa: FBT002
    """List the tokens, without their secrets."""
    from lakehouse.serving.http import tokens  # noqa: PLC0415

    lake, _ = deployment()
    known = tokens.all_of(lake)
    for token in known.values():
        if as_json:
            fields = {**vars(token), "role": token.role.value, "status": _status(token, lake.now())}
            out.print(
                json.dumps({name: value for name, value in fields.items() if name != "digest"}, default=str), soft_wrap=True
            )
        else:
            out.print(f"{token.token_id}  {token.role.value}  {token.name}  {_status(token, lake.now())}", soft_wrap=True)
    if not known and not as_json:
        out.print("No token has been added.")


@app.command()
def revoke(token_id: Annotated[str, typer.Argument(help="As 'token list' shows it.")]) -> None:
    """Revoke a token; a running server rejects it within two seconds."""
    from lakehouse.serving.http import tokens  # noqa: PLC0415

    lake, _ = deployment()
    token = tokens.all_of(lake).get(token_id)
    if token is None:
        errors.print(f"There is no token {token_id}; see 'lakehouse admin token list'.", style="red")
        raise typer.Exit(1)
    tokens.revoke(lake, token)
    out.print(f"{token_id} of {token.name} is revoked.", soft_wrap=True)


def _status(token: Token, now: datetime) -> str:
    if token.revoked_at is not None:
        return f"revoked {token.revoked_at:%Y-%m-%d}"
    until = token.expires_at or datetime.max.replace(tzinfo=timezone.utc)
    return f"until {until:%Y-%m-%d}" if now < until else f"expired {until:%Y-%m-%d}"
