"""The function that extracts changes from each envelope."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.bronze.envelopes import debezium, delta_feed, sql_server

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from lakehouse.bronze.envelopes.change import Change
    from lakehouse.contracts.changes.envelope import Envelope

#: By envelope, the function from the values of a record, and the columns that the contract needs, to the change.
UNFOLD: dict[Envelope, Callable[[Mapping[str, Any], Collection[str]], Change]] = {
    "debezium": debezium.unfold,
    "sqlserver": sql_server.unfold,
    "delta_feed": delta_feed.unfold,
}
