"""Faults for which runtimes reject a readable CDI file, and the paths of the host that it needs. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
"""All that were released."""
NODES = {"", "b", "c", "u", "p"}
NO_PERMISSIONS = "none"
HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}


def faults_of(spec: Any) -> Iterator[str]:
    """Yield a sentence for each fault of a file that declares devices: the runtime goes on without the file."""
    yield from _version_faults(spec)
    counts = Counter(str(device["name"]) for device in spec["devices"])
    yield from (f"the device {name} is there {count} times" for name, count in counts.items() if count > 1)
    for device in spec["devices"]:
        edits = device.get("containerEdits")
        if not isinstance(edits, Mapping) or not any(edits.values()):
            yield f"the device {device['name']} has no containerEdits"
        else:
            yield from (f"{fault}, of device {device['name']}" for fault in _edits(edits))
    if isinstance(common := spec.get("containerEdits"), Mapping):
        yield from _edits(common)


def _version_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fault of the version: it is none, or older than what the file uses."""
    version = str(spec.get("cdiVersion")).removeprefix("v")
    if version not in VERSIONS:
        yield f"cdiVersion is {spec.get('cdiVersion')!r}, the releases are {VERSIONS[0]} to {VERSIONS[-1]}"
        return
    least, what = max(_uses(spec), key=lambda use: VERSIONS.index(use[0]), default=(VERSIONS[0], ""))
    if VERSIONS.index(version) < VERSIONS.index(least):
        yield f"cdiVersion is {version}, and {what} needs {least}"


def _uses(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what the file uses, each with the first version that has it."""
    devices = [device for device in spec["devices"] if isinstance(device, Mapping)]
    if "." in str(spec.get("kind")).partition("/")[2]:
        yield "0.6.0", "a class with a dot"
    if any(holder.get("annotations") for holder in (spec, *devices)):
        yield "0.6.0", "annotations"
    for name in (str(device["name"]) for device in devices):
        if name[:1].isdigit():
            yield "0.5.0", f"the name {name}, which begins with a digit,"
    for edits in _all_edits(spec):
        yield from _uses_of_edits(edits)


def _uses_of_edits(edits: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if any(mount.get("type") for mount in _objects(edits, "mounts")):
        yield "0.4.0", "the type of a mount"
    if any(node.get("hostPath") for node in _objects(edits, "deviceNodes")):
        yield "0.5.0", "hostPath of a device node"
    yield from (("0.7.0", name) for name in ("intelRdt", "additionalGids") if edits.get(name))
    if edits.get("netDevices"):
        yield "1.1.0", "netDevices"


def _edits(edits: Mapping[str, Any]) -> Iterator[str]:
    for variable in _list(edits, "env"):
        if not isinstance(variable, str) or not variable.partition("=")[0] or "=" not in variable:
            yield f"env has {variable!r}, not NAME=VALUE"
    for node in _objects(edits, "deviceNodes"):
        if not node.get("path"):
            yield "a device node has no path"
        if str(node.get("type") or "") not in NODES:
            yield f"a device node has the type {node['type']!r}"
        if set(permissions := str(node.get("permissions") or "")) - set("rwm") and permissions != NO_PERMISSIONS:
            yield f"a device node has the permissions {node['permissions']!r}"
    for mount in _objects(edits, "mounts"):
        if not mount.get("hostPath") or not mount.get("containerPath"):
            yield "a mount has no hostPath or no containerPath"
    for hook in _objects(edits, "hooks"):
        if str(hook.get("hookName")) not in HOOKS or not hook.get("path"):
            yield f"a hook has the name {hook.get('hookName')!r} and the path {hook.get('path')!r}"


def nodes_of(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths on the host of device nodes of which the runtime reads the numbers there."""
    for edits in _all_edits(spec):
        for node in _objects(edits, "deviceNodes"):
            if not (node.get("type") and (node.get("major") or node["type"] == "p")):
                yield str(node.get("hostPath") or node.get("path"))


def mounts_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the paths on the host of mounts, and their types."""
    for edits in _all_edits(spec):
        yield from ((str(mount.get("hostPath")), str(mount.get("type") or "")) for mount in _objects(edits, "mounts"))


def _all_edits(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    candidates = (holder.get("containerEdits") for holder in (spec, *spec["devices"]) if isinstance(holder, Mapping))
    return (edits for edits in candidates if isinstance(edits, Mapping))


def _list(edits: Mapping[str, Any], name: str) -> Sequence[Any]:
    entries = edits.get(name) or ()
    return entries if isinstance(entries, list) else ()


def _objects(edits: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    return (entry for entry in _list(edits, name) if isinstance(entry, Mapping))
