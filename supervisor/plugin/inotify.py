"""Changes in a plugin's directories; a plugin that cannot see them says so and ends."""

from pathlib import Path

from protocols.inotify import CLOSE_WRITE, CREATE, DELETE, MOVED_TO, Changes
from supervisor.plugin.errors import WatchFailed


def changes_in(directory: Path) -> Changes:
    """Raises WatchFailed."""
    changes = Changes(CLOSE_WRITE | MOVED_TO | CREATE | DELETE)
    changes.watch([directory])
    if changes.fault:
        changes.close()
        raise WatchFailed(changes.fault)
    return changes
