"""Which mirror pods to create and to delete. Pure."""

from collections.abc import Iterable, Mapping

import msgspec

from actors.podworker.manifests.read import full_name, mirrored
from actors.podworker.types import Object


class Steps(msgspec.Struct, frozen=True):
    create: tuple[Object, ...] = ()
    """Static pods the API shows no mirror of."""
    delete: tuple[Object, ...] = ()
    """Mirrors of nothing, of an older version, or that someone wants deleted: the API alone, no container ends."""


def steps(static: Iterable[Object], mirrors: Mapping[str, Object]) -> Steps:
    """`mirrors` by namespace/name. A wrong mirror is deleted first and created once it is gone."""
    wanted = {full_name(pod): pod for pod in static}
    create = tuple(pod for name, pod in wanted.items() if name not in mirrors)
    return Steps(create, tuple(m for name, m in mirrors.items() if not _fits(m, wanted.get(name))))


def _fits(mirror: Object, pod: Object | None) -> bool:
    ending = (mirror.get("metadata") or {}).get("deletionTimestamp")
    return pod is not None and not ending and mirrored(mirror) == pod["metadata"]["uid"]
