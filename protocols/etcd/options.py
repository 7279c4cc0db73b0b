"""Options of an etcd client, and those for the plane's own stores."""

from pathlib import Path

import msgspec

from protocols.process.layout import Layout
from protocols.process.settings import EtcdFiles, Settings, StoreSettings

SOCKET, PRIVATE = "unix:", "door:"


class EtcdOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints and credentials of a store.

    Endpoints are `unix:PATH` (one), `host:port` (one or several members of a cluster), or `door:PATH`, the private
    endpoint of the embedded store (frames.py).
    """

    endpoints: tuple[str, ...]
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    """PEM files. With `ca` the connection is TLS; with `cert` and `key` it is mutual."""
    timeout: float = 5.0
    """Deadline of a call that names none, in seconds, retries included."""
    max_message: int = 16 * 1024 * 1024


def store_options(settings: Settings, layout: Layout) -> tuple[EtcdOptions, ...]:
    """Return the options of the plane's own processes for each of `settings.stores`."""
    return tuple(_of(store, settings.etcd_files, layout) for store in settings.stores)


def _of(store: StoreSettings, files: EtcdFiles, layout: Layout) -> EtcdOptions:
    if not store.embedded:
        ca, cert, key = (Path(path) if path else None for path in (files.ca, files.cert, files.key))
        return EtcdOptions(endpoints=store.endpoints, ca=ca, cert=cert, key=key)
    cert, key = layout.etcd_client
    if store.endpoints[0].startswith(SOCKET):
        return EtcdOptions(endpoints=(private_endpoint(store.endpoints[0]),))
    if not (layout.etcd_ca.exists() and cert.exists()):
        return EtcdOptions(endpoints=store.endpoints)
    return EtcdOptions(endpoints=store.endpoints, ca=layout.etcd_ca, cert=cert, key=key)


def private_endpoint(endpoint: str) -> str:
    """Return the private endpoint, the quicker socket beside the embedded store's public one."""
    return PRIVATE + str(Path(endpoint.removeprefix(SOCKET)).with_suffix(".door"))
