"""What labels, annotations and owners must look like, in the metadata of any object, embedded ones too."""

from typing import Any

from actors.apiserver.errors.causes import Cause, invalid, required
from actors.apiserver.objects.paths import Obj
from protocols.kube.name_rules import QUALIFIED, QUALIFIED_TEXT, SUBDOMAIN, SUBDOMAIN_TEXT, VALUE_TEXT


def common_causes(metadata: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in (metadata.get("labels") or {}).items():
        causes += _label_causes(f"{path}.labels", key, value)
    for key in metadata.get("annotations") or {}:
        causes += _key_causes(f"{path}.annotations", key.lower())
    for index, owner in enumerate(metadata.get("ownerReferences") or []):
        where = f"{path}.ownerReferences[{index}]"
        causes += [required(f"{where}.{f}") for f in ("apiVersion", "kind", "name", "uid") if not owner.get(f)]
    return causes


def _label_causes(field: str, key: str, value: Any) -> list[Cause]:
    causes = _key_causes(field, key)
    if len(value) > 63:
        causes.append(invalid(field, value, "must be no more than 63 bytes"))
    elif value and not QUALIFIED.fullmatch(value):
        causes.append(invalid(field, value, VALUE_TEXT))
    return causes


def _key_causes(field: str, key: str) -> list[Cause]:
    prefix, slash, name = key.rpartition("/")
    if slash and (not SUBDOMAIN.fullmatch(prefix) or len(prefix) > 253):
        return [invalid(field, key, f"prefix part {SUBDOMAIN_TEXT}")]
    if not name or len(name) > 63 or not QUALIFIED.fullmatch(name):
        return [invalid(field, key, QUALIFIED_TEXT)]
    return []
