"""Kubeconfigs with embedded certificates, so that one file can be copied; among them the admin's, ROOT/kubeconfig."""

import base64
from pathlib import Path

import msgspec

from protocols.process.files import write_atomic
from protocols.process.layout import Layout

TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: nodeplane
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: nodeplane
  context:
    cluster: nodeplane
    user: {user}
current-context: nodeplane
"""


class KubeconfigAccess(msgspec.Struct, frozen=True):
    """User and server of a kubeconfig; certificates and key are PEM."""

    server: str
    user: str
    ca: bytes
    certificate: bytes
    key: bytes


def kubeconfig(access: KubeconfigAccess) -> str:
    """Return the YAML of a kubeconfig."""
    return TEMPLATE.format(
        server=access.server,
        user=access.user,
        ca=embedded(access.ca),
        certificate=embedded(access.certificate),
        key=embedded(access.key),
    )


def embedded(data: bytes) -> str:
    """Encode the content of a file for a kubeconfig."""
    return base64.b64encode(data).decode()


def write_kubeconfig(layout: Layout, server: str) -> None:
    """Write the admin's kubeconfig (mode 0600) if it changes."""
    ca, certificate, key = (path.read_bytes() for path in (layout.ca_cert, *layout.client_cert("admin")))
    text = kubeconfig(KubeconfigAccess(server=server, user="admin", ca=ca, certificate=certificate, key=key))
    if _read(layout.kubeconfig) != text.encode():
        write_atomic(layout.kubeconfig, text.encode(), 0o600)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
