"""resource.k8s.io: slices, classes, claims, templates and patches; stored and served, checked only where cheap."""

from actors.apiserver.causes import Cause, forbidden, required
from actors.apiserver.cells import AGE, NAME, cell, field
from actors.apiserver.objects import Obj, at, items, text
from actors.apiserver.strategy import Strategy, restore
from actors.apiserver.types import STATUS_VERBS, Column, Resource, Subresource

GROUP = "resource.k8s.io"


class GenerationStrategy(Strategy):
    has_generation = True


class SliceStrategy(GenerationStrategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        causes = [] if text(obj, "spec", "driver") else [required("spec.driver")]
        return causes if text(obj, "spec", "pool", "name") else [*causes, required("spec.pool.name")]

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        causes = self.validate_create(new)
        for path in (("driver",), ("pool", "name"), ("nodeName",)):
            if at(new, "spec", *path) != at(old, "spec", *path):
                causes.append(forbidden(f"spec.{'.'.join(path)}", "field is immutable"))
        return causes


class ImmutableSpecStrategy(Strategy):
    def validate_create(self, obj: Obj) -> list[Cause]:
        return [] if isinstance(obj.get("spec"), dict) else [required("spec")]

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        return [] if new.get("spec") == old.get("spec") else [forbidden("spec", "field is immutable")]


class ClaimStrategy(ImmutableSpecStrategy):
    has_status = True

    def prepare_status(self, new: Obj, old: Obj) -> None:
        super().prepare_status(new, old)
        version = new["metadata"].get("resourceVersion")
        restore(new, old, "metadata")
        new["metadata"] = {**new["metadata"], **({"resourceVersion": version} if version else {})}


def claim_state(obj: Obj) -> str:
    states = ["deleted"] if text(obj, "metadata", "deletionTimestamp") else []
    if not at(obj, "status", "allocation"):
        return ",".join([*states, "pending"])
    states.append("allocated")
    return ",".join([*states, "reserved"] if items(obj, "status", "reservedFor") else states)


SLICES = Resource(
    group=GROUP,
    version="v1",
    plural="resourceslices",
    singular="resourceslice",
    kind="ResourceSlice",
    namespaced=False,
    strategy=SliceStrategy(),
    columns=(
        NAME,
        Column("Node", cell("spec", "nodeName")),
        Column("Driver", cell("spec", "driver")),
        Column("Pool", cell("spec", "pool", "name")),
        AGE,
    ),
    fields={"spec.nodeName": field("spec", "nodeName"), "spec.driver": field("spec", "driver")},
    returns_object=True,
)

CLASSES = Resource(
    group=GROUP,
    version="v1",
    plural="deviceclasses",
    singular="deviceclass",
    kind="DeviceClass",
    namespaced=False,
    strategy=GenerationStrategy(),
    columns=(NAME, AGE),
    returns_object=True,
)

CLAIMS = Resource(
    group=GROUP,
    version="v1",
    plural="resourceclaims",
    singular="resourceclaim",
    kind="ResourceClaim",
    namespaced=True,
    strategy=ClaimStrategy(),
    columns=(NAME, Column("State", claim_state), AGE),
    subresources=(Subresource("status", STATUS_VERBS, "ResourceClaim", GROUP, "v1"),),
    returns_object=True,
)

TEMPLATES = Resource(
    group=GROUP,
    version="v1",
    plural="resourceclaimtemplates",
    singular="resourceclaimtemplate",
    kind="ResourceClaimTemplate",
    namespaced=True,
    strategy=ImmutableSpecStrategy(),
    columns=(NAME, AGE),
    returns_object=True,
)

PATCHES = Resource(
    group=GROUP,
    version="v1alpha3",
    plural="resourceslicepatches",
    singular="resourceslicepatch",
    kind="ResourceSlicePatch",
    namespaced=False,
    strategy=GenerationStrategy(),
    columns=(NAME, AGE),
    returns_object=True,
)

ROWS = (SLICES, CLASSES, CLAIMS, TEMPLATES, PATCHES)
