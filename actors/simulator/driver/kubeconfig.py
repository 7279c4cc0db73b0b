"""Read a kubeconfig with a client certificate, such as ROOT/kubeconfig."""

import base64
import binascii
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from protocols.errors import NodeplaneError
from protocols.kubeclient.client import ClientOptions


class KubeconfigUnusable(NodeplaneError):
    """Raised when the kubeconfig cannot be read or names no client certificate."""

    http: ClassVar[int] = 400
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


@contextmanager
def client_options(path: Path, user_agent: str) -> Iterator[ClientOptions]:
    """Return options for an API client; embedded certificates are files (mode 0600) inside the context.

    Raises KubeconfigUnusable.
    """
    cluster, user = _current(path)
    with tempfile.TemporaryDirectory(prefix="np-dra-") as folder:
        files = {
            name: _file(path, source, name, Path(folder))
            for source, name in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key"))
        }
        yield ClientOptions(
            server=str(cluster.get("server", "")).rstrip("/"),
            ca=files["certificate-authority"],
            cert=files["client-certificate"],
            key=files["client-key"],
            user_agent=user_agent,
        )


def _current(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    import yaml

    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        return _named(config["clusters"], context["cluster"])["cluster"], _named(config["users"], context["user"])[
            "user"
        ]
    except OSError as error:
        why = (error.strerror or "").lower()
        raise KubeconfigUnusable(f"cannot read {path}: {why}; name another one with --kubeconfig") from None
    except (yaml.YAMLError, KeyError, TypeError, StopIteration, UnicodeDecodeError) as error:
        raise KubeconfigUnusable(f"{path} is no kubeconfig with a current context: {type(error).__name__}") from None


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _file(path: Path, source: dict[str, Any], name: str, folder: Path) -> Path:
    if source.get(name):
        return path.parent / str(source[name])
    if not source.get(f"{name}-data"):
        raise KubeconfigUnusable(f"{path} names no {name}; this driver needs a client certificate")
    target = folder / name
    try:
        content = base64.b64decode(source[f"{name}-data"], validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigUnusable(f"{name}-data of {path} is not base64") from None
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return target
