"""The plane's own TCP ports on loopback, which port-forward must not reach.

Pods of this runtime share the host's network, so 127.0.0.1 is the plane's loopback too. Each of these ports holds by
authentication alone; refusing them here is a second line of defence.
"""

import ipaddress
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from protocols.layout import Layout
from protocols.settings import Settings


def plane_ports(settings: Settings, layout: Layout) -> frozenset[int]:
    """Return the ports of store, API and node endpoint, as far as they are known now.

    Blocks for the read of three small files. The metrics port is left out: it is open to every process by design.
    """
    files = (layout.run / "node-endpoint.port", *(root / "run" / "store.addr" for root in (layout.root, layout.plane)))
    ports = {_port(path) for path in files}
    if _is_here(settings.api_url):
        ports.add(settings.port)
    return frozenset(ports - {0})


def _port(path: Path) -> int:
    """The port at the end of a file's text, 0 when there is none."""
    with suppress(OSError, ValueError):
        return int(path.read_text().rpartition(":")[2])
    return 0


def _is_here(url: str) -> bool:
    """True for an API on this machine's loopback; another machine's port is free for pods here."""
    with suppress(ValueError):
        return ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback
    return True
