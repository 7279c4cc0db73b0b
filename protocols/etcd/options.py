"""What an etcd client is made with."""

from pathlib import Path

import msgspec

from protocols.layout import Layout
from protocols.settings import Settings


class EtcdOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints are `unix:PATH` (one) or `host:port` (one or several members of a cluster)."""

    endpoints: tuple[str, ...]
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    """PEM files. With `ca` the connection is TLS; with `cert` and `key` it is mutual."""
    timeout: float = 5.0
    """Deadline of a call that names none, in seconds, retries included."""
    max_message: int = 16 * 1024 * 1024


def etcd_options(settings: Settings, layout: Layout) -> EtcdOptions:
    """How the plane's own processes reach the store of these settings: TLS files are used where they exist and the
    endpoint is not a unix socket."""
    cert, key = layout.client_cert("store-client")
    tls = not settings.store_endpoints[0].startswith("unix:") and layout.ca_cert.exists() and cert.exists()
    if not tls or not settings.store_embedded:
        return EtcdOptions(endpoints=settings.store_endpoints)
    return EtcdOptions(endpoints=settings.store_endpoints, ca=layout.ca_cert, cert=cert, key=key)
