"""An actor of which only one may work among all control planes of a store."""

import socket
import uuid
from contextlib import suppress
from pathlib import Path

from protocols.actor.context import Context
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.election import ElectionOptions
from protocols.kubeclient.leader import Leader
from protocols.process.files import write_atomic


def candidate(context: Context, client: ApiClient, lease: str) -> Leader | None:
    """None where nobody else can be there: the settings say whether to elect."""
    if not context.settings.leader_elect:
        return None
    options = ElectionOptions(name=lease, identity=identity(context.layout.run / f"{context.instance}.id"))
    return Leader(client, options, context.log)


def identity(path: Path) -> str:
    """An instance's name in elections, for all its lives: its lock on the bus keeps two from having it at once, so one
    that was killed leads again as soon as it is back. A root copied to another machine gets a name of its own."""
    host = f"{socket.gethostname()}_"
    with suppress(OSError, UnicodeDecodeError):
        known = path.read_text().strip()
        if known.startswith(host) and len(known) > len(host):
            return known
    made = f"{host}{uuid.uuid4()}"
    write_atomic(path, f"{made}\n".encode())
    return made
