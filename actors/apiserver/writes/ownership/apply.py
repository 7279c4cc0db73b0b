"""Server-side apply: a manager says all it wants of an object, and takes back what it no longer says."""

import msgspec

from actors.apiserver.api.objects.paths import Obj
from actors.apiserver.api.schemas.shape import Shape
from actors.apiserver.writes.ownership.compare import changes, owned
from actors.apiserver.writes.ownership.entries import UPDATE, Author, Entries, fields_of, with_fields
from actors.apiserver.writes.ownership.errors import Owned
from actors.apiserver.writes.ownership.fields import Fields, hit, paths, union
from actors.apiserver.writes.ownership.merge import merged
from actors.apiserver.writes.ownership.prune import pruned
from actors.apiserver.writes.ownership.track import taken, tracked

BEFORE = "before-first-apply"
"""Owner of what stood in an object when nobody had been recorded yet."""


class Applied(msgspec.Struct, frozen=True):
    obj: Obj
    entries: Entries


def applied(live: Obj, config: Obj, shape: Shape, entries: Entries, author: Author, force: bool = False) -> Applied:
    """`config`, without nulls, laid over `live` ({} before creation). Raises ConfigInvalid, Owned."""
    if live and not entries:
        entries = tracked({}, live, shape, Author(BEFORE, UPDATE, author.api_version), [])
    mine, before = owned(config, shape), fields_of(entries, author)
    made = merged(live, config, shape)
    if before:
        made = pruned(made, before, union(mine, _others(entries, author)), shape)
    done = changes(live, made, shape)
    if not force:
        _check(entries, author, done.written)
    if made == live and mine == before:
        return Applied(live, entries)
    return Applied(made, with_fields(taken(entries, author, done), author, mine))


def _others(entries: Entries, author: Author) -> Fields:
    fields: Fields = {}
    for entry in entries:
        if not author.is_of(entry):
            fields = union(fields, entry["fieldsV1"])
    return fields


def _check(entries: Entries, author: Author, written: Fields) -> None:
    found = [
        (entry, path) for entry in entries if not author.is_of(entry) for path in paths(hit(entry["fieldsV1"], written))
    ]
    if found:
        raise Owned(found)
