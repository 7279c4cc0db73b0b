"""ROOT/kubeconfig: the admin's way in, with certificates embedded, so that the one file can be copied."""

import base64
from pathlib import Path

from protocols.files import write_atomic
from protocols.layout import Layout

TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: nodeplane
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: admin
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
contexts:
- name: nodeplane
  context:
    cluster: nodeplane
    user: admin
current-context: nodeplane
"""


def write_kubeconfig(layout: Layout, server: str) -> None:
    """Write it (mode 0600) if it would change."""
    certificate, key = layout.client_cert("admin")
    text = TEMPLATE.format(server=server, ca=_b64(layout.ca_cert), certificate=_b64(certificate), key=_b64(key))
    if _read(layout.kubeconfig) != text.encode():
        write_atomic(layout.kubeconfig, text.encode(), 0o600)


def _b64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
