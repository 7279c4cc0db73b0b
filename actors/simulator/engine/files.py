"""Watch the files of a simulator: changes of a directory by inotify, and the health file that its user edits."""

from collections.abc import Callable
from pathlib import Path

from protocols.errors import NodeplaneError
from protocols.process.inotify import CLOSE_WRITE, CREATE, DELETE, MOVED_TO, DirectoryChanges


class HealthFileInvalid(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when a line of the health file cannot be read; the health read before stays in force."""


class WatchFailed(NodeplaneError):
    """Raised when the kernel grants no inotify watch; a plugin that cannot see a restart of the node must end."""


def changes_in(directory: Path) -> DirectoryChanges:
    """Watch a directory. Raises WatchFailed."""
    changes = DirectoryChanges(CLOSE_WRITE | MOVED_TO | CREATE | DELETE)
    changes.watch([directory])
    if changes.fault:
        changes.close()
        raise WatchFailed(changes.fault)
    return changes


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def follow_file(path: Path, apply: Callable[[str], None], say: Callable[[str], None]) -> None:
    """Call `apply` with the text of the file, now and on each change; a missing file is an empty one. Never ends.

    `apply` may raise HealthFileInvalid, which is reported through `say`.
    """
    changes = changes_in(path.parent)
    try:
        while True:
            try:
                apply(_text(path))
            except (HealthFileInvalid, OSError, UnicodeDecodeError) as error:
                say(str(error))
            await changes.wait()
    finally:
        changes.close()
