"""What a watching client asks for beyond the document, in request metadata. Nothing asked: the document's behaviour."""

from collections.abc import Iterable

import msgspec

from actors.frontdoor.errors import MetadataInvalid
from actors.frontdoor.journal import parse_revision
from protocols.wire.pod_resources import RESUME, SEQUENCE, SNAPSHOT

FEATURE_NAMES = "snapshot,resume,sequence"


class Wishes(msgspec.Struct, frozen=True):
    snapshot: bool = False
    sequence: bool = False
    resume: int | None = None


def parse_wishes(metadata: Iterable[tuple[str, str | bytes]]) -> Wishes:
    """Raises MetadataInvalid; keys that are not ours are nobody's business here."""
    asked = {key: value for key, value in metadata if key in (SNAPSHOT, SEQUENCE, RESUME)}
    resume = asked.get(RESUME)
    wishes = Wishes(
        snapshot=_flag(SNAPSHOT, asked.get(SNAPSHOT)),
        sequence=_flag(SEQUENCE, asked.get(SEQUENCE)),
        resume=None if resume is None else parse_revision(_text(resume)),
    )
    if wishes.snapshot and wishes.resume is not None:
        raise MetadataInvalid(f"{SNAPSHOT} and {RESUME} exclude each other; send one of them")
    return wishes


def _flag(key: str, value: str | bytes | None) -> bool:
    if value is not None and _text(value) not in ("0", "1"):
        raise MetadataInvalid(f'{key} must be 1, not "{_text(value)[:80]}"')
    return value is not None and _text(value) == "1"


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
