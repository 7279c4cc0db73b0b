"""The resources of resource.k8s.io. Each is stored in one version and served in all its versions.

v1beta2 equals v1, v1beta1 wraps devices and flattens requests. Objects are defaulted, validated and stored as v1; paths
in errors are those of v1, as upstream's are.
"""

from collections.abc import Callable

from msgspec.structs import asdict, replace

from protocols.dra.versions import (
    GROUP,
    Convert,
    exact_requests,
    flat_requests,
    in_template,
    plain_devices,
    same,
    wrapped_devices,
)
from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause
from protocols.kinds.dra.administration import ClassStrategy, PatchStrategy, RuleStrategy
from protocols.kinds.dra.claims import ClaimStrategy, TemplateStrategy
from protocols.kinds.dra.slices import SliceStrategy
from protocols.kinds.served.columns import AGE, NAME, age_of, cell, field
from protocols.kinds.served.row import STATUS_VERBS, Column, Converter, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.shapes.clean import clean
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text


class VersionConverter(Converter):
    """Converter between a stored version and another one; `show` and `store` change what differs in the spec."""

    changes = True

    def __init__(self, version: str, stored: str, show: Convert = same, store: Convert = same) -> None:
        self._version = f"{GROUP}/{version}"
        self._stored = f"{GROUP}/{stored}"
        self._show = show
        self._store = store

    def to_version(self, obj: Object) -> Object:
        shown = self._show(obj)
        if self._show is not same and (shape := kind_shape(*self._version.split("/"), shown["kind"])) is not None:
            clean(shown, shape)
        return {**shown, "apiVersion": self._version}

    def to_stored(self, obj: Object) -> Object:
        return {**self._store(obj), "apiVersion": self._stored}


class VersionStrategy(Strategy):
    """Apply the strategy of the storage version to objects of another version."""

    def __init__(self, inner: Strategy, show: Convert, store: Convert) -> None:
        self._inner = inner
        self._show = show
        self._store = store
        self.has_status, self.status_keeps = inner.has_status, inner.status_keeps
        self.has_generation = inner.has_generation

    def _through(self, obj: Object, *hook: Callable[[Object], None]) -> None:
        hub = self._store(obj)
        for step in hook:
            step(hub)
        shown = dict(self._show(hub))  # what needs no change is `obj` itself
        obj.clear()
        obj.update(shown)

    def default(self, obj: Object) -> None:
        self._through(obj, self._inner.default)

    def prepare_create(self, obj: Object) -> None:
        self._through(obj, self._inner.prepare_create)

    def prepare_update(self, new: Object, old: Object) -> None:
        before = self._store(old)
        self._through(new, lambda hub: self._inner.prepare_update(hub, before))

    def prepare_status(self, new: Object, old: Object) -> None:
        before = self._store(old)
        self._through(new, lambda hub: self._inner.prepare_status(hub, before))

    def validate_create(self, obj: Object) -> list[Cause]:
        return self._inner.validate_create(self._store(obj))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return self._inner.validate_update(self._store(new), self._store(old))

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return self._inner.validate_status(self._store(new), self._store(old))

    def check_namespace(self, obj: Object, namespace: Object) -> list[Cause]:
        return self._inner.check_namespace(self._store(obj), namespace)


def claim_state(obj: Object) -> str:
    """Return kubectl's column STATE of a claim, e.g. `allocated,reserved`."""
    states = ["deleted"] if text(obj, "metadata", "deletionTimestamp") else []
    if at(obj, "status", "allocation"):
        states += ["allocated", "reserved"] if items(obj, "status", "reservedFor") else ["allocated"]
    return ",".join(states or ["pending"])


def patch_filter(obj: Object) -> str:
    """Return the Filter column of a ResourceSlicePatch."""
    filter = at(obj, "spec", "devices", "filter") or {}
    names = [f"{key}={text(filter, field)}" for key, field in FILTER_WORDS.items() if text(filter, field)]
    selectors = len(items(filter, "selectors"))
    return ",".join([*names, f"cel({selectors})"] if selectors else names) or "<all>"


FILTER_WORDS = {"class": "deviceClassName", "driver": "driver", "pool": "pool", "device": "device"}

SLICES = Served(
    **asdict(kinds.RESOURCESLICES),
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

CLASSES = Served(
    **asdict(kinds.DEVICECLASSES),
    strategy=ClassStrategy(),
    columns=(NAME, AGE),
    returns_object=True,
)

CLAIMS = Served(
    **asdict(kinds.RESOURCECLAIMS),
    strategy=ClaimStrategy(),
    columns=(NAME, Column("State", claim_state), AGE),
    subresources=(Subresource("status", STATUS_VERBS, "ResourceClaim", GROUP, "v1"),),
    returns_object=True,
)

TEMPLATES = Served(
    **asdict(kinds.RESOURCECLAIMTEMPLATES),
    strategy=TemplateStrategy(),
    columns=(NAME, AGE),
    returns_object=True,
)

PATCHES = Served(
    **asdict(kinds.RESOURCESLICEPATCHES),
    strategy=PatchStrategy(),
    columns=(
        NAME,
        Column("Priority", lambda obj: at(obj, "spec", "devices", "priority") or 0, type="integer"),
        Column("Filter", patch_filter),
        AGE,
    ),
    returns_object=True,
)

RULES = Served(
    **asdict(kinds.DEVICETAINTRULES),
    strategy=RuleStrategy(),
    columns=(
        NAME,
        Column("Key", cell("spec", "taint", "key")),
        Column("Value", cell("spec", "taint", "value")),
        Column("Effect", cell("spec", "taint", "effect")),
        Column("TimeAdded", lambda obj: age_of(text(obj, "spec", "taint", "timeAdded"))),
        AGE,
    ),
    subresources=(Subresource("status", STATUS_VERBS, "DeviceTaintRule", GROUP, "v1beta2"),),
    returns_object=True,
)


DEPRECATED = {
    "v1beta2": "v1.36+, unavailable in v1.39+",
    "v1beta1": "v1.35+, unavailable in v1.38+",
    "v1alpha3": "v1.36+, unavailable in v1.39+",
}
"""Versions that another one replaces, as upstream's warnings name their ends."""


def in_version(row: Served, version: str, show: Convert = same, store: Convert = same) -> Served:
    """Return the resource served under another version."""
    strategy = row.strategy if show is same else VersionStrategy(row.strategy, show, store)
    subresources = tuple(replace(sub, version=version) for sub in row.subresources)
    return replace(
        row,
        version=version,
        strategy=strategy,
        subresources=subresources,
        stored_as=row.full_name,
        converter=VersionConverter(version, row.version, show, store),
        deprecated=DEPRECATED[version],
    )


STORED = (SLICES, CLASSES, CLAIMS, TEMPLATES)
CONVERSIONS: dict[str, tuple[Convert, Convert]] = {
    SLICES.plural: (wrapped_devices, plain_devices),
    CLASSES.plural: (same, same),
    CLAIMS.plural: (flat_requests, exact_requests),
    TEMPLATES.plural: (in_template(flat_requests), in_template(exact_requests)),
}
"""Conversions to v1beta1 and back."""
ROWS = (
    *STORED,
    *(in_version(row, "v1beta2") for row in STORED),
    RULES,
    *(in_version(row, "v1beta1", *CONVERSIONS[row.plural]) for row in STORED),
    in_version(RULES, "v1alpha3"),
    PATCHES,
)
