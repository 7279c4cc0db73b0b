"""ResourceClaim and ResourceClaimTemplate: an immutable spec; scheduler and drivers write the status."""

from typing import Any

from protocols.kinds.check.causes import Cause, forbidden, invalid, required
from protocols.kinds.check.metadata import template_metadata
from protocols.kinds.check.table import causes_of
from protocols.kinds.dra.allocation import (
    default_results,
    drop_deallocated,
    drop_late,
    drop_shares,
    status_causes,
)
from protocols.kinds.dra.requests import default_devices, devices_causes, parts
from protocols.kinds.dra.selectors import spec_of
from protocols.kinds.dra.slices import BINDING_GATE, SHARES_GATE, TAINTS_GATE
from protocols.kinds.served.strategy import METADATA, Strategy
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object
from protocols.kube.objects import at, mapping, rows

IMMUTABLE = "field is immutable"
ADMIN = "resource.kubernetes.io/admin-access"
NO_ADMIN = f"admin access to devices requires the `{ADMIN}: true` label on the containing namespace"


class _SpecStrategy(Strategy):
    """Strategy of objects that contain a ResourceClaimSpec, found at `_path`."""

    _path: tuple[str, ...]

    def _devices(self, obj: Object) -> Object:
        return mapping(at(obj, *self._path, "devices"))

    def default(self, obj: Object) -> None:
        default_devices(self._devices(obj))

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        if not self.gate(TAINTS_GATE):
            for part in _parts(self._devices(obj)):
                part.pop("tolerations", None)
        if not self.gate(SHARES_GATE):
            for part in (*_parts(self._devices(obj)), *rows(self._devices(obj).get("constraints"))):
                part.pop("capacity", None)
                part.pop("distinctAttribute", None)

    def validate_create(self, obj: Object) -> list[Cause]:
        if not isinstance(at(obj, *self._path), dict):
            return [required(".".join(self._path))]
        return devices_causes(".".join((*self._path, "devices")), self._devices(obj))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        if same_json(new.get("spec"), old.get("spec")):
            return []
        return [invalid("spec", new.get("spec"), IMMUTABLE)]

    def check_namespace(self, obj: Object, namespace: Object) -> list[Cause]:
        """Require the admin-access label on the namespace of requests with adminAccess; upstream's paths."""
        if mapping(at(namespace, "metadata", "labels")).get(ADMIN) == "true":
            return []
        return [
            forbidden(f"spec.devices.requests[{index}].adminAccess", NO_ADMIN)
            for index, request in enumerate(rows(self._devices(obj).get("requests")))
            if at(request, "exactly", "adminAccess") is True
        ]


class ClaimStrategy(_SpecStrategy):
    """ResourceClaims; fields of disabled gates are dropped from their status unless stored before."""

    has_status = True
    status_keeps = METADATA
    _path = ("spec",)

    def prepare_status(self, new: Object, old: Object) -> None:
        super().prepare_status(new, old)
        default_results(mapping(new.get("status")))
        if not self.gate(BINDING_GATE):
            drop_late(mapping(new.get("status")), mapping(old.get("status")))
        if not self.gate(SHARES_GATE):
            drop_shares(mapping(new.get("status")), mapping(old.get("status")))
        drop_deallocated(mapping(new.get("status")), mapping(old.get("status")))

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return status_causes(new, old)


class TemplateStrategy(_SpecStrategy):
    """ResourceClaimTemplates; the spec is immutable, and its faults are reported with the change."""

    _path = ("spec", "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = super().validate_update(new, old)
        return causes and causes + self.validate_create(new)

    def validate_create(self, obj: Object) -> list[Cause]:
        if not isinstance(spec_of(obj).get("spec"), dict):
            return [required("spec.spec")] if obj.get("spec") is not None else [required("spec")]
        metadata = mapping(spec_of(obj).get("metadata"))
        return causes_of(template_metadata, "spec.metadata", metadata) + super().validate_create(obj)


def _parts(devices: Any) -> list[Object]:
    return [part for request in rows(mapping(devices).get("requests")) for part in parts(request)]
