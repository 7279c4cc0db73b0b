"""Claims of devices in pods. Messages equal upstream's."""

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required
from protocols.kinds.dra.names import class_causes, label_causes
from protocols.kinds.pods.spec.resources import claim_use_causes
from protocols.kube.meta import Object
from protocols.kube.objects import is_mirror, items

SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def claim_causes(pod: Object) -> list[Cause]:
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
            if uses := items(container, "resources", "claims"):
                causes += claim_use_causes(f"spec.{field}[{index}].resources.claims", uses, seen - {""})
    return causes


def _claim(path: str, claim: Object) -> list[Cause]:
    name = claim.get("name") or ""
    causes = label_causes(f"{path}.name", name) if name else [required(f"{path}.name")]
    given = [source for source in SOURCES if claim.get(source) is not None]
    if not given:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        return [*causes, invalid(path, claim, text)]
    if len(given) > 1:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        return [*causes, invalid(path, claim, text)]
    return causes + class_causes(f"{path}.{given[0]}", claim[given[0]])
