"""The commands that serve readers: ``lakehouse serve``, ``status``, ``gold views`` and ``view``, ``admin token``.

``serve`` runs the metrics API and the web pages in one process. ``status`` prints the overview of the pages as text. ``gold
views`` writes the statements that create SQL views of the tables, and ``view`` prints one of the queries. ``admin token`` manages
the tokens for reading and deciding through the API.
"""

from __future__ import annotations

import gc
import ipaddress
import json
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lakehouse.cli import arguments
from lakehouse.cli.console import catalog_with, deployment, errors, out

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from lakehouse.contracts import Catalog
    from lakehouse.lake import Lake
    from lakehouse.serving.tokens import Token

#: Seconds after which a thread that refreshes values lets the one of requests go on; a request waits for that several times.
_SWITCH = 0.0005


@dataclass(frozen=True)
class ClientTerms:
    """Who may read, how often, and through which proxies."""

    allow_host: Annotated[
        list[str] | None, typer.Option(help="A host name that the server accepts; may be repeated. Default: its address.")
    ] = None
    open_reading: Annotated[
        bool, typer.Option("--open-reading", help="Allow reading without a token; on loopback none is needed anyway.")
    ] = False
    rate: Annotated[float, typer.Option(min=1, help="Requests per second of one client address.")] = 200.0
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(help="The address or network of a proxy whose X-Forwarded-For, -Proto and -Host are read; may be repeated."),
    ] = None


@dataclass(frozen=True)
class ConnectionTerms:
    """How many connections the server holds, and how long it waits on one."""

    max_connections: Annotated[int, typer.Option(min=1, help="Connections at a time, in all.")] = 1000
    max_connections_per_address: Annotated[
        int, typer.Option(min=1, help="Connections at a time of one address that is no trusted proxy.")
    ] = 100
    header_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds in which a request's headers have to arrive.")] = 10.0
    body_seconds: Annotated[float, typer.Option(min=0.1, help="Seconds in which its body has to arrive after them.")] = 20.0


