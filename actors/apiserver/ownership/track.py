"""Creates, updates and patches: the fields they changed become their manager's, and nobody else's."""

from actors.apiserver.objects.clock import now
from actors.apiserver.objects.paths import Obj
from actors.apiserver.ownership.compare import Changes, changes, grown
from actors.apiserver.ownership.entries import Author, Entries, Entry, fields_of, with_fields
from actors.apiserver.ownership.fields import minus, union
from actors.apiserver.schemas.shape import Shape


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
