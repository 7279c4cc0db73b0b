"""Files of a volume, computed from the objects it projects. Pure."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final, cast

import msgspec

from actors.podworker.model.dependencies import NodeFields
from actors.podworker.model.errors import ContainerConfigInvalid, VolumeNotReady
from actors.podworker.pods.environment.downward import field_value, resource_value
from actors.podworker.pods.environment.references import CONFIG_MAP, SECRET, Found, Ref, secret_ref
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.types import PodSpec

EMPTY_DIR: Final = "emptyDir"
HOST_PATH: Final = "hostPath"
IMAGE: Final = "image"
WRITTEN = ("configMap", "secret", "downwardAPI", "projected")
"""Kinds whose files podworker writes and updates with their sources."""
SUPPORTED = (EMPTY_DIR, HOST_PATH, IMAGE, *WRITTEN)
DEFAULT_MODE = 0o644
TOKEN_SECONDS = 3600
_NO_KEY = {
    CONFIG_MAP: "configmap references non-existent config key",
    SECRET: "references non-existent secret key",
}
"""Upstream's texts."""
MAX_VOLUME = 128 << 20
"""Bytes of all files of a volume. An item takes 60 bytes of the pod and may refer to a value of 1 MB repeatedly."""


class File(msgspec.Struct, frozen=True):
    """A file to write; `mode` has its permissions."""

    data: bytes
    mode: int
    owner: int = -1
    """User id; -1 = that of this process."""


Payload = dict[str, File]
"""Files by path within the volume, separated by `/`."""


class TokenRef(msgspec.Struct, frozen=True, order=True):
    """A service account token that a projected volume requests."""

    audience: str
    seconds: int


Part = views.Volume | views.VolumeProjection
"""One source of files; a volume has one, a projected volume has many."""


class Inputs(msgspec.Struct, frozen=True):
    """Objects and tokens that the volumes of a pod project."""

    spec: PodSpec
    node: NodeFields
    found: Found = {}
    tokens: Mapping[TokenRef, str] = {}


def volumes_of(spec: PodSpec) -> list[views.Volume]:
    """Return the pod's volumes."""
    return (spec.raw.get("spec") or {}).get("volumes") or []


def kind_of(volume: views.Volume) -> str:
    """Return the key of the volume's source; emptyDir without one."""
    return next((key for key, value in volume.items() if key != "name" and value is not None), "emptyDir")


def token_refs(volume: views.Volume) -> set[TokenRef]:
    """Return the tokens that a volume projects."""
    sources = (volume.get("projected") or {}).get("sources") or ()
    return {_token_ref(s["serviceAccountToken"]) for s in sources if s.get("serviceAccountToken")}


def shows_pod(spec: PodSpec) -> bool:
    """Return True if a downwardAPI item shows labels, annotations or resources: they may change while the pod runs."""
    parts = (part for v in volumes_of(spec) for part in (v, *((v.get("projected") or {}).get("sources") or ())))
    items = [item for part in parts for item in (part.get("downwardAPI") or {}).get("items") or ()]
    paths = (str((item.get("fieldRef") or {}).get("fieldPath") or "") for item in items)
    shown = any(path.startswith(("metadata.labels", "metadata.annotations")) for path in paths)
    return shown or any(item.get("resourceFieldRef") for item in items)


def _token_ref(source: views.ServiceAccountTokenProjection) -> TokenRef:
    return TokenRef(str(source.get("audience") or ""), int(source.get("expirationSeconds") or TOKEN_SECONDS))


def payload(volume: views.Volume, inputs: Inputs) -> Payload:
    """Return the files of a volume of a WRITTEN kind. Raises VolumeNotReady."""
    kind = kind_of(volume)
    source: Mapping[str, Any] = cast("Object", volume)[kind]
    mode = _mode(source, DEFAULT_MODE)
    parts: Iterable[Part] = source.get("sources") or () if kind == "projected" else (volume,)
    source_of = _Sources(inputs, mode)
    files: Payload = {}
    for part in parts:
        files |= source_of.files(part)
    for path in files:
        _check_path(path)
    return files


