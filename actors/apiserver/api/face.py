"""One set of stored objects, several versions of the API: how each of them shows what is stored.

Everywhere else a `Stored` is in the form of the store; `row.face.view(stored)` is what clients of that row see.
"""

from typing import ClassVar

from actors.apiserver.api.objects.paths import Obj
from actors.apiserver.api.objects.stored import Stored


class Face:
    """The default: objects look as they are stored."""

    changes: ClassVar[bool] = False
    """False: view() gives its argument back, always."""

    def view(self, stored: Stored) -> Stored:
        return stored

    def to_stored(self, obj: Obj) -> Obj:
        """An object of this version as it is to be stored."""
        return obj

    def outdated(self, stored: Stored) -> bool:
        """Whether a write that changes nothing must still be stored, for the form of the store has changed."""
        return False


class ChangingFace(Face):
    """Makes each view once, for as long as nobody asks for another."""

    changes: ClassVar[bool] = True

    def view(self, stored: Stored) -> Stored:
        held = stored.view
        if held is None or held[0] is not self:
            made = self.make(stored)
            held = stored.view = (self, None if made is stored else made)
        return held[1] or stored

    def make(self, stored: Stored) -> Stored:
        return stored


SAME = Face()
