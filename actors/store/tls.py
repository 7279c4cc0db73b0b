"""The store's certificates for loopback TCP, looked at before gRPC does, which only says that it cannot listen."""

import ssl
from pathlib import Path

import grpc

from actors.store.errors import StoreUnusable
from actors.store.options import StoreOptions

MEND = "remove the file, and `nodeplane up` makes a new one"


def server_credentials(options: StoreOptions) -> grpc.ServerCredentials | None:
    """None where the certificates are not there: then there is no TCP. Raises StoreUnusable."""
    if not all(path.exists() for path in (options.ca, options.cert, options.key)):
        return None
    _check(options)
    pair = (_read(options.key), _read(options.cert))
    return grpc.ssl_server_credentials([pair], _read(options.ca), require_client_auth=True)


def _check(options: StoreOptions) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(options.ca)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(f"the CA certificate {options.ca} cannot be used", error) from None
    try:
        context.load_cert_chain(options.cert, options.key)
    except (OSError, ssl.SSLError) as error:
        text = f"the store's certificate {options.cert} cannot be used with its key {options.key}"
        raise _unusable(text, error) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(f"{path} cannot be read", error) from None


def _unusable(what: str, error: OSError) -> StoreUnusable:
    reason = str(getattr(error, "reason", "") or error.strerror or error)
    reason = "it is not PEM" if "PEM" in reason else reason.replace("_", " ").lower()
    return StoreUnusable(f"{what}: {reason}; {MEND}")
