"""Tokens of ROOT/pki/tokens.csv: `token,user,uid,"group1,group2"`, one a line, for us alone to read."""

import csv
import hashlib
import logging
import os
from pathlib import Path

from actors.apiserver.api.user import User

LIMIT = 1024 * 1024


class TokenFile:
    """Read when a token asks for it, again when the file has changed. A file that cannot be trusted holds no tokens."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._users: dict[bytes, User] = {}

    def find(self, token: str) -> User | None:
        """Blocks for one stat, and a small read after a change."""
        self._refresh()
        return self._users.get(_digest(token))

    def _refresh(self) -> None:
        try:
            state = os.stat(self._path)
        except OSError:
            self._seen, self._users = None, {}
            return
        seen = (state.st_mtime_ns, state.st_size, state.st_mode)
        if seen == self._seen:
            return
        self._seen, self._users = seen, {}
        try:
            self._users = read_tokens(self._path, state)
        except (OSError, ValueError) as error:
            logging.getLogger(__name__).error("tokens of %s are not used: %s", self._path, error)


def read_tokens(path: Path, state: os.stat_result) -> dict[bytes, User]:
    """Users by digest of their token. Raises ValueError, OSError."""
    if state.st_mode & 0o077:
        raise ValueError(f"its mode is {state.st_mode & 0o777:04o}, must be 0600")
    if state.st_size > LIMIT:
        raise ValueError(f"it is larger than {LIMIT} bytes")
    found = {}
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, row in enumerate(csv.reader(lines, skipinitialspace=True), 1):
        if not row or row[0].startswith("#"):
            continue
        if len(row) < 3 or not row[0].strip() or not row[1].strip():
            raise ValueError(f"line {number} is not token,user,uid[,groups]")
        groups = tuple(group.strip() for group in (row[3] if len(row) > 3 else "").split(",") if group.strip())
        found[_digest(row[0].strip())] = User(row[1].strip(), (*groups, "system:authenticated"), row[2].strip())
    return found


def _digest(token: str) -> bytes:
    """Key of a token in the table, so that lookup times reveal nothing about the token."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
