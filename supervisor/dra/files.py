"""Objects from YAML or JSON files, in any order, several to a file, older versions of slices and claims included."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from protocols.dra.versions import as_v1
from supervisor.errors import Usage

Obj = dict[str, Any]
GROUP = "resource.k8s.io/"
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")
KINDS = ("ResourceSlice", "ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
"""Whose older versions are read as v1."""
MANY = 64 * 1024 * 1024


def read_objects(paths: list[str]) -> list[Obj]:
    """Raises Usage."""
    found: list[Obj] = []
    for path in paths:
        for obj in _documents(path):
            found += _items(path, _plain(obj))
    for number, obj in enumerate(found):
        _complete(obj, number)
    return found


def _documents(path: str) -> Iterator[Any]:
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise Usage(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > MANY:
        raise Usage(f"{path} is larger than {MANY >> 20} MiB; give a part of it")
    try:
        yield from yaml.load_all(raw, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # safe in both forms
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Usage(f"{path} is no YAML: {' '.join(str(error).split())[:200]}") from None


def _items(path: str, obj: Any) -> list[Obj]:
    if obj is None:
        return []
    if not isinstance(obj, dict):
        raise Usage(f"{path} holds something that is no object: {str(obj)[:60]!r}")
    version = str(obj.get("apiVersion") or "")
    if str(obj.get("kind") or "").endswith("List") and isinstance(obj.get("items"), list):
        return [each for item in obj["items"] for each in _items(path, {"apiVersion": version, **item})]
    if version.startswith(GROUP) and version.removeprefix(GROUP) not in VERSIONS:
        raise Usage(f"{path}: {version} is not read from files; `kubectl convert` or `kubectl get` gives it as v1")
    return [as_v1(obj) if obj.get("kind") in KINDS else obj]


def _complete(obj: Obj, number: int) -> None:
    """A name, where its author left it to the server. Objects without a time are of one age, as after one apply."""
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise Usage(f"metadata of a {obj.get('kind')} is no map")
    metadata["name"] = str(metadata.get("name") or f"unnamed-{number}")


def _plain(value: Any) -> Any:
    """As JSON has it: YAML makes dates of times, and nothing at all of a key that reads null."""
    if isinstance(value, dict):
        return {"null" if key is None else str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    return value
