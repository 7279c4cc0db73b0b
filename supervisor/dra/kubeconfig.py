"""Another cluster's kubeconfig: server, CA and credentials of its current context, as our client wants them."""

import base64
import binascii
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from protocols.kube.client import ClientOptions
from supervisor.errors import Usage

PARTS = ("certificate-authority", "client-certificate", "client-key")


@contextmanager
def client_options(path: Path) -> Iterator[ClientOptions]:
    """Valid inside: what the file embeds stands in a private directory meanwhile. Raises Usage."""
    cluster, user = _current(path)
    server = str(cluster.get("server") or "")
    if not server.startswith("https://"):
        raise Usage(f"{path} names no https server; only those are spoken to")
    with tempfile.TemporaryDirectory(prefix="nodeplane-") as directory:
        files = [
            _file(path, holder, part, Path(directory))
            for holder, part in zip((cluster, user, user), PARTS, strict=True)
        ]
        ca, cert, key = files
        token = str(user.get("token") or "")
        if ca is None or (not token and (cert is None or key is None)):
            raise Usage(f"{path} needs a CA, and a client certificate or a token; other credentials are not read")
        yield ClientOptions(server=server.rstrip("/"), ca=ca, cert=cert, key=key, token=token)


def _current(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        found = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise Usage(f"cannot read {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise Usage(f"{path} is no kubeconfig: {' '.join(str(error).split())[:200]}") from None
    try:
        context = _named(found, "contexts", found["current-context"])["context"]
        cluster = _named(found, "clusters", context["cluster"])["cluster"]
        return cluster, _named(found, "users", context["user"])["user"]
    except (KeyError, TypeError, StopIteration):
        raise Usage(f"{path} has no current context with a cluster and a user") from None


def _named(config: Any, kind: str, name: str) -> Any:
    return next(entry for entry in config[kind] if entry["name"] == name)


def _file(path: Path, holder: dict[str, Any], part: str, directory: Path) -> Path | None:
    """The file that holds this part, made if the kubeconfig embeds it; None if it has none."""
    if data := holder.get(f"{part}-data"):
        made = directory / part
        try:
            made.write_bytes(base64.b64decode(str(data), validate=True))
        except binascii.Error:
            raise Usage(f"{part}-data in {path} is no base64") from None
        made.chmod(0o600)
        return made
    return path.parent / holder[part] if holder.get(part) else None
