"""What a watch with selectors sees of a change: an object may enter or leave its view without being made or deleted."""

from actors.apiserver.api.objects.stored import Stored
from actors.apiserver.api.selection import Selection
from actors.apiserver.replica.change import Change
from protocols.messages.objects import ADDED, DELETED, MODIFIED


def transition(change: Change, wanted: Selection) -> tuple[str, Stored] | None:
    """(event type, object to send), None when the watch sees nothing. What leaves carries this change's revision."""
    before, after = change.before, change.after
    was = before is not None and wanted.matches(before)
    now = after is not None and wanted.matches(after)
    if now and after is not None:
        return (MODIFIED if was else ADDED), after
    if was and before is not None:
        return DELETED, before.at(change.rv)
    return None
