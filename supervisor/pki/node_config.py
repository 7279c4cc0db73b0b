"""The file by which a node joins a plane: a kubeconfig for any client, with one extension for the node. Pure."""

import base64
import binascii
from typing import Any
from urllib.parse import urlsplit

import msgspec

from protocols.kubeclient.kubeconfig import Kubeconfig, KubeconfigUnusable, read_kubeconfig
from supervisor.base.errors import UsageError
from supervisor.pki.kubeconfig import KubeconfigAccess, embedded, kubeconfig

USER = "system:node:"
"""Prefix of the node's user in the API, before the node's name."""


class NodeConfigInvalid(UsageError):
    """Raised when a file does not let a node join: unreadable, of another user, damaged, or expired."""


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A kubeconfig for the node's user, with the certificate that the node's own endpoint serves with."""

    server: str
    """https://HOST:PORT"""
    node: str
    ca: bytes
    client: Pair
    serving: Pair
    serving_name: str = ""
    """The only name in `serving`; empty in files of earlier versions, whose certificate also names localhost."""
    not_after: float
    """Unix time at which the certificates expire."""
    address: str = ""
    """Address of the node for an API that is not a plane's; empty: the one towards the API."""


EXTENSION = "nodeplane.dev/node"
MEND = "make one with `nodeplane node-config NAME` at the plane it is to join"
OURS = """\
extensions:
- name: {extension}
  extension:
    serving-certificate-data: {serving}
    serving-key-data: {serving_key}
    serving-name: "{serving_name}"
    not-after: {not_after:.0f}
    address: "{address}"
"""


def write(what: NodeConfig) -> str:
    """Return the file of a node, which has private keys."""
    pair = what.client
    access = KubeconfigAccess(
        server=what.server, user=USER + what.node, ca=what.ca, certificate=pair.certificate, key=pair.key
    )
    return kubeconfig(access) + OURS.format(
        extension=EXTENSION,
        serving=embedded(what.serving.certificate),
        serving_key=embedded(what.serving.key),
        serving_name=what.serving_name,
        not_after=what.not_after,
        address=what.address,
    )


def read(data: bytes, where: str) -> NodeConfig:
    """Read the file; `where` names it in errors. Raises NodeConfigInvalid."""
    cluster, name, user, extensions = parsed(data, where)
    extension = extensions.get(EXTENSION, {})
    if not name.startswith(USER):
        raise NodeConfigInvalid(f"{where} is of {name!r}, which is no node; {MEND}")
    try:
        return NodeConfig(
            server=_server(str(cluster["server"])),
            node=name.removeprefix(USER),
            ca=_pem(cluster["certificate-authority-data"]),
            client=Pair(_pem(user["client-certificate-data"]), _pem(user["client-key-data"])),
            serving=Pair(_pem(extension["serving-certificate-data"]), _pem(extension["serving-key-data"])),
            serving_name=str(extension.get("serving-name", "")),
            not_after=float(extension["not-after"]),
            address=str(extension.get("address", "")),
        )
    except KeyError as error:
        raise NodeConfigInvalid(f"{where} has no {error.args[0]}; {MEND}") from None
    except (ValueError, TypeError) as error:
        raise NodeConfigInvalid(f"{where} is damaged: {error}; {MEND}") from None


def is_foreign(data: bytes, where: str) -> bool:
    """Return True for a kubeconfig without our extension. Raises NodeConfigInvalid."""
    return EXTENSION not in parsed(data, where).extensions


def parsed(data: bytes, where: str) -> Kubeconfig:
    """Return the current context of a kubeconfig. Raises NodeConfigInvalid."""
    try:
        return read_kubeconfig(data, where)
    except KubeconfigUnusable as error:
        raise NodeConfigInvalid(f"{error}; {MEND}") from None


def _server(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/"):
        raise ValueError(f"{url!r} is no https://HOST:PORT")
    return f"https://{parts.netloc}" if parts.port else f"https://{parts.netloc}:443"


def _pem(text: Any) -> bytes:
    try:
        data = base64.b64decode(str(text), validate=True)
    except binascii.Error:
        raise ValueError("not base64") from None
    if not data.startswith(b"-----BEGIN ") or not data.rstrip().endswith(b"-----"):
        raise ValueError("no PEM inside")
    return data
