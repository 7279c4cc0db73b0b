"""Wait until an informer shows a controller's own writes.

Without it, a pass that decides on an older state would undo or repeat them: a conflict guards a single object, not a
decision about several. resourceVersions of one resource are compared as numbers, which upstream guarantees since 1.35.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Mapping

from protocols.kinds.table import Resource
from protocols.kube.errors import ApiAway
from protocols.kube.meta import Object, key_of, split_key, version_of
from protocols.kubeclient.client import ApiClient, find

OVERDUE_S = 5.0
"""Time after which an object that is not shown counts as deleted before the informer could show it."""
LOST = 0
"""Version of a write whose answer was lost."""


class OwnWrites:
    """Writes to objects of one resource. Memory is bounded by the objects that one pass of each owner writes."""

    def __init__(self, client: ApiClient, resource: Resource) -> None:
        self._client, self._resource = client, resource
        self._written: defaultdict[str, dict[str, tuple[int, float]]] = defaultdict(dict)
        """Owner's uid -> version and time of the last write by key."""

    async def send(self, owner: str, key: str, write: Awaitable[Object]) -> Object:
        """Await a create or patch of the object with this key. Raises its ApiError and ApiAway."""
        try:
            answer = await write
        except ApiAway:
            self._written[owner][key] = LOST, self._now()
            raise
        self._note(owner, answer)
        return answer

    async def shown(self, owner: str, items: Mapping[str, Object]) -> bool:
        """Return True if the informer shows all writes. Lost ones are looked up; raises ApiError and ApiAway."""
        for key, (version, _) in list(self._written.get(owner, {}).items()):
            if version == LOST:
                await self._look_up(owner, key)
        waiting = {
            key: (version, at)
            for key, (version, at) in self._written.pop(owner, {}).items()
            if _version(items.get(key)) < version and self._now() - at < OVERDUE_S
        }
        if waiting:
            self._written[owner] = waiting
        return not waiting

    def forget(self, owner: str) -> None:
        self._written.pop(owner, None)

    async def _look_up(self, owner: str, key: str) -> None:
        namespace, name = split_key(key)
        if (obj := await find(self._client, self._resource, name, namespace)) is not None:
            self._note(owner, obj)
        else:
            self._written.get(owner, {}).pop(key, None)  # forgotten, if the owner was deleted meanwhile

    def _note(self, owner: str, obj: Object) -> None:
        self._written[owner][key_of(obj)] = _version(obj), self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _version(obj: Object | None) -> int:
    text = version_of(obj or {})
    return int(text) if text.isdigit() else -1
