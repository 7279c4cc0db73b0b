"""Claims of devices in pods. Messages equal upstream's."""

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid
from protocols.kinds.check.table import Causes, needed, texts
from protocols.kinds.dra.names import label_name
from protocols.kinds.pods.spec.resources import ClaimNames
from protocols.kube.meta import Object
from protocols.kube.names import subdomain_faults
from protocols.kube.objects import is_mirror, items

SOURCES = ("resourceClaimName", "resourceClaimTemplateName")


def claim_causes(pod: Object) -> list[Cause]:
    """Check the claims of a pod and the references of its containers to them."""
    path, claims, names = "spec.resourceClaims", items(pod, "spec", "resourceClaims"), ClaimNames(pod)
    if claims and is_mirror(pod):
        return [forbidden("", "static pods do not support resource claims")]
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        name = claim.get("name") or ""
        if name in seen:
            causes.append(duplicate(f"{path}[{index}].name", name))
        else:
            _claim(f"{path}[{index}]", claim, causes)
        seen.add(name)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(items(pod, "spec", field)):
            if uses := items(container, "resources", "claims"):
                causes += names.use_causes(f"spec.{field}[{index}].resources.claims", uses)
    return causes


_name, _source_name = needed(label_name), texts(subdomain_faults, empty=True)


def _claim(path: str, claim: Object, causes: Causes) -> None:
    _name(f"{path}.name", claim.get("name"), causes)
    given = [source for source in SOURCES if claim.get(source) is not None]
    if len(given) == 1:
        _source_name(f"{path}.{given[0]}", claim[given[0]], causes)
        return
    text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
    if given:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
    causes.append(invalid(path, claim, text))
