"""Environment variables of containers, and references to fields of the pod. Messages equal upstream's."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from protocols.kinds.check.causes import invalid, not_found, required, unsupported
from protocols.kinds.check.table import Causes, Check, Struct, each, needed, texts
from protocols.kinds.check.values import backstep_faults, config_key, label, subdomain
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults, subdomain_faults
from protocols.kube.quantity import parse_quantity

NAME = re.compile(r"[ -<>-~]+")
NAME_TEXT = "a valid environment variable name must consist only of printable ASCII characters other than '='"
CONVERTED = frozenset(
    (
        *("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"),
        *("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "spec.schedulerName", "spec.host"),
        *("status.phase", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"),
    )
)
IN_ENV = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
IN_FILES = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
SUBSCRIPTED = ("metadata.annotations", "metadata.labels")
RESOURCES = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
HUGE = ("limits.hugepages-", "requests.hugepages-")
CPU_DIVISORS = ("1m", "1")
SIZE_DIVISORS = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")


def field_ref(allowed: Collection[str]) -> Check:
    """Return a check of references to pod fields; `allowed` differs between variables and volumes."""

    def check(path: str, value: Object, causes: Causes) -> None:
        wanted, version = value.get("fieldPath") or "", value.get("apiVersion") or "v1"
        where = f"{path}.fieldPath"
        if not wanted:
            causes.append(required(where))
        elif version != "v1":
            causes.append(invalid(where, wanted, f"error converting fieldPath: unsupported pod version: {version}"))
        elif subscript := _subscript(wanted):
            _subscripted(where, wanted, subscript, causes)
        elif wanted not in CONVERTED:
            causes.append(invalid(where, wanted, f"error converting fieldPath: field label not supported: {wanted}"))
        elif wanted.replace("spec.host", "spec.nodeName") not in allowed:
            causes.append(unsupported(where, wanted, sorted(allowed)))

    return check


def _subscript(text: str) -> tuple[str, str] | None:
    """Split a path such as `metadata.labels['a']`; None for one without a subscript."""
    field, bracket, key = text.removesuffix("']").partition("['")
    return (field, key) if field and bracket and text.endswith("']") else None


def _subscripted(path: str, wanted: str, subscript: tuple[str, str], causes: Causes) -> None:
    field, key = subscript
    if field not in SUBSCRIPTED:
        causes.append(invalid(path, wanted, "does not support subscript"))
        return
    key = key.lower() if field == "metadata.annotations" else key
    causes.extend(invalid(path, key, fault) for fault in qualified_faults(key))


def resource_ref(path: str, value: Object, causes: Causes) -> None:
    """Check a reference to a limit or request of a container."""
    wanted = value.get("resource") or ""
    if not wanted:
        causes.append(required(f"{path}.resource"))
    elif wanted not in RESOURCES and not wanted.startswith(HUGE):
        causes.append(unsupported(f"{path}.resource", wanted, RESOURCES))
    elif divisor := value.get("divisor"):
        _divisor(f"{path}.divisor", wanted.partition(".")[2], divisor, causes)


def _divisor(path: str, resource: str, divisor: Any, causes: Causes) -> None:
    allowed = CPU_DIVISORS if resource == "cpu" else SIZE_DIVISORS
    amount = parse_quantity(divisor)
    if amount.nanos and str(amount) not in allowed:
        listed = "1m and 1" if resource == "cpu" else ", ".join(allowed)
        text = f"only divisor's values {listed} are supported with the {resource} resource"
        causes.append(invalid(path, str(divisor), text))


_any_name = texts(subdomain_faults, empty=True)


def _named_key(path: str, value: Object, causes: Causes) -> None:
    """Check a key of an object; its name may not be empty, but is not reported as missing."""
    _any_name(f"{path}.name", value.get("name") or "", causes)


_key = Struct("key", also=_named_key, key=config_key)
_variable = texts(lambda name: [] if NAME.fullmatch(name) else [NAME_TEXT])
_file = Struct("key path volumeName", key=_variable, volumeName=label, path=texts(backstep_faults))
REFERENCES: dict[str, Check] = {
    "fieldRef": field_ref(IN_ENV),
    "resourceFieldRef": resource_ref,
    "configMapKeyRef": _key,
    "secretKeyRef": _key,
    "fileKeyRef": _file,
}
ONE_SOURCE = f"must specify one of: {', '.join(f'`{source}`' for source in SOURCES[:-1])} or `{SOURCES[-1]}`"
ONLY_ONE = "may not have more than one field specified at a time"


def variable_causes(path: str, variables: list[Object], volumes: Mapping[str, Object]) -> Causes:
    """Check environment variables; `volumes` are those of the pod by name, for fileKeyRef."""
    causes: Causes = []
    check = needed(_variable)
    for index, variable in enumerate(variables):
        check(f"{path}[{index}].name", variable.get("name"), causes)
        if (source := variable.get("valueFrom")) is not None:
            _source(f"{path}[{index}].valueFrom", variable, source, volumes, causes)
    return causes


def _source(path: str, variable: Object, source: Object, volumes: Mapping[str, Object], causes: Causes) -> None:
    given = [name for name in REFERENCES if source.get(name) is not None]
    for name in given:
        REFERENCES[name](f"{path}.{name}", source[name], causes)
    if "fileKeyRef" in given:
        where, named = f"{path}.fileKeyRef.volumeName", source["fileKeyRef"].get("volumeName") or ""
        if named not in volumes:
            causes.append(not_found(where, named))
        elif "emptyDir" not in volumes[named]:
            causes.append(invalid(where, named, "referenced volume must be of type emptyDir"))
    if not given:
        causes.append(invalid(path, "", ONE_SOURCE))
    elif variable.get("value"):
        causes.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(given) > 1:
        causes.append(invalid(path, "", ONLY_ONE))


_named = Struct("name", name=subdomain)


def _source_of_all(path: str, value: Object, causes: Causes) -> None:
    if (prefix := value.get("prefix")) and not NAME.fullmatch(prefix):
        causes.append(invalid(f"{path}.prefix", prefix, NAME_TEXT))
    given = [name for name in ("configMapRef", "secretRef") if value.get(name) is not None]
    for name in given:
        _named(f"{path}.{name}", value[name], causes)
    if len(given) != 1:  # upstream's path lacks the index
        text = ONLY_ONE if given else "must specify one of: `configMapRef` or `secretRef`"
        causes.append(invalid(path.rpartition("[")[0], "", text))


variables_from = each(_source_of_all)
