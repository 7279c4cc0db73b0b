"""Which pods may use an image that this node pulled, as upstream's image pull manager (KEP-2535).

A pod without the credentials of an earlier pull pulls the image again, so that the registry decides. Images that were
there before any pull, and those pulled without credentials, are for all pods: upstream's NeverVerifyPreloadedImages.

A pull with credentials is on disk before it begins: one whose end nobody saw leaves no image for all pods.
"""

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from protocols.process.files import write_atomic
from protocols.wire import cri_pb2

ALL = "*"
"""Entry of an image that was pulled without credentials."""
MAX_RECORDS, MAX_NAMES, MAX_CREDENTIALS = 2048, 8, 32
"""Most images and pulls, names of an image, credentials of a name. A pod whose name or credentials went pulls again.
Once a private image or a pull went, every pod does for images without a record."""
log = logging.getLogger("podworker")


class _Records(msgspec.Struct):
    """Images, names and credentials are their SHA-256: users choose how long they are."""

    pulled: dict[str, dict[str, dict[str, None]]] = msgspec.field(default_factory=dict)
    """Credentials, or ALL, by the image's id and by its name without tag and digest."""
    pulling: dict[str, int] = msgspec.field(default_factory=dict)
    """Pulls with credentials whose end is not known, by the image's name."""
    lost: bool = False
    """Records were lost: an image without one may have been pulled with credentials."""


class PullRecords:
    """The records of a node, in one file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writing = asyncio.Lock()
        self._records = _read(path)

    def is_restricted(self, image: str, id: str) -> bool:
        """Return True if not every pod may use the present image of this name and id."""
        pulled = self._records.pulled.get(_digest(id))
        if pulled is None:
            return self._records.lost or _digest(image) in self._records.pulling
        return ALL not in pulled.get(_digest(repository(image)), {})

    def may_use(self, image: str, id: str, known: "Iterable[cri_pb2.AuthConfig]") -> bool:
        """Return True if a pod with these credentials may use the restricted image."""
        allowed = self._records.pulled.get(_digest(id), {}).get(_digest(repository(image)), {})
        return any(_credential(auth) in allowed for auth in known)

    async def begin(self, image: str) -> None:
        """Record that a pull with credentials begins. Raises OSError: then it must not."""
        pulling, name = self._records.pulling, _digest(image)
        pulling[name] = pulling.get(name, 0) + 1
        self._records.lost |= _shrink(pulling, MAX_RECORDS)
        await self._save()

    async def failed(self, image: str) -> None:
        """Record that a pull with credentials has failed for sure."""
        self._end(image)
        await self._save()

    async def succeeded(self, image: str, id: str, auth: "cri_pb2.AuthConfig | None") -> None:
        """Record the image's id, and the credentials that the registry accepted; None: it was pulled without any."""
        if auth is not None:
            self._end(image)
        pulled = self._records.pulled
        names = pulled.setdefault(_digest(id), {})
        allowed = names.setdefault(_digest(repository(image)), {})
        allowed[_credential(auth) if auth is not None else ALL] = None
        _shrink(allowed, MAX_CREDENTIALS)
        _shrink(names, MAX_NAMES)
        if len(pulled) > MAX_RECORDS:
            self._drop_one()
        await self._save()

    def _drop_one(self) -> None:
        """Drop the record of an image that is for all pods without it as well; the oldest if there is none."""
        pulled = self._records.pulled
        public = (id for id, names in pulled.items() if all(ALL in allowed for allowed in names.values()))
        dropped = None if self._records.lost else next(public, None)
        self._records.lost |= dropped is None
        del pulled[dropped or next(iter(pulled))]

    def _end(self, image: str) -> None:
        name = _digest(image)
        left = self._records.pulling.pop(name, 0) - 1
        if left > 0:
            self._records.pulling[name] = left

    async def _save(self) -> None:
        async with self._writing:
            await asyncio.to_thread(write_atomic, self._path, msgspec.json.encode(self._records))


def _read(path: Path) -> _Records:
    """Return the records of the file. Without readable ones, no image that is there is for all pods, as upstream."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Records)
    except FileNotFoundError:
        return _Records()
    except (OSError, msgspec.DecodeError) as error:
        log.error("pull records not read, images are pulled again path=%s error=%s", path, error)
        return _Records(lost=True)


def repository(image: str) -> str:
    """Return the image's name without tag and digest."""
    head, slash, name = image.partition("@")[0].rpartition("/")
    return f"{head}{slash}{name.partition(':')[0]}"


def _credential(auth: "cri_pb2.AuthConfig") -> str:
    return hashlib.sha256(auth.SerializeToString(deterministic=True)).hexdigest()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _shrink(entries: dict[str, Any], most: int) -> bool:
    """Delete the oldest entries beyond `most`. Returns True if there were any."""
    excess = len(entries) - most
    for key in list(entries)[: max(0, excess)]:
        del entries[key]
    return excess > 0
