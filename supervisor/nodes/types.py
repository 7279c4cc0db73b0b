"""The vocabulary of joining: what a node carries to another machine."""

from pathlib import Path

import msgspec

USER = "system:node:"
"""Before the node's name, that of its user in the API."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


class Pass(msgspec.Struct, frozen=True, kw_only=True):
    """A node's way into an API: a kubeconfig that also holds what the node's own endpoint serves with."""

    server: str
    """https://HOST:PORT"""
    node: str
    ca: bytes
    client: Pair
    serving: Pair
    serving_name: str = ""
    """The one name `serving` is good for; empty in passes of earlier versions, whose pair serves for localhost, too."""
    not_after: float
    """Unix time at which its certificates end."""


class Parent(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor that runs this one as one of its actors."""

    run_dir: Path
    supervisor: str
    instance: str
