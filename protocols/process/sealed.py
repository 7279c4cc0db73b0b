"""JSON with its checksum, in one file: whether it is whole is seen when it is read."""

import hashlib

import msgspec

from protocols.errors import NodeplaneError


class SealBroken(NodeplaneError):
    """Raised for a file that is not as it was written; the text says in which way."""


class Envelope(msgspec.Struct, frozen=True):
    checksum: str
    """sha256 of `data` as it stands in the file."""
    data: msgspec.Raw


def seal(data: bytes) -> bytes:
    return msgspec.json.encode(Envelope(checksum=digest(data), data=msgspec.Raw(data))) + b"\n"


def unseal(raw: bytes) -> bytes:
    """The inverse of seal; raises SealBroken."""
    try:
        envelope = msgspec.json.decode(raw, type=Envelope)
    except msgspec.DecodeError as error:
        raise SealBroken(str(error)) from None
    if digest(bytes(envelope.data)) != envelope.checksum:
        raise SealBroken("its checksum does not match")
    return bytes(envelope.data)


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
