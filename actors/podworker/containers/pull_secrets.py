"""Credentials for an image's registry, out of a pod's imagePullSecrets. Pure."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec

from actors.podworker.environment.references import SECRET, Ref
from actors.podworker.types import Object, PodSpec
from protocols.kube.jsons import read_json
from protocols.wire import cri_pb2

DOCKER_HUB, HUB_NAMES = "docker.io", ("index.docker.io", "registry-1.docker.io")
NEW, OLD = ".dockerconfigjson", ".dockercfg"
MAX_PLACE = 1024
"""Characters of a registry's name and path. Longer ones are passed over: the pattern in them would take seconds."""


def pull_refs(spec: PodSpec) -> tuple[Ref, ...]:
    given = (spec.raw.get("spec") or {}).get("imagePullSecrets") or ()
    return tuple(Ref(SECRET, str(each["name"])) for each in given if each.get("name"))


def credentials(image: str, secrets: Iterable[Mapping[str, bytes]]) -> list["cri_pb2.AuthConfig"]:
    """Those that are for the image's registry, the most exact first; of the same place in the order of the secrets.

    A secret may name 40,000 registries, each with a pattern to compile: seconds, to be spent beside the event loop.
    """
    repository = _repository(image)
    found = [(len(place), auth) for secret in secrets for place, auth in _entries(secret) if _covers(place, repository)]
    return [auth for _, auth in sorted(found, key=lambda entry: -entry[0])]


def _entries(secret: Mapping[str, bytes]) -> Iterator[tuple[str, "cri_pb2.AuthConfig"]]:
    """What does not read as credentials is passed over: the pull may do without."""
    new = _decoded(secret.get(NEW, b"{}")).get("auths")
    for place, entry in {**_decoded(secret.get(OLD, b"{}")), **(new if isinstance(new, dict) else {})}.items():
        if isinstance(entry, dict) and len(place) <= MAX_PLACE and (auth := _auth(entry)) is not None:
            yield _place(place), auth


def _decoded(text: bytes) -> Object:
    try:
        found = read_json(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _auth(entry: Object) -> "cri_pb2.AuthConfig | None":
    username, password = str(entry.get("username") or ""), str(entry.get("password") or "")
    try:
        joined = base64.b64decode(str(entry.get("auth") or ""), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    if joined and not username:
        username, _, password = joined.partition(":")
    token = str(entry.get("identitytoken") or "")
    if not (username or token):
        return None
    return cri_pb2.AuthConfig(username=username, password=password, identity_token=token)


def _place(server: str) -> str:
    """`https://index.docker.io/v1/` is `docker.io`."""
    host, _, path = server.removeprefix("https://").removeprefix("http://").partition("/")
    host = DOCKER_HUB if host in HUB_NAMES else host
    path = "" if path.rstrip("/") in ("v1", "v2") else path.rstrip("/")
    return f"{host}/{path}".rstrip("/")


def _repository(image: str) -> str:
    name = image.partition("@")[0]
    head, slash, rest = name.partition("/")
    if not slash or not ("." in head or ":" in head or head == "localhost"):
        head, rest = DOCKER_HUB, name if slash else f"library/{name}"
    return f"{DOCKER_HUB if head in HUB_NAMES else head}/{rest}"


def _covers(place: str, repository: str) -> bool:
    """Host by host part (`*.example.com`), port, and path from its beginning."""
    host, _, path = place.partition("/")
    own_host, _, own_path = repository.partition("/")
    name, _, port = host.partition(":")
    own_name, _, own_port = own_host.partition(":")
    parts, own_parts = name.split("."), own_name.split(".")
    same = len(parts) == len(own_parts) and all(map(fnmatchcase, own_parts, parts))
    return same and port == own_port and own_path.startswith(path)