@arguments.with_groups
def serve(
    *,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: any free one.")] = 8321,
    clients: ClientTerms,
    connections: ConnectionTerms,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every request.")] = False,
) -> None:
    """Serve published numbers as an API and as pages, on loopback by default; on other addresses, reading needs a token."""
    import uvicorn  # noqa: PLC0415 (loads in a second, which `--help` need not wait for)

    from lakehouse.serving.app import AccessPolicy, application_of  # noqa: PLC0415
    from lakehouse.serving.request_guard import (  # noqa: PLC0415
        ConnectionLimits,
        TrustedProxies,
        protocol,
    )

    lake, catalog = deployment()
    local = _is_loopback(host)
    hosts = {"localhost", "127.0.0.1", "[::1]"} if local else set()
    names = {*hosts, *(one.lower() for one in clients.allow_host or [])}
    if names and host not in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        names.add(f"[{host}]" if ":" in host else host.lower())
    if clients.open_reading and not local and not clients.allow_host:
        msg = "name the hosts that it is reached by with --allow-host: without, pages of any site could read it through a browser"
        raise typer.BadParameter(msg, param_hint="--open-reading")
    try:
        proxies = TrustedProxies(clients.trusted_proxy or [])
    except ValueError as problem:
        msg = f"{problem}; give an address as 10.0.0.7 or a network as 10.0.0.0/24"
        raise typer.BadParameter(msg, param_hint="--trusted-proxy") from None
    terms = AccessPolicy(hosts=names, rate=clients.rate, reading_needs_token=not (local or clients.open_reading), proxies=proxies)
    limits = ConnectionLimits(
        header_seconds=connections.header_seconds,
        body_seconds=connections.body_seconds,
        connections=connections.max_connections,
        per_address=connections.max_connections_per_address,
        proxies=proxies,
    )
    if not local:
        errors.print(
            f"Listening on {host}: "
            + (
                "everyone who reaches it can read. "
                if clients.open_reading
                else "reading needs a token ('lakehouse admin token add'). "
            )
            + "Put TLS in front of it: tokens travel in a header.",
            style="yellow",
            soft_wrap=True,
        )

    class Server(uvicorn.Server):
        """Prints the address as soon as the server answers."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for listening in self.servers[:1] if self.started else []:
                shown = f"[{host}]" if ":" in host else host
                bound = listening.sockets[0].getsockname()[1]
                errors.print(f"The pages are at http://{shown}:{bound}/", style="dim", soft_wrap=True)

    config = uvicorn.Config(
        application_of(lake, catalog, terms, _sensor_ages(lake, catalog)),
        host=host,
        port=port,
        log_level="info" if verbose else "warning",
        access_log=verbose,
        server_header=False,
        proxy_headers=False,  # the application reads those of trusted proxies, and the host name with them
        timeout_keep_alive=30,
        http=protocol(limits),
        ws="none",
    )
    server = Server(config)
    sys.setswitchinterval(_SWITCH)
    gc.callbacks.append(_ShortPauses())
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise typer.Exit(3)  # as uvicorn's own command does; it has printed why


class _ShortPauses:
    """Leaves what a long garbage collection has kept out of the next ones, which would stop all requests for as long.

    With 1,500 series a full collection takes 300 milliseconds, every few seconds. What is left out and no longer used is freed as
    usual, unless it refers to itself.
    """

    _LONG_SECONDS = 0.03

    def __init__(self) -> None:
        self._began = 0.0

    def __call__(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] == _OLDEST and phase == "start":
            self._began = time.perf_counter()
        elif info["generation"] == _OLDEST and time.perf_counter() - self._began > self._LONG_SECONDS:
            gc.freeze()


#: The generation that a full garbage collection is of.
_OLDEST = 2


def _sensor_ages(lake: Lake, catalog: Catalog) -> Callable[[], Mapping[str, float]] | None:
    """Reads the seconds since the last tick of each sensor; None if commands of this deployment have no Dagster instance."""
    from lakehouse.settings import dagster_home  # noqa: PLC0415 (`--help` need not wait for it)

    @cache  # Dagster loads at the first call, in seconds
    def reader() -> Callable[[], Mapping[str, float]]:
        from lakehouse.orchestration.build import sensor_ages  # noqa: PLC0415
        from lakehouse.orchestration.execution.in_process import local_instance  # noqa: PLC0415

        return sensor_ages(lake, catalog, local_instance())

    return None if dagster_home() is None else lambda: reader()()  # noqa: PLW0108 (it is not to load now)


#: The number of reasons that are printed for which a number waits.
_REASONS = 3


def status(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show what the page '/' shows: newest numbers, what they wait for, sources, models, and what waits for people."""
    import asyncio  # noqa: PLC0415 (`--help` need not wait for it)
    import json  # noqa: PLC0415

    from lakehouse.reports import formatting  # noqa: PLC0415
    from lakehouse.serving import overview  # noqa: PLC0415
    from lakehouse.serving.published_cache import PublishedCache  # noqa: PLC0415 (FastAPI loads in a second)

    lake, catalog = deployment(reading=True)
    shown = asyncio.run(overview.read(PublishedCache(lake, catalog)))
    if as_json:
        out.print(json.dumps(overview.as_json(shown), ensure_ascii=False), soft_wrap=True)
        return
    for card in shown["cards"]:
        _print_metric(card)
    if not shown["cards"]:
        out.print("There is no metric yet: 'lakehouse init' and 'lakehouse infer' write contracts.")
    for source in shown["sources"]:
        watermark = f"watermark {formatting.moment(source['watermark'].watermark)}" if source["is_set"] else "no watermark"
        newest = f"newest arrival {formatting.moment(source['newest'])}" if source["newest"] else "nothing has arrived"
        missing = f"missing: {', '.join(source['missing'])}" if source["missing"] else "nothing is known to be missing"
        out.print(f"source {source['name']}: {watermark}, {newest}; {missing}", soft_wrap=True)
    for model in shown["models"]:
        champion = model["champion"]
        out.print(f"model {model['model']}: {champion['version'] if champion else 'no version'} in use", soft_wrap=True)
    for problem in shown["unreadable"]:
        out.print(f"{problem['metric']} cannot be read: {problem['detail']}", soft_wrap=True)
    for pause in shown["paused"]:
        out.print(f"{pause.contract} is {pause}", soft_wrap=True)
    restated = formatting.counted(shown["restated"], "restatement") if shown["restated"] else "no restatement"
    out.print(f"{restated[0].upper()}{restated[1:]} this week. {_overdue_text(shown['overdue'])}", soft_wrap=True)
    for name, rows, overdue in shown["waiting"]:
        wait = f"{formatting.counted(rows, 'row')} of {name} {'waits' if rows == 1 else 'wait'} for a steward"
        late = f", {overdue:,} of them overdue" if overdue else ""
        out.print(f"{wait}{late}: lakehouse quarantine list {name}", soft_wrap=True)


def _overdue_text(overdue: int) -> str:
    if not overdue:
        return "No number is overdue."
    numbers = "1 number is" if overdue == 1 else f"{overdue:,} numbers are"
    return f"{numbers} not final, although the calendar allows it."


