"""Health by file: a plugin without hardware lets its user decide which devices are broken."""

from collections.abc import Callable
from pathlib import Path

from supervisor.plugin.errors import HealthFileInvalid
from supervisor.plugin.inotify import changes_in
from supervisor.plugin.server import PluginServer


def parse(text: str) -> dict[str, str]:
    """Lines `DEVICE HEALTH`, blank lines and # comments; raises HealthFileInvalid."""
    health: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition("#")[0].split()
        if len(words) not in (0, 2):
            raise HealthFileInvalid(f"line {number} of the health file is not `DEVICE HEALTH`: {line.strip()}")
        if words:
            health[words[0]] = words[1]
    return health


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


async def follow(path: Path, server: PluginServer, say: Callable[[str], None]) -> None:
    """Apply the file now and on each change; a missing file means all is well. Never ends."""
    await follow_text(path, lambda text: server.set_health(parse(text)), say)


async def follow_text(path: Path, apply: Callable[[str], None], say: Callable[[str], None]) -> None:
    """`apply` gets what the file holds, now and on each change, and may raise HealthFileInvalid. Never ends."""
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
