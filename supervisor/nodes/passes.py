"""A pass as a file: a kubeconfig any client may use, with one extension. Pure."""

import base64
import binascii
from typing import Any
from urllib.parse import urlsplit

from supervisor.nodes.errors import PassUnusable
from supervisor.nodes.types import USER, Pair, Pass
from supervisor.pki.kubeconfig import Access, embedded, kubeconfig

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
"""


def write(what: Pass) -> str:
    pair = what.client
    access = Access(server=what.server, user=USER + what.node, ca=what.ca, certificate=pair.certificate, key=pair.key)
    return kubeconfig(access) + OURS.format(
        extension=EXTENSION,
        serving=embedded(what.serving.certificate),
        serving_key=embedded(what.serving.key),
        serving_name=what.serving_name,
        not_after=what.not_after,
    )


def read(data: bytes, where: str) -> Pass:
    """`where` names the file in complaints. Raises PassUnusable."""
    cluster, name, user, extension = _parts(data, where)
    if not name.startswith(USER):
        raise PassUnusable(f"{where} is of {name!r}, which is no node; {MEND}")
    try:
        return Pass(
            server=_server(str(cluster["server"])),
            node=name.removeprefix(USER),
            ca=_pem(cluster["certificate-authority-data"]),
            client=Pair(_pem(user["client-certificate-data"]), _pem(user["client-key-data"])),
            serving=Pair(_pem(extension["serving-certificate-data"]), _pem(extension["serving-key-data"])),
            serving_name=str(extension.get("serving-name", "")),
            not_after=float(extension["not-after"]),
        )
    except KeyError as error:
        raise PassUnusable(f"{where} has no {error.args[0]}; {MEND}") from None
    except (ValueError, TypeError) as error:
        raise PassUnusable(f"{where} is damaged: {error}; {MEND}") from None


def _parts(data: bytes, where: str) -> tuple[dict[str, Any], str, dict[str, Any], dict[str, Any]]:
    """Cluster, user's name, user and our extension of the current context."""
    import yaml

    try:
        config = yaml.safe_load(data)
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        name = str(context["user"])
        found = (item["extension"] for item in config.get("extensions") or () if item["name"] == EXTENSION)
        return dict(cluster), name, dict(_named(config, "users", name)["user"]), dict(next(found, {}))
    except (yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError, StopIteration, RecursionError):
        raise PassUnusable(f"{where} is no kubeconfig with a current context; {MEND}") from None


def _named(config: Any, kind: str, name: str) -> Any:
    return next(entry for entry in config[kind] if entry["name"] == name)


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
