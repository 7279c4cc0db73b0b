"""The vocabulary of volumes."""

from collections.abc import Mapping

import msgspec

from actors.podworker.environment.downward import Node
from actors.podworker.environment.references import Found
from actors.podworker.types import PodSpec

EMPTY_DIR, HOST_PATH = "emptyDir", "hostPath"
WRITTEN = ("configMap", "secret", "downwardAPI", "projected")
"""Kinds whose files are written by podworker, and kept as their sources are."""
SUPPORTED = (EMPTY_DIR, HOST_PATH, *WRITTEN)


class File(msgspec.Struct, frozen=True):
    data: bytes
    mode: int
    owner: int = -1
    """User id; -1 = podworker's own."""


Payload = dict[str, File]
"""By path below the volume, with `/` between its parts."""


class TokenRef(msgspec.Struct, frozen=True, order=True):
    """A token of the pod's service account, as a projected volume asks for it."""

    audience: str
    seconds: int


class Inputs(msgspec.Struct, frozen=True):
    """Everything the files of a pod's volumes are made of."""

    spec: PodSpec
    node: Node
    found: Found = {}
    tokens: Mapping[TokenRef, str] = {}
