"""DeviceClass: named selectors and configuration, always mutable."""

from actors.apiserver.api.causes import Cause, invalid
from actors.apiserver.api.objects import Obj
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.dra.selectors import Budget, config_causes, selectors_causes, spec_of
from protocols.kube.names import QUALIFIED, SUBDOMAIN

EXTENDED = "must be a valid extended resource name"


class ClassStrategy(Strategy):
    has_generation = True

    def validate_create(self, obj: Obj) -> list[Cause]:
        return _causes(spec_of(obj), {})

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        return _causes(spec_of(new), spec_of(old))


def _causes(spec: Obj, before: Obj) -> list[Cause]:
    causes = selectors_causes("spec.selectors", spec.get("selectors"), Budget(), before.get("selectors"))
    causes += config_causes("spec.config", spec.get("config"))
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        causes.append(invalid("spec.extendedResourceName", name, EXTENDED))
    return causes


def is_extended(name: str) -> bool:
    """Return True for a valid extended resource name: not of Kubernetes, and usable in a quota."""
    domain, slash, own = name.rpartition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    fits = len(f"requests.{domain}") <= 253 and SUBDOMAIN.fullmatch(f"requests.{domain}") is not None
    return fits and 0 < len(own) <= 63 and QUALIFIED.fullmatch(own) is not None
