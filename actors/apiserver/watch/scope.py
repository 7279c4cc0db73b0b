"""What a watch looks at."""

import msgspec

from actors.apiserver.api.encoding.negotiate import Form
from actors.apiserver.api.selection import Selection


class Scope(msgspec.Struct, frozen=True):
    """What a watch looks at; equal scopes share a channel."""

    namespace: str
    selection: Selection
    form: Form

    def covers(self, key: str) -> bool:
        """Whether objects under `key` can be of interest at all."""
        name = self.selection.name
        if self.namespace and not key.startswith(f"{self.namespace}/"):
            return False
        return not name or key.rpartition("/")[2] == name
