"""Warnings about pods and templates that are valid and do what their author hardly wants. Texts equal upstream's.

No comparison of elements is quadratic: an element is compared with a bounded number of others.
"""

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from protocols.kinds.check.warnings import (
    NODE_LABELS,
    VOLUMES,
    claim_warnings,
    fraction_warnings,
    ip_warnings,
    node_term_warnings,
)
from protocols.kinds.pods.annotations import APPARMOR, SECCOMP, SECCOMP_POD
from protocols.kinds.pods.spec.scheduling import PREFERRED, REQUIRED
from protocols.kinds.pods.spec.systems import every_container
from protocols.kube.meta import Object, annotations_of
from protocols.kube.names import label_faults
from protocols.kube.objects import at, items, text

MOST, COMPARED, DEEPEST = 50, 16, 64
"""Warnings about one object, ports that one is compared with, and directories of a path that is compared."""
BYTES = ("memory", "ephemeral-storage")
SYSCTLS = 'non-functional in v1.11+; use the "sysctls" field instead'
ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": 'non-functional in v1.16+; use the "priorityClassName" field instead',
    "security.alpha.kubernetes.io/sysctls": SYSCTLS,
    "security.alpha.kubernetes.io/unsafe-sysctls": SYSCTLS,
}
NO_SELECTOR = "a null labelSelector results in matching no pod"
NEGATIVE = "must be >= 0; negative values are invalid and will be treated as 1"
SECCOMP_TEXT = 'non-functional in v1.27+; use the "seccompProfile" field instead'
APPARMOR_TEXT = 'deprecated since v1.30; use the "appArmorProfile" field instead'
HOSTNAME = (
    "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is "
    "recommended"
)


def name_warnings(pod: Object) -> list[str]:
    """Return the warning about the name of a new pod that is no hostname."""
    faults = label_faults(pod["metadata"].get("name") or "")
    return [f"{HOSTNAME}: [{' '.join(faults)}]"] if faults else []


def pod_warnings(owner: Object, path: str = "") -> list[str]:
    """Return warnings about a new pod, or about the template at `path`, such as `spec.template`."""
    spec: Object = owner.get("spec") or {}
    where, metadata = (f"{path}.{part}".removeprefix(".") for part in ("spec", "metadata.annotations"))
    parts: Iterable[Iterable[str]] = (
        _nodes(where, spec),
        _spreads(f"{where}.topologySpreadConstraints", spec),
        (f"{metadata}[{key}]: {text}" for key, text in ANNOTATIONS.items() if key in annotations_of(owner)),
        _volumes(f"{where}.volumes", spec),
        chain.from_iterable(map(_overlaps, items(spec, "volumes"))),
        _repeated(f"{where}.hostAliases", spec, "hostAliases", "ip"),
        _repeated(f"{where}.imagePullSecrets", spec, "imagePullSecrets", "name"),
        fraction_warnings(f"{where}.overhead", spec.get("overhead"), BYTES),
        _profiles(metadata, owner, is_template=bool(path)),
        chain.from_iterable(_container(place, container) for place, container in every_container(where, spec)),
        _ports(where, spec),
        [f"{where}.terminationGracePeriodSeconds: {NEGATIVE}"] if _is_negative(spec) else [],
        _affinities(f"{where}.affinity", spec),
        _addresses(where, spec),
    )
    return list(islice(chain.from_iterable(parts), MOST))


def _is_negative(spec: Object) -> bool:
    return bool((spec.get("terminationGracePeriodSeconds") or 0) < 0)


def _nodes(path: str, spec: Object) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in NODE_LABELS:
            yield f"{path}.nodeSelector[{key}]: {NODE_LABELS[key]}"
    path = f"{path}.affinity.nodeAffinity"
    affinity = at(spec, "affinity", "nodeAffinity")
    for index, term in enumerate(items(affinity, REQUIRED, "nodeSelectorTerms")):
        yield from node_term_warnings(f"{path}.{REQUIRED}.nodeSelectorTerms[{index}]", term)
    for index, weighted in enumerate(items(affinity, PREFERRED)):
        term = weighted.get("preference") or {}
        yield from node_term_warnings(f"{path}.{PREFERRED}[{index}].preference", term, values=True)


def _spreads(path: str, spec: Object) -> Iterator[str]:
    for index, constraint in enumerate(items(spec, "topologySpreadConstraints")):
        if (key := constraint.get("topologyKey")) in NODE_LABELS:
            yield f"{path}[{index}].topologyKey: {key} is {NODE_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{path}[{index}].labelSelector: {NO_SELECTOR}"


def _volumes(path: str, spec: Object) -> Iterator[str]:
    for index, volume in enumerate(items(spec, "volumes")):
        for kind, word in VOLUMES.items():
            if volume.get(kind) is not None:
                yield f"{path}[{index}].{'storageOS' if kind == 'storageos' else kind}: {word}"
        if (claim := at(volume, "ephemeral", "volumeClaimTemplate", "spec")) is not None:
            yield from claim_warnings(f"{path}[{index}].ephemeral.volumeClaimTemplate.spec", claim)


NAMED = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName")}


def _overlaps(volume: Object) -> Iterator[str]:
    """Yield warnings about files of a volume of which one hides another."""
    name = volume.get("name") or ""
    for kind, (title, field) in NAMED.items():
        if source := volume.get(kind):
            yield from _hidden(f'volume "{name}" ({title} "{source.get(field) or ""}")', _paths(source))
    if source := volume.get("downwardAPI"):
        yield from _hidden(f'volume "{name}" (DownwardAPI)', _paths(source))
    if "projected" in volume:
        sources = items(volume, "projected", "sources")
        yield from (f'volume "{name}" (Projected) has no sources provided' for source in sources if not source)
        yield from _hidden(f'volume "{name}" (Projected)', chain.from_iterable(map(_projected, sources)))


