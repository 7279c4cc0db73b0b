"""The calls of plugins and drivers in a recording, and the versions of a driver's ResourceSlices."""

from collections.abc import Iterator

from protocols.kinds.table import RESOURCESLICES
from protocols.messages.calls import CallRecord
from protocols.messages.objects import stream_of
from protocols.recording import sources
from protocols.recording.frames import convert
from protocols.recording.reader import Recording, State, apply_change
from supervisor.capture.devices import Object, Version

SLICES = stream_of(RESOURCESLICES.group, RESOURCESLICES.plural)


def calls_in(recording: Recording, node: str) -> list[CallRecord]:
    """Return the calls of a node's plugins and drivers. Raises RecordingInvalid."""
    source = sources.CALLS if node == recording.header.node else f"{node}/{sources.CALLS}"
    return [convert(entry.value, CallRecord) for entry, _ in recording.entries((source,), recording.end_ms)]


def versions_in(recording: Recording, driver: str) -> Iterator[Version]:
    """Yield the driver's slices whenever they changed; all changes of one moment are one version."""
    state: State = {}
    changed_ms = 0
    for change in recording.changes(0, recording.end_ms):
        if changed_ms and (change is None or change.at_ms != changed_ms):
            yield changed_ms * 10**6, _slices(state, driver)
            changed_ms = 0
        apply_change(state, change)
        if change is not None and change.source == SLICES:
            changed_ms = change.at_ms
    if changed_ms:
        yield changed_ms * 10**6, _slices(state, driver)


def _slices(state: State, driver: str) -> list[Object]:
    return [obj for obj in state.get(SLICES, {}).values() if obj["spec"]["driver"] == driver]
