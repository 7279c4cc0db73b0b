"""Stored objects: bytes at a revision, decoded only when a selector or a table needs them."""

from collections.abc import Mapping
from typing import Any

import msgspec

from actors.apiserver.api.objects import Obj, at
from protocols.kube.jsons import read_json

RETAINED_BYTES = 64 * 1024
"""Decoded and encoded forms of larger objects are made anew each time: a few hundred would fill the memory."""
_METADATA = b'"metadata":{'
_HEAD = 244
"""Our own encoder writes kind, apiVersion, metadata first, so the splice point lies near the start."""


class _Sound(msgspec.Struct):
    """Metadata as all of the server relies on it. Other fields may be of any type."""

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


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Head(msgspec.Struct):
    metadata: _Metadata | None = None


_head = msgspec.json.Decoder(_Head).decode
_NONE: Mapping[str, str] = {}


def corruption(raw: bytes, custom: bool = False) -> str:
    """Return why these bytes are no object, empty if they are one; `custom` ones have a spec of any type.

    Decodes all of them: msgspec passes over fields that a type does not have without a look at their numbers and texts.
    """
    try:
        obj = read_json(raw)
        msgspec.convert(obj, _SoundObject)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return f"object not decodable: {error}"
    wrong = () if custom else (part for part in ("spec", "status") if not isinstance(obj.get(part) or {}, dict))
    return "".join(f"object not decodable: {part} is no object" for part in wrong)


class Stored:
    """Immutable by convention: shared by every request and watch that shows this object."""

    __slots__ = ("_json", "_labels", "_obj", "key", "raw", "rv", "view")

    def __init__(self, key: str, rv: int, raw: bytes) -> None:
        self.key = key
        self.rv = rv
        self.raw = raw
        self._obj: Obj | None = None
        self._json: bytes | None = None
        self._labels: Mapping[str, str] | None = None
        self.view: tuple[object, Stored | None] | None = None
        """What another version of the API made of it last (see Converter); None in second place: nothing else."""

    @property
    def obj(self) -> Obj:
        """The object with its resourceVersion. Shared: copy before changing it."""
        if self._obj is None:
            obj = decode_stored(self.raw, self.rv)
            if len(self.raw) > RETAINED_BYTES:
                return obj
            self._obj = obj
        return self._obj

    @property
    def labels(self) -> Mapping[str, str]:
        """Read without decoding the rest, which costs several times as much and would be kept."""
        if self._labels is None:
            self._labels = _labels_of(self.raw) if self._obj is None else at(self._obj, "metadata", "labels") or _NONE
        return self._labels

    @property
    def json(self) -> bytes:
        """The object as clients get it."""
        if self._json is None:
            made = splice_version(self.raw, self.rv) or msgspec.json.encode(self.obj)
            if len(self.raw) > RETAINED_BYTES:
                return made
            self._json = made
        return self._json

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]

    def at(self, rv: int) -> "Stored":
        """The same content under another revision (a deletion's)."""
        return Stored(self.key, rv, self.raw)


def _labels_of(raw: bytes) -> Mapping[str, str]:
    try:
        metadata = _head(raw).metadata
    except msgspec.ValidationError:  # not as our own validation leaves it
        return at(read_json(raw), "metadata", "labels") or _NONE
    return metadata.labels or _NONE if metadata is not None else _NONE


def decode_stored(raw: bytes, rv: int) -> Obj:
    obj: Any = read_json(raw)
    obj.setdefault("metadata", {})["resourceVersion"] = str(rv)
    return dict(obj)


def splice_version(raw: bytes, rv: int) -> bytes | None:
    """Put the resourceVersion into encoded JSON without decoding it; None when the place is not certain.

    Certain means: `kind` and `apiVersion` stand before `metadata` and hold no brace, so the first `"metadata":{`
    after them is the object's own.
    """
    head, found, rest = raw.partition(_METADATA)
    if not found or len(head) > _HEAD or head.find(b"{", 1) >= 0 or rest.startswith(b"}"):
        return None
    return b'%b"metadata":{"resourceVersion":"%d",%b' % (head, rv, rest)


_encode = msgspec.json.Encoder().encode


_FIRST: Obj = {"kind": "", "apiVersion": "", "metadata": {}}


def encode_object(obj: Obj) -> bytes:
    ordered = _FIRST | obj
    if "resourceVersion" in obj["metadata"]:
        ordered["metadata"] = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return _encode(ordered)


def fresh_copy(obj: Obj) -> Obj:
    """A copy that shares nothing; several times faster than copy.deepcopy."""
    made: Obj = read_json(_encode(obj))
    return made


def same(new: Obj, old: Obj) -> bool:
    """Equal but for the resourceVersion, whatever the order of keys."""
    left, right = {**new["metadata"]}, {**old["metadata"]}
    left.pop("resourceVersion", None)
    right.pop("resourceVersion", None)
    return left == right and {**new, "metadata": 0} == {**old, "metadata": 0}