class _Sources:
    """Files of all sources of one volume, with a limit on their total size."""

    def __init__(self, inputs: Inputs, mode: int) -> None:
        self._inputs, self._mode = inputs, mode
        self._containers = {container.name: container for container in inputs.spec.containers}
        self._fields: dict[str, bytes] = {}
        self._left = MAX_VOLUME

    def files(self, part: Part) -> Payload:
        inputs, mode, files_by_path = self._inputs, self._mode, None
        if part.get("configMap"):
            name = str(part["configMap"].get("name") or "")
            files_by_path = _keys(Ref(CONFIG_MAP, name), part["configMap"], mode, inputs.found)
        elif part.get("secret"):
            files_by_path = _keys(secret_ref(part["secret"]), part["secret"], mode, inputs.found)
        elif part.get("downwardAPI") is not None:
            return self._items(part["downwardAPI"].get("items") or ())
        elif token := cast("views.VolumeProjection", part).get("serviceAccountToken"):
            files_by_path = _token(token, mode, inputs)
        if files_by_path is None:
            kind = next((key for key in part if key != "name"), "source")
            raise VolumeNotReady(f"projects a {kind}, which is not supported")
        self._spend(sum(len(file.data) for file in files_by_path.values()))
        return files_by_path

    def _items(self, items: Iterable[views.DownwardAPIVolumeFile]) -> Payload:
        files: Payload = {}
        for item in items:
            data = self._value(item)
            self._spend(len(data))
            files[str(item.get("path") or "")] = File(data, _mode(item, self._mode))
        return files

    def _value(self, item: views.DownwardAPIVolumeFile) -> bytes:
        """Return the content of an item. Each field is rendered once: annotations of 256 KiB take 16 ms."""
        inputs, path = self._inputs, (item.get("fieldRef") or {}).get("fieldPath") or ""
        try:
            if item.get("resourceFieldRef"):
                pod = inputs.spec.raw.get("spec") or {}
                return resource_value(item["resourceFieldRef"], self._containers, None, pod, inputs.node).encode()
            if path not in self._fields:
                self._fields[path] = field_value(path, inputs.spec, inputs.node).encode(errors="surrogateescape")
        except ContainerConfigInvalid as error:
            raise VolumeNotReady(str(error)) from None
        return self._fields[path]

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise VolumeNotReady(f"its files have more than {MAX_VOLUME >> 20} MiB together; project less into it")


def _keys(ref: Ref, source: Mapping[str, Any], mode: int, found: Found) -> Payload:
    contents = found.get(ref)
    if contents is None:
        if source.get("optional"):
            return {}
        raise VolumeNotReady(f"{ref} not found")
    if not source.get("items"):
        return {key: File(value, mode) for key, value in contents.items()}
    files: Payload = {}
    for item in source["items"]:
        key = item.get("key") or ""
        if key in contents:
            files[str(item.get("path") or "")] = File(contents[key], _mode(item, mode))
        elif not source.get("optional"):
            raise VolumeNotReady(f"{_NO_KEY[ref.kind]}: {key}")
    return files


def _token(source: views.ServiceAccountTokenProjection, mode: int, inputs: Inputs) -> Payload:
    """Return the token file, readable by its user alone if all containers run as the same one, or by fsGroup."""
    token = inputs.tokens.get(_token_ref(source))
    if token is None:
        raise VolumeNotReady("no service account token was given")
    owner = _only_user(inputs.spec)
    shared = ((inputs.spec.raw.get("spec") or {}).get("securityContext") or {}).get("fsGroup") is not None
    return {str(source.get("path") or ""): File(token.encode(), 0o600 if owner >= 0 or shared else mode, owner)}


def _only_user(spec: PodSpec) -> int:
    pod = (spec.raw.get("spec") or {}).get("securityContext") or {}
    users = {_user(c.raw.get("securityContext") or {}, pod) for c in spec.containers}
    return users.pop() if len(users) == 1 else -1


def _user(own: views.SecurityContext, pod: views.PodSecurityContext) -> int:
    value = own.get("runAsUser")
    value = pod.get("runAsUser") if value is None else value
    return -1 if value is None else int(value)


def _mode(source: Mapping[str, Any], default: int) -> int:
    for key in ("defaultMode", "mode"):
        if source.get(key) is not None:
            return int(source[key]) & 0o777
    return default


def _check_path(path: str) -> None:
    parts = path.split("/")
    if not path or PurePosixPath(path).is_absolute() or "" in parts or "." in parts or parts[0].startswith(".."):
        raise VolumeNotReady(f"{path!r} is not a path below the volume")
    if ".." in parts or "\0" in path:
        raise VolumeNotReady(f"{path!r} leads out of the volume")
