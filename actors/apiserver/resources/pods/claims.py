"""Validate the resource claims of a pod and their use by containers. Messages equal upstream's."""

from actors.apiserver.api.causes import Cause, duplicate, forbidden, invalid, not_found, required
from actors.apiserver.api.objects import Obj, is_mirror, items
from actors.apiserver.resources.dra.names import class_causes, label_causes

SOURCES = ("resourceClaimName", "resourceClaimTemplateName")
NAMES = "`resourceClaimName`, `resourceClaimTemplateName`"


def claim_causes(pod: Obj) -> list[Cause]:
    path, claims = "spec.resourceClaims", items(pod, "spec", "resourceClaims")
    if claims and is_mirror(pod):
        return [forbidden(path, "static pods do not support resource claims")]
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name = claim.get("name") or ""
        causes += [duplicate(f"{path}[{index}].name", name)] if name in seen else _claim(f"{path}[{index}]", claim)
        seen.add(name)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(items(pod, "spec", field)):
            causes += _used(f"spec.{field}[{index}].resources.claims", container, seen)
    return causes


def _claim(path: str, claim: Obj) -> list[Cause]:
    causes = label_causes(f"{path}.name", claim.get("name") or "")
    given = [source for source in SOURCES if claim.get(source) is not None]
    if not given:
        return [*causes, invalid(path, claim, f"must specify one of: {NAMES}")]
    if len(given) > 1:
        return [*causes, invalid(path, claim, f"at most one of {NAMES} may be specified")]
    return causes + class_causes(f"{path}.{given[0]}", claim[given[0]])


def _used(path: str, container: Obj, names: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    seen = set()
    for index, use in enumerate(items(container, "resources", "claims")):
        name, request = use.get("name") or "", use.get("request") or ""
        if not name:
            causes.append(required(f"{path}[{index}].name"))
        elif (name, request) in seen:
            causes.append(duplicate(f"{path}[{index}]", f"{name}/{request}" if request else name))
        elif name not in names:
            causes.append(not_found(f"{path}[{index}].name", name))
        seen.add((name, request))
    return causes
