"""Targets of `nodeplane why`: their kinds, and the function that diagnoses each."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from supervisor.base.errors import Usage
from supervisor.why.gather.pod import gather_pod
from supervisor.why.gather.sources import Sources
from supervisor.why.model.types import Diagnosis
from supervisor.why.pods.diagnose import diagnose_pod


class Target(NamedTuple):
    kind: str
    name: str
    namespace: str


async def _pod(sources: Sources, target: Target) -> Diagnosis:
    return diagnose_pod(await gather_pod(sources, target.namespace, target.name))


KINDS: dict[str, Callable[[Sources, Target], Awaitable[Diagnosis]]] = {"pod": _pod}


def target_of(text: str, namespace: str) -> Target:
    """Read KIND/NAME; a name alone is a pod's. Raises Usage."""
    kind, slash, name = text.partition("/")
    if not slash:
        kind, name = "pod", text
    kind = kind.removesuffix("s")
    if kind not in KINDS or not name:
        import difflib  # an argument that is right does without

        near = difflib.get_close_matches(kind, KINDS, n=1)
        hint = f"did you mean {near[0]}/{name}? " if near and kind not in KINDS else ""
        raise Usage(f"{text!r} names no target; {hint}give KIND/NAME, KIND one of {', '.join(KINDS)}")
    return Target(kind, name, namespace)
