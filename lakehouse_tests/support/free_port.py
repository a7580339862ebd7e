"""A port for a server of a test.

One that the system picks lies in the range from which it also gives every outgoing connection its own port, so that a
connection of another test can take it while the server is down. Ports below that range stay free.
"""

from __future__ import annotations

import random
import socket

_BELOW_THE_RANGE = range(20_000, 32_000)


def free_port() -> int:
    """A port of 127.0.0.1 that is free and that no outgoing connection will take."""
    for port in random.SystemRandom().sample(_BELOW_THE_RANGE, 200):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    msg = "no free port between 20000 and 31999"
    raise RuntimeError(msg)
