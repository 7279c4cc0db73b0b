"""Ids, name keys and their reservations."""

import secrets
from collections.abc import Mapping
from typing import TypeVar

from actors.runtime.model.errors import AmbiguousId, NameReserved, NotFound
from protocols.wire import cri_pb2 as pb

V = TypeVar("V")

ID_LENGTH = 64


def new_id() -> str:
    return secrets.token_hex(ID_LENGTH // 2)


def sandbox_key(metadata: pb.PodSandboxMetadata) -> str:
    return f"{metadata.name}_{metadata.namespace}_{metadata.uid}_{metadata.attempt}"


def container_key(metadata: pb.ContainerMetadata, pod: pb.PodSandboxMetadata) -> str:
    return f"{metadata.name}_{pod.name}_{pod.namespace}_{pod.uid}_{metadata.attempt}"


def resolve(entries: Mapping[str, V], wanted: str, kind: str) -> V:
    """The entry whose id is `wanted`, or the only one whose id begins so. Raises NotFound, AmbiguousId."""
    if (exact := entries.get(wanted)) is not None:
        return exact
    found = [key for key in entries if key.startswith(wanted)] if wanted and len(wanted) < ID_LENGTH else []
    if not found:
        raise NotFound(f'{kind} "{wanted}" not found')
    if len(found) > 1:
        raise AmbiguousId(f'{kind} id "{wanted}" is a prefix of {len(found)} ids; give more digits')
    return entries[found[0]]


class Reservations:
    """Which id holds which name. A name is free again only when its holder is removed."""

    def __init__(self, kind: str, create_call: str) -> None:
        self._kind = kind
        self._create_call = create_call
        self._holders: dict[str, str] = {}
        self._in_flight: set[str] = set()

    def reserve(self, key: str, holder: str) -> None:
        """Hold `key` for a creation that has begun; settle() or release() ends that. Raises NameReserved."""
        if (other := self._holders.get(key)) is not None:
            hint = f"; check if another {self._create_call} request is in progress" if key in self._in_flight else ""
            raise NameReserved(
                f'failed to reserve {self._kind} name "{key}": name "{key}" is reserved for "{other}"{hint}'
            )
        self._holders[key] = holder
        self._in_flight.add(key)

    def settle(self, key: str) -> None:
        self._in_flight.discard(key)

    def release(self, key: str) -> None:
        self._holders.pop(key, None)
        self._in_flight.discard(key)
