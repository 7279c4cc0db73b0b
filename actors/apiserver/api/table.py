"""The table of served resources: rows by group, version and plural name."""

from collections.abc import Iterable

from actors.apiserver.api.resource import Resource


class Table:
    """Rows by (group, version, plural). The ones it is made of stay first; custom ones come and go behind them."""

    def __init__(self, rows: Iterable[Resource]) -> None:
        self.built_in = tuple(rows)
        self.stored = tuple(row for row in self.built_in if not row.virtual and not row.stored_as)
        """One for each kind of stored object."""
        self.replace(())

    def replace(self, custom: Iterable[Resource]) -> None:
        """The custom rows from now on."""
        self.custom = tuple(custom)
        self.rows = (*self.built_in, *self.custom)
        self._by_plural = {row.plural: row for row in reversed(self.rows)}
        self._by_path = {(row.group, row.version, row.plural): row for row in reversed(self.rows)}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def of(self, plural: str) -> Resource:
        """The row of a plural; for our own use, where the plural is known to be unique."""
        return self._by_plural[plural]

    def versions(self) -> dict[str, list[str]]:
        """Versions by group, preferred first, groups in table order."""
        found: dict[str, list[str]] = {}
        for row in self.rows:
            versions = found.setdefault(row.group, [])
            if row.version not in versions:
                versions.append(row.version)
        return found

    def in_version(self, group: str, version: str) -> list[Resource]:
        return [row for row in self.rows if (row.group, row.version) == (group, version)]
