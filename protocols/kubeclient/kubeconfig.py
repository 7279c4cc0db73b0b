"""Access to the API: by a kubeconfig with a client certificate, such as ROOT/kubeconfig, or by the token of a pod."""

import base64
import binascii
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from protocols.errors import NodeplaneError
from protocols.kubeclient.client import ClientOptions
from protocols.process.files import read_bounded


class KubeconfigUnusable(NodeplaneError, http=400, grpc="INVALID_ARGUMENT"):
    """Raised when the kubeconfig cannot be read or names no client certificate."""


ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster(user_agent: str) -> ClientOptions | None:
    """Return options with the token of the pod this runs in, which is renewed; None outside of pods."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    token = ACCOUNT / "token"
    if not (host and port and token.exists()):
        return None
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ClientOptions(
        server=server, ca=ACCOUNT / "ca.crt", cert=None, key=None, token_file=token, user_agent=user_agent
    )


@contextmanager
def client_options(path: Path | None, user_agent: str) -> Iterator[ClientOptions]:
    """Return options for an API client; embedded certificates are files (mode 0600) inside the context.

    Without a path the pod's own access is used. Raises KubeconfigUnusable.
    """
    if path is None:
        found = in_cluster(user_agent)
        if found is None:
            raise KubeconfigUnusable("this is no pod with a token; name a kubeconfig with --kubeconfig")
        yield found
        return
    cluster, user = _current(path)
    with tempfile.TemporaryDirectory(prefix="np-key-") as folder:
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

    from protocols.kube.yaml_text import read_yaml

    try:
        config = read_yaml(read_bounded(path)).value
        context = _named(config["contexts"], config["current-context"])["context"]
        return _named(config["clusters"], context["cluster"])["cluster"], _named(config["users"], context["user"])[
            "user"
        ]
    except OSError as error:
        why = (error.strerror or "").lower()
        raise KubeconfigUnusable(f"cannot read {path}: {why}; name another one with --kubeconfig") from None
    except (yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise KubeconfigUnusable(f"{path} is no kubeconfig with a current context: {type(error).__name__}") from None


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _file(path: Path, source: dict[str, Any], name: str, folder: Path) -> Path:
    if source.get(name):
        return path.parent / str(source[name])
    if not source.get(f"{name}-data"):
        raise KubeconfigUnusable(f"{path} names no {name}; a client certificate is needed")
    target = folder / name
    try:
        content = base64.b64decode(source[f"{name}-data"], validate=True)
    except (binascii.Error, ValueError):
        raise KubeconfigUnusable(f"{name}-data of {path} is not base64") from None
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return target