def _print_metric(card: dict[str, Any]) -> None:
    """The newest number of a metric in a line, and below it what it waits for."""
    from lakehouse.cli.number_report import shown  # noqa: PLC0415
    from lakehouse.reports.formatting import counted  # noqa: PLC0415

    newest, overdue, closing = card["newest"], card["overdue"], card.get("closing")
    if newest is None:
        out.print(f"{card['name']}: nothing has been published yet", soft_wrap=True)
        return
    totals = ", ".join(f"{name} {shown(sides.after)}" for name, sides in newest.sides.items())
    adjusted = "".join(f", {name} adjusted {shown(value)}" for name, value in newest.adjusted.items())
    restated = f", restated {counted(newest.restated, 'time')}" if newest.restated else ""
    out.print(f"{card['name']}  {newest.period.name}  {newest.label}{restated}: {totals}{adjusted}", soft_wrap=True)
    if card["contract"].deprecation:
        out.print(f"  {card['contract'].deprecation}.", soft_wrap=True)
    if card["held"]:
        out.print(f"  {card['whose']} is held back by {', '.join(card['held'])}: lakehouse gold held", soft_wrap=True)
    elif card["behind"]:
        out.print("  Newer data has arrived; the number will be restated.", soft_wrap=True)
    if closing and not closing.overdue:
        waits = "and not before this is settled:" if card["waiting_for"] else "nothing is known to be missing."
        out.print(
            f"  It becomes final on {closing.day} at the earliest{',' if card['waiting_for'] else ';'} {waits}", soft_wrap=True
        )
        _print_reasons(card["waiting_for"])
    if overdue:
        first = (
            f"  {overdue.total:,} overdue; the oldest, {overdue.oldest.name},"
            if overdue.total > 1
            else f"  {overdue.oldest.name} is overdue and"
        )
        out.print(f"{first} waits for {'this:' if overdue.waiting_for else 'the next run only.'}", soft_wrap=True)
        _print_reasons(overdue.waiting_for)


def _print_reasons(reasons: Sequence[str]) -> None:
    for reason in reasons[:_REASONS]:
        out.print(f"  - {reason}", soft_wrap=True)
    if len(reasons) > _REASONS:
        out.print(f"  - and {len(reasons) - _REASONS:,} more", soft_wrap=True)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_HEAD = "-- Written by 'lakehouse gold views'; run it again after the contracts change."


def views(
    to: Annotated[Path | None, typer.Option(help="The folder to write to; default: 'views' next to the tables.")] = None,
) -> None:
    """Write SQL files that create views in DuckDB and Spark: NAME_latest, NAME_final, NAME_asof(time), SOURCE_newest.

    For a dimension: SOURCE_current and SOURCE_valid_at(time).
    """
    from lakehouse.serving import sql_views  # noqa: PLC0415 (Arrow loads in a second)

    lake, catalog = deployment()
    if to is None and "://" in lake.root:
        msg = f"the tables are in {lake.root}: name a local folder with --to"
        raise typer.BadParameter(msg)
    folder = to or Path(lake.root, "views")
    folder.mkdir(parents=True, exist_ok=True)
    for dialect in sql_views.Dialect:
        lines = sql_views.statements(lake, catalog, dialect)
        file = folder / f"{dialect.value}.sql"
        file.write_text("\n".join([_HEAD, *lines, ""]), "utf-8")
        count = len(lines) - len(sql_views.PREAMBLE[dialect])
        out.print(f"{file}: {count:,} {'view' if count == 1 else 'views'}", soft_wrap=True)


def view(
    source: Annotated[str, typer.Argument(help="The dataset of a source contract.")],
    engine: Annotated[Literal["duckdb", "spark"], typer.Option(help="The SQL dialect.")] = "duckdb",
) -> None:
    """Deprecated: print the query of the view SOURCE_newest that 'lakehouse gold views' writes."""
    from lakehouse.serving import sql_views  # noqa: PLC0415

    errors.print("'lakehouse view' is deprecated: 'lakehouse gold views' writes the view SOURCE_newest.", style="yellow")
    lake, catalog = catalog_with(source, reading=True)
    out.print(sql_views.newest_rows(lake, catalog.sources[source], sql_views.Dialect(engine)), soft_wrap=True)


token_app = typer.Typer(help="Tokens for the API: add, list, revoke. Only hashes are stored.", no_args_is_help=True)


@token_app.command()
def add(
    name: Annotated[str, typer.Argument(help="Who holds it; decisions are recorded under this name.")],
    role: Annotated[str, typer.Option(help="reader, or steward (may also decide).")] = "reader",
    days: Annotated[int, typer.Option(min=1, max=3650, help="For how many days it is valid.")] = 365,
) -> None:
    """Create a token and show it once."""
    from lakehouse.serving import tokens  # noqa: PLC0415 (Arrow loads in a second)

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


@token_app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per token.")] = False) -> None:  # noqa: FBT002
    """List the tokens, without their secrets."""
    from lakehouse.serving import tokens  # noqa: PLC0415

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


@token_app.command()
def revoke(token_id: Annotated[str, typer.Argument(help="As 'token list' shows it.")]) -> None:
    """Revoke a token; a running server rejects it within two seconds."""
    from lakehouse.serving import tokens  # noqa: PLC0415

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
