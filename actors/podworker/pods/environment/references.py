"""ConfigMaps and Secrets that a pod refers to, and their contents as bytes by key."""

import asyncio
import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import msgspec

from actors.podworker.model.errors import ReferenceUnreadable
from protocols.errors import NodeplaneError
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec
from protocols.trace import span

CONFIG_MAP, SECRET = "ConfigMap", "Secret"
Contents = dict[str, bytes]


class Ref(msgspec.Struct, frozen=True, order=True):
    """A ConfigMap or Secret in the pod's namespace."""

    kind: str
    """ConfigMap or Secret."""
    name: str

    def __str__(self) -> str:
        return f'{self.kind.lower()} "{self.name}"'


Found = Mapping[Ref, Contents | None]
"""Contents by reference; None: the object does not exist."""


class Reader(Protocol):
    """Reads objects of the API, or of a cache."""

    async def read(self, kind: str, namespace: str, name: str) -> Object | None:
        """Return the object, None if it does not exist. Raises NodeplaneError on failure."""
        ...


def env_refs(container: ContainerSpec) -> set[Ref]:
    """Return what the container's variables refer to."""
    refs: set[Ref] = set()
    for entry in container.raw.get("env") or ():
        source = entry.get("valueFrom") or {}
        refs |= _refs(source, "configMapKeyRef", "secretKeyRef")
    for imported in container.raw.get("envFrom") or ():
        refs |= _refs(imported, "configMapRef", "secretRef")
    return refs


def volume_refs(spec: PodSpec) -> set[Ref]:
    """Return what the pod's volumes project."""
    refs: set[Ref] = set()
    for volume in (spec.raw.get("spec") or {}).get("volumes") or ():
        parts = (volume.get("projected") or {}).get("sources") or ()
        for part in (volume, *parts):
            if part.get("configMap"):
                refs.add(Ref(CONFIG_MAP, str(part["configMap"].get("name") or "")))
            if part.get("secret"):
                refs.add(secret_ref(part["secret"]))
    return refs


def secret_ref(source: Mapping[str, Any]) -> Ref:
    """Return the reference of a secret volume (`secretName`) or of a projected secret (`name`)."""
    return Ref(SECRET, str(source.get("secretName") or source.get("name") or ""))


def _refs(source: Mapping[str, Any], config_map: str, secret: str) -> set[Ref]:
    kinds = ((CONFIG_MAP, source.get(config_map)), (SECRET, source.get(secret)))
    return {Ref(kind, str(given.get("name") or "")) for kind, given in kinds if given}


def contents(kind: str, obj: Object, binary: bool = True) -> Contents:
    """Return an object's data as bytes, that of a ConfigMap with its binaryData if `binary`.

    Raises ReferenceUnreadable when binary data does not decode.
    """
    plain = {} if kind == SECRET else {key: str(value).encode() for key, value in (obj.get("data") or {}).items()}
    encoded = (obj.get("data") if kind == SECRET else obj.get("binaryData") if binary else None) or {}
    try:
        return plain | {key: base64.b64decode(value, validate=True) for key, value in encoded.items()}
    except (binascii.Error, ValueError, TypeError) as error:
        name = (obj.get("metadata") or {}).get("name", "")
        raise ReferenceUnreadable(f"{Ref(kind, name)} holds data that is not base64: {error}") from None


async def fetch(reader: Reader, namespace: str, refs: Iterable[Ref], binary: bool = True) -> dict[Ref, Contents | None]:
    """Read all objects concurrently, see `contents`. Raises ReferenceUnreadable."""
    ordered = sorted(refs)
    answers = await asyncio.gather(*(_read(reader, namespace, ref, binary) for ref in ordered))
    return dict(zip(ordered, answers, strict=True))


async def _read(reader: Reader, namespace: str, ref: Ref, binary: bool) -> Contents | None:
    try:
        with span("", "read", object=ref):
            obj = await reader.read(ref.kind, namespace, ref.name)
    except NodeplaneError as error:
        raise ReferenceUnreadable(f"{ref} could not be read: {error}") from None
    return None if obj is None else contents(ref.kind, obj, binary)
