"""Ports for servers that are told their port before they start: nobody else takes one in between.

Outgoing connections, and whoever binds port 0, get theirs from the kernel's range, which begins above these; every
process of a test run draws from a hundred of its own.
"""

import itertools
import os
import socket

FIRST, EACH, SHARES = 12_000, 100, 200
_turn = itertools.count()


def free_port() -> int:
    """One of 127.0.0.1 that this process has not given out for long, and nobody listens on."""
    first = FIRST + os.getpid() % SHARES * EACH
    for turn in itertools.islice(_turn, EACH):
        port = first + turn % EACH
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"all ports from {first} to {first + EACH - 1} are taken")
