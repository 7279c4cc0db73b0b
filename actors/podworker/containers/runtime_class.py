"""By which of its ways the runtime is to run a pod: the handler its RuntimeClass names."""

from actors.podworker.errors import RuntimeClassUnknown
from actors.podworker.ports import Objects
from actors.podworker.types import PodSpec

KIND = "RuntimeClass"


async def runtime_handler(objects: Objects, spec: PodSpec) -> str:
    """Empty: the runtime's usual way. Raises RuntimeClassUnknown; NodeplaneError when the API cannot tell."""
    name = str((spec.raw.get("spec") or {}).get("runtimeClassName") or "")
    if not name:
        return ""
    found = await objects.read(KIND, "", name)
    if found is None:
        raise RuntimeClassUnknown(f'RuntimeClass "{name}" not found')
    return str(found.get("handler") or "")