def _paths(source: Object, of: str = "") -> list[tuple[str, str]]:
    return [(item.get("path") or "", of) for item in items(source, "items")]


def _projected(source: Object) -> list[tuple[str, str]]:
    """Return the paths of a projected source, each with the words for the source."""
    for kind, title in (("configMap", "ConfigMap"), ("secret", "Secret")):
        if kind in source:
            return _paths(source[kind], f' ({title} "{text(source, kind, "name")}")')
    if "downwardAPI" in source:
        return _paths(source["downwardAPI"], " (DownwardAPI)")
    token = text(source, "serviceAccountToken", "path")
    return [(token, " (ServiceAccountToken)")] if token else []


def _hidden(title: str, paths: Iterable[tuple[str, str]]) -> Iterator[str]:
    seen, inner = dict[str, str](), dict[str, str]()
    for given, source in paths:
        path = given.rstrip("/")
        if not path or path.count("/") > DEEPEST:
            continue
        parts = path.split("/")
        above = ["/".join(parts[:number]) for number in range(1, len(parts))]
        other = next((held for held in (path, *above) if held in seen), inner.get(path))
        if other is not None:
            yield f'{title}: overlapping paths: "{path}"{source} with "{other}"{seen[other]}'
        seen.setdefault(path, source)
        inner.update(dict.fromkeys(above, path))


def _repeated(path: str, spec: Object, field: str, key: str) -> Iterator[str]:
    seen, empty = set[str](), list[str]()
    for index, item in enumerate(items(spec, field)):
        value = item.get(key) or ""
        if value in seen:
            yield f'{path}[{index}].{key}: duplicate {key} "{value}"'
        if not value and key == "name":
            empty.append(f'{path}[{index}].name: invalid empty name ""')
        seen.add(value)
    yield from empty


def _profiles(path: str, owner: Object, *, is_template: bool) -> Iterator[str]:
    """Yield warnings about profiles that only annotations name. Those of AppArmor become fields of a pod."""
    given, spec = annotations_of(owner), owner.get("spec") or {}
    if not given:
        return
    if SECCOMP_POD in given and at(spec, "securityContext", "seccompProfile") is None:
        yield f"{path}[{SECCOMP_POD}]: {SECCOMP_TEXT}"
    has_profile = at(spec, "securityContext", "appArmorProfile") is not None
    for _, container in every_container("", spec):
        name, security = container.get("name"), container.get("securityContext") or {}
        if (key := f"{SECCOMP}{name}") in given and security.get("seccompProfile") is None:
            yield f"{path}[{key}]: {SECCOMP_TEXT}"
        own = has_profile or security.get("appArmorProfile") is not None
        if is_template and not own and (key := f"{APPARMOR}{name}") in given:
            yield f"{path}[{key}]: {APPARMOR_TEXT}"


def _container(path: str, container: Object) -> Iterator[str]:
    for name in BYTES:
        for side in ("limits", "requests"):
            amounts = at(container, "resources", side)
            yield from fraction_warnings(f"{path}.resources.{side}", amounts, (name,))
    seen = set[str]()
    for index, variable in enumerate(items(container, "env")):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        if name in seen and ("valueFrom" in variable or value == reference or reference not in value):
            yield f'{path}.env[{index}]: hides previous definition of "{name}", which may be dropped when using apply'
        seen.add(name)


def _ports(path: str, spec: Object) -> Iterator[str]:
    """Yield warnings about ports that are there twice, or whose host ports may collide."""
    known: dict[tuple[int, str], list[tuple[str, str, int]]] = {}
    for place, container in every_container(path, spec):
        for index, port in enumerate(items(container, "ports")):
            where, number, protocol = f"{place}.ports[{index}]", port.get("containerPort") or 0, text(port, "protocol")
            host, ip = port.get("hostPort") or 0, text(port, "hostIP")
            if ip and not host:
                shown = f"Name:{text(port, 'name')} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}"
                yield f"{where}: hostIP set without hostPort: {{{shown}}}"
            others = known.setdefault((number, protocol), [])
            for other, other_ip, other_host in others[:COMPARED]:
                if word := _collision((ip, host), (other_ip, other_host)):
                    yield f"{where}: {word} port definition with {other}"
            others.append((where, ip, host))


def _collision(one: tuple[str, int], other: tuple[str, int]) -> str:
    """Return what two ports of the same number are, each with its hostIP and hostPort."""
    if one == other:
        return "duplicate"
    if not one[1] or not other[1]:
        return "overlapping"
    return "dangerously ambiguous" if one[1] == other[1] and (not one[0] or not other[0]) else ""


def _affinities(path: str, spec: Object) -> Iterator[str]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity, where = at(spec, "affinity", kind), f"{path}.{kind}"
        for index, term in enumerate(items(affinity, REQUIRED)):
            if term.get("labelSelector") is None:
                yield f"{where}.{REQUIRED}[{index}].labelSelector: {NO_SELECTOR}"
        for index, weighted in enumerate(items(affinity, PREFERRED)):
            if at(weighted, "podAffinityTerm", "labelSelector") is None:
                yield f"{where}.{PREFERRED}[{index}].podAffinityTerm.labelSelector: {NO_SELECTOR}"


def _addresses(path: str, spec: Object) -> Iterator[str]:
    for index, server in enumerate(at(spec, "dnsConfig", "nameservers") or ()):
        yield from ip_warnings(f"{path}.dnsConfig.nameservers[{index}]", server)
    for index, alias in enumerate(items(spec, "hostAliases")):
        yield from ip_warnings(f"{path}.hostAliases[{index}].ip", alias.get("ip") or "")
