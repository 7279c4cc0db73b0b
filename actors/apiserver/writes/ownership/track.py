"""Creates, updates and patches: the fields they changed become their manager's, and nobody else's."""

from actors.apiserver.api.objects.clock import now
from actors.apiserver.api.objects.paths import Obj
from actors.apiserver.api.schemas.shape import Shape
from actors.apiserver.writes.ownership.compare import Changes, changes, grown
from actors.apiserver.writes.ownership.entries import Author, Entries, Entry, fields_of, with_fields
from actors.apiserver.writes.ownership.fields import minus, union


def tracked(old: Obj, new: Obj, shape: Shape, author: Author, entries: Entries) -> Entries:
    """Entries after `author` made `new` of `old` ({} before creation)."""
    if not (old or entries):
        fields = grown(new, shape)
        return [author.entry(fields, now())] if fields else []
    done = changes(old, new, shape)
    if not (done.written or done.removed):
        return entries
    mine = union(fields_of(entries, author), done.written)
    return with_fields(taken(entries, author, done), author, minus(mine, done.removed))


def taken(entries: Entries, author: Author, done: Changes) -> Entries:
    """What others owned until somebody changed it."""
    touched = union(done.written, done.removed)
    return [made for entry in entries if (made := entry if author.is_of(entry) else _less(entry, touched))]


def _less(entry: Entry, touched: dict[str, object]) -> Entry | None:
    fields = minus(entry["fieldsV1"], touched)
    if not fields:
        return None
    return entry if fields == entry["fieldsV1"] else {**entry, "fieldsV1": fields}
