"""Watch the files of a simulator: changes of a directory by inotify, and the health file that its user edits."""

from collections.abc import Callable
from pathlib import Path

from protocols.errors import NodeplaneError
from protocols.process.files import read_bounded
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


def health_text(path: Path) -> str:
    """Return the text of the health file. Raises HealthFileInvalid."""
    try:
        return read_bounded(path).decode()
    except FileNotFoundError:
        return ""
    except OSError as error:
        why = error.strerror
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is no UTF-8"
    raise HealthFileInvalid(f"cannot read {path}: {why}; the health read before stays")


async def follow_file(path: Path, apply: Callable[[str], None], say: Callable[[str], None]) -> None:
    """Call `apply` with the text of the file, now and on each change; a missing file is an empty one. Never ends.

    `apply` may raise HealthFileInvalid. `say` gets it once: other files of the directory change, too.
    """
    changes, said = changes_in(path.parent), ""
    try:
        while True:
            fault = ""
            try:
                apply(health_text(path))
            except HealthFileInvalid as error:
                fault = str(error)
            if fault and fault != said:
                say(fault)
            said = fault
            await changes.wait()
    finally:
        changes.close()
