"""Access to an API: by a kubeconfig, such as ROOT/kubeconfig, or by the token of the pod that this runs in.

Of a cluster are read its https server, CA (none: those of the system), tls-server-name and insecure-skip-tls-verify; of
a user its client certificate, token and tokenFile. As in client-go, embedded data precedes the file of the same field,
a tokenFile the token, and relative paths begin at the kubeconfig. Other credentials are rejected: they would start
programs, or act as somebody else.
"""

import base64
import math
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from protocols.errors import SettingsInvalid
from protocols.kube.request_uri import uri_host
from protocols.process.files import read_bounded


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Address and credentials of an API server. Secrets are in files, which are read again when they change."""

    server: str
    """https://host:port"""
    ca: Path | None
    """None: those of the system."""
    cert: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    """A bearer token, such as that of a pod, which kubelet renews."""
    server_name: str | None = None
    """The name in the server's certificate, if not the host of `server`."""
    insecure: bool = False
    """True: the server's certificate is not verified."""
    user_agent: str = "nodeplane"
    accept: str = "application/json"
    timeout: float = 10.0
    """Seconds a request may take, its repetitions included."""
    refused_s: float = math.inf
    """Part of `timeout` in which refused connections are tried again; short for commands: the server is stopped."""


class KubeconfigUnusable(SettingsInvalid):
    """Raised when a kubeconfig cannot be read, or has no access of a supported kind; never names a secret."""


class Kubeconfig(NamedTuple):
    """The current context of a kubeconfig."""

    cluster: dict[str, Any]
    user_name: str
    user: dict[str, Any]
    extensions: dict[str, Any]
    """Extensions of the file, by name."""


ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
UNSUPPORTED = ("exec", "auth-provider", "username", "as")
"""Fields of a user whose kind of access is rejected."""


def in_cluster(user_agent: str) -> ClientOptions | None:
    """Return options with the token of the pod this runs in, which is renewed; None outside of pods."""
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "")
    token = ACCOUNT / "token"
    if not (host and port and token.exists()):
        return None
    return ClientOptions(
        server=f"https://{uri_host(host)}:{port}", ca=ACCOUNT / "ca.crt", token_file=token, user_agent=user_agent
    )


@contextmanager
def client_options(path: Path | None, user_agent: str = "nodeplane", timeout: float = 10.0) -> Iterator[ClientOptions]:
    """Return options for an API client; embedded secrets are files in memory (mode 0600) inside the context.

    A process that is killed leaves no key behind. Without a path the pod's own access is used. `timeout` is that of a
    request, in seconds. Raises KubeconfigUnusable.
    """
    if path is None:
        options = in_cluster(user_agent)
        if options is None:
            raise KubeconfigUnusable("this is no pod with a token; name a kubeconfig with --kubeconfig")
        yield options
        return
    access = _supported(path)
    with ExitStack() as secrets:
        yield _options(path, access, secrets, user_agent, timeout)


def read_kubeconfig(data: bytes, where: str) -> Kubeconfig:
    """Return the current context; `where` names the file in errors. Raises KubeconfigUnusable."""
    import yaml

    from protocols.kube.yaml_text import read_yaml

    try:
        config = read_yaml(data).value
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        extensions = {
            str(extension["name"]): extension.get("extension") for extension in config.get("extensions") or ()
        }
        return Kubeconfig(dict(cluster), str(context["user"]), dict(user), extensions)
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, StopIteration):
        raise KubeconfigUnusable(f"{where} is no kubeconfig with a current context") from None


def embedded(entry: dict[str, Any], field: str, where: str) -> bytes | None:
    """Return the content that FIELD-data embeds, None if it is not set. Raises KubeconfigUnusable."""
    if not (data := entry.get(f"{field}-data")):
        return None
    try:
        return base64.b64decode(str(data), validate=True)
    except ValueError:
        raise KubeconfigUnusable(f"{where} is damaged: {field}-data is not base64") from None


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)


def _supported(path: Path) -> Kubeconfig:
    """Read a file and check that its server and credentials are of a supported kind."""
    try:
        config = read_kubeconfig(read_bounded(path), str(path))
    except OSError as error:
        why = (error.strerror or "").lower()
        start = "start a plane with `nodeplane up`, or " if isinstance(error, FileNotFoundError) else ""
        raise KubeconfigUnusable(f"cannot read {path}: {why}; {start}name another one with --kubeconfig") from None
    if not str(config.cluster.get("server")).startswith("https://"):
        raise KubeconfigUnusable(f"{path} names no https server; others are not supported")
    if wrong := next((field for field in UNSUPPORTED if config.user.get(field)), None):
        raise KubeconfigUnusable(
            f"{path}: `{wrong}` of user {config.user_name!r} is not supported; give it a client certificate or a token"
        )
    return config


def _options(path: Path, access: Kubeconfig, secrets: ExitStack, user_agent: str, timeout: float) -> ClientOptions:
    cluster, user = access.cluster, access.user
    insecure = cluster.get("insecure-skip-tls-verify") is True
    cert, key = (_file(path, user, field, secrets) for field in ("client-certificate", "client-key"))
    token = _token_file(path, user, secrets)
    if (cert is None) != (key is None):
        raise KubeconfigUnusable(f"{path} names no client-{'certificate' if cert is None else 'key'}")
    if cert is None and token is None:
        raise KubeconfigUnusable(f"{path} names no client certificate and no token")
    return ClientOptions(
        server=str(cluster["server"]).rstrip("/"),
        ca=None if insecure else _file(path, cluster, "certificate-authority", secrets),
        cert=cert,
        key=key,
        token_file=token,
        server_name=str(cluster["tls-server-name"]) if cluster.get("tls-server-name") else None,
        insecure=insecure,
        user_agent=user_agent,
        timeout=timeout,
    )


def _file(path: Path, entry: dict[str, Any], field: str, secrets: ExitStack) -> Path | None:
    """Return the file of a field, written if the kubeconfig embeds it; None if it has neither."""
    content = embedded(entry, field, str(path))
    if content is not None:
        return _secret(content, secrets)
    return path.parent / str(entry[field]) if entry.get(field) else None


def _token_file(path: Path, user: dict[str, Any], secrets: ExitStack) -> Path | None:
    if user.get("tokenFile"):
        return path.parent / str(user["tokenFile"])
    return _secret(str(user["token"]).encode(), secrets) if user.get("token") else None


def _secret(content: bytes, secrets: ExitStack) -> Path:
    number = os.memfd_create("nodeplane-secret")
    secrets.callback(os.close, number)
    os.fchmod(number, 0o600)
    with open(number, "wb", closefd=False) as file:
        file.write(content)
    return Path(f"/proc/self/fd/{number}")
