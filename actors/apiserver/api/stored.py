"""Stored objects: bytes at a revision, decoded only when a selector or a table needs them.

The encoder writes kind, apiVersion and metadata first and omits the resourceVersion, so that readers can splice it in.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from protocols.kinds.served.row import Served
from protocols.kube.jsons import PROTOBUF, as_go_writes, read_json
from protocols.kube.meta import Object
from protocols.kube.objects import at

RETAINED_BYTES = 64 * 1024
"""Decoded and encoded forms of larger objects are not cached: a few hundred would fill the memory."""
UNKNOWN = "object not decodable: protobuf of a kind or form that this server does not know"
METADATA = b'"metadata":{'
_HEAD = 244
"""Bytes before the metadata that are searched: our own encoder writes it near the start."""


class _Sound(msgspec.Struct):
    """Types of metadata that the server relies on. Other fields may have any type."""

    name: str
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    creationTimestamp: str | None = None  # the API's names
    deletionTimestamp: str | None = None
    deletionGracePeriodSeconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: list[str] | None = None
    ownerReferences: list[dict[str, Any]] | None = None
    managedFields: list[dict[str, Any]] | None = None


class _SoundObject(msgspec.Struct):
    kind: str
    apiVersion: str
    metadata: _Sound


class _SoundParts(_SoundObject):
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class _Metadata(msgspec.Struct):
    uid: str | None = None
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct):
    metadata: _Metadata | None = None


_head = msgspec.json.Decoder(_Head).decode
_NONE: Mapping[str, str] = {}


def corruption(raw: bytes, custom: bool = False) -> str:
    """Return why these bytes are not a valid object; empty if they are. Of `custom` ones, the spec may have any type.

    Decodes everything: msgspec skips fields that a type does not have without a check of their numbers and texts.
    """
    try:
        obj = read_json(raw)
        msgspec.convert(obj, _SoundObject)
    except msgspec.DecodeError as error:
        return UNKNOWN if raw.startswith(PROTOBUF) else f"object not decodable: {error}"
    wrong = () if custom else (part for part in ("spec", "status") if not isinstance(obj.get(part) or {}, dict))
    return "".join(f"object not decodable: {part} is no object" for part in wrong)


_sound = msgspec.json.Decoder(_SoundObject).decode
_sound_parts = msgspec.json.Decoder(_SoundParts).decode


def is_sound(raw: bytes, custom: bool) -> bool:
    """Return True if bytes that this server has encoded are a valid object: `corruption`, in a quarter of its time."""
    try:
        if custom:
            _sound(raw)
            return True
        parts = _sound_parts(raw)
    except msgspec.DecodeError:
        return False
    return all(bytes(memoryview(part)[:1]) == b"{" for part in (parts.spec, parts.status))


class Stored:
    """One object at one revision. Immutable: shared by all requests and watches that show it."""

    __slots__ = ("_json", "_labels", "_obj", "_uid", "key", "raw", "rv", "view")

    def __init__(self, key: str, rv: int, raw: bytes) -> None:
        self.key = key
        self.rv = rv
        self.raw = raw
        self._obj: Object | None = None
        self._json: bytes | None = None
        self._labels: Mapping[str, str] | None = None
        self._uid: str | None = None
        self.view: tuple[object, Stored | None] | None = None
        """Cache of `view`: the converter and the object in its version, None if it equals this one."""

    @property
    def obj(self) -> Object:
        """The object with its resourceVersion. It is shared: copy it before a change."""
        if self._obj is None:
            obj = self.decoded()
            if len(self.raw) > RETAINED_BYTES:
                return obj
            self._obj = obj
        return self._obj

    def decoded(self) -> Object:
        """Return `obj` for one use: it is not retained, as a list would fill the memory with five times its bytes."""
        return self._obj or decode_stored(self.raw, self.rv)

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels, decoded without the rest, which takes several times as long and would be cached."""
        if self._labels is None:
            self._labels, self._uid = self._read_head()
        return self._labels

    @property
    def uid(self) -> str:
        """The uid; empty if the object has none that is readable. Decoded with the labels."""
        if self._uid is None:
            try:
                self._labels, self._uid = self._read_head()
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._uid = ""
        return self._uid

    def _read_head(self) -> tuple[Mapping[str, str], str]:
        """Return labels and uid. Raises DecodeError, UnicodeDecodeError and RecursionError."""
        if self._obj is None:
            try:
                metadata = _head(self.raw).metadata or _Metadata()
                return metadata.labels or _NONE, metadata.uid or ""
            except msgspec.ValidationError:  # not as our own validation leaves it
                pass
        metadata = at(self._obj or read_json(self.raw), "metadata")
        uid = at(metadata, "uid")
        return at(metadata, "labels") or _NONE, uid if isinstance(uid, str) else ""

    @property
    def json(self) -> bytes:
        """The object as clients receive it."""
        if self._json is None:
            encoded = self.encoded()
            if len(self.raw) > RETAINED_BYTES:
                return encoded
            self._json = encoded
        return self._json

    def encoded(self) -> bytes:
        """Return `json` for one use."""
        return self._json or splice_version(self.raw, self.rv) or msgspec.json.encode(self.decoded())

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def at(self, rv: int) -> "Stored":
        """Return the same content at another revision, that of a deletion."""
        return Stored(self.key, rv, self.raw)


def decode_stored(raw: bytes, rv: int) -> Object:
    """Decode the value of a key and set the object's resourceVersion, which is not stored."""
    obj: Any = read_json(raw)
    obj.setdefault("metadata", {})["resourceVersion"] = str(rv)
    return dict(obj)


def view(resource: Served, stored: Stored) -> Stored:
    """Return a stored object as clients of a version see it; the latest one is cached in `stored`."""
    converter = resource.converter
    if not converter.changes:
        return stored
    held = stored.view
    if held is None or held[0] is not converter:
        raw = encode_object(converter.to_version(decode_stored(stored.raw, stored.rv)))
        held = stored.view = (converter, None if raw == stored.raw else Stored(stored.key, stored.rv, raw))
    return held[1] or stored


def splice_version(raw: bytes, rv: int) -> bytes | None:
    """Insert the resourceVersion into encoded JSON without decoding it; None if the position is not certain.

    Certain means: `kind` and `apiVersion` stand before `metadata` and hold no brace, so the first `"metadata":{`
    after them is the object's own.
    """
    head, separator, rest = raw.partition(METADATA)
    if not separator or len(head) > _HEAD or head.find(b"{", 1) >= 0 or rest.startswith(b"}"):
        return None
    return b'%b"metadata":{"resourceVersion":"%d",%b' % (head, rv, rest)


_encode = msgspec.json.Encoder().encode
_FIRST: Object = {"kind": "", "apiVersion": "", "metadata": {}}


def encode_object(obj: Object) -> bytes:
    """Encode an object as it is stored."""
    ordered = _FIRST | obj
    if "resourceVersion" in obj["metadata"]:
        ordered["metadata"] = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    raw = _encode(ordered)
    return as_go_writes(raw) if ordered["kind"] == "ControllerRevision" else raw
