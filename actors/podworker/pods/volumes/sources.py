"""Versions of the objects that volumes project: one read of each, whatever the number of pods that project it."""

import asyncio
import contextlib
import logging
from collections.abc import Iterable

from actors.podworker.pods.environment.references import Reader
from protocols.errors import NodeplaneError
from protocols.kube.meta import Object, version_of

Source = tuple[str, str, str]
"""Kind, namespace and name of an object."""
Versions = dict[Source, str]
"""resourceVersion by object; empty: it does not exist."""
PASS_S = 10.0
log = logging.getLogger("podworker")


class VersionedReader:
    """Reads objects and retains the version of each."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.versions: Versions = {}

    async def read(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return the object, None if it does not exist. Raises NodeplaneError on failure."""
        obj = await self._reader.read(kind, namespace, name)
        self.versions[kind, namespace, name] = version_of(obj) if obj else ""
        return obj

    def outdated(self, versions: Versions) -> bool:
        """Return True if one of these versions differs from that of what was read."""
        return any(versions.get(source, own) != own for source, own in self.versions.items())


async def read_versions(reader: Reader, sources: Iterable[Source]) -> Versions:
    """Read each object once, for PASS_S at most. Those that cannot be read are left out."""
    versioned, failures = VersionedReader(reader), list[NodeplaneError]()

    async def read(source: Source) -> None:
        try:
            await versioned.read(*source)
        except NodeplaneError as error:
            failures.append(error)

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PASS_S):
            await asyncio.gather(*(read(source) for source in sources))
    if failures:
        log.info("sources of volumes not read count=%d error=%s", len(failures), failures[0])
    return versioned.versions
