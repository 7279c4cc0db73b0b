"""The objects of a recording, read as from an API."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from protocols.kinds.table import EVENTS, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, join_key, namespace_of
from protocols.messages.objects import stream_of
from protocols.recording import sources
from protocols.recording.reader import Recording, State


class RecordedApi:
    """The API at one time."""

    def __init__(self, recording: Recording, state: State, at_ms: int) -> None:
        self._recording, self._state, self._at_ms = recording, state, at_ms

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        found = self._objects(resource).get(join_key(namespace if resource.namespaced else "", name))
        if found is None:
            raise ApiError(404, {"message": f"{resource.full_name} {name!r} is not in the recording"})
        return found

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        query: Mapping[str, str] | None = None,
        field_selector: str = "",
    ) -> Object:
        """Return the objects by their keys; of `query`, the limit counts. Selectors have `=` alone."""
        wanted = [(path, value) for path, _, value in _parts(field_selector)]
        objects = self._events(wanted) if resource is EVENTS else self._objects(resource)
        found = [
            obj
            for _, obj in sorted(objects.items())
            if (not namespace or namespace_of(obj) == namespace) and all(_field(obj, *each) for each in wanted)
        ]
        return {"items": found[: int((query or {}).get("limit", len(found)))]}

    def _objects(self, resource: Resource) -> Mapping[str, Object]:
        return self._state.get(stream_of(resource.group, resource.plural), {})

    def _events(self, wanted: Sequence[tuple[str, str]]) -> Mapping[str, Object]:
        """Return the newest version of each event, of frames that name what is wanted."""
        holds = wanted[-1][1].encode() if wanted else b""
        found = self._recording.entries((sources.EVENTS,), self._at_ms, holds=holds)
        return {entry.key: entry.value for entry, _ in found if isinstance(entry.value, dict)}


def _parts(selector: str) -> Iterator[tuple[str, str, str]]:
    return (part.partition("=") for part in selector.split(",") if part)


def _field(obj: Object, path: str, value: str) -> bool:
    found: Any = obj
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return bool(found == value)
