"""An operator on kopf, as its users write them: handlers that change what they watch, an index, a timer, finalizers.

Every call of a handler is a line of the file CALLS names.
"""

import os
from typing import Any

import kopf

OURS = {"operated": "yes"}


def call(what: str, name: str | None) -> None:
    with open(os.environ["CALLS"], "a") as calls:
        calls.write(f"{what} {name}\n")


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    settings.posting.enabled = True
    settings.watching.server_timeout = 600


@kopf.index("pods", labels=OURS)
def phases(name: str, status: kopf.Status, **_: Any) -> dict[str, Any]:
    return {name: status.get("phase")}


@kopf.on.create("configmaps", labels=OURS)
def created(name: str, patch: kopf.Patch, body: kopf.Body, phases: kopf.Index[str, Any], **_: Any) -> None:
    call("created", name)
    patch.setdefault("data", {})["greeting"] = f"hello {name}, {len(phases)} pods"
    kopf.info(body, reason="Greeted", message=f"said hello to {name}")


@kopf.on.update("configmaps", labels=OURS, field="data.wanted")
def updated(name: str, old: Any, new: Any, **_: Any) -> None:
    call(f"updated {old}->{new}", name)


@kopf.on.delete("configmaps", labels=OURS)
def deleted(name: str, **_: Any) -> None:
    call("deleted", name)


@kopf.on.create("greetings.example.com")
def greeted(spec: kopf.Spec, name: str, **_: Any) -> dict[str, Any]:
    call("greeted", name)
    return {"text": f"hello {spec['whom']}"}


@kopf.on.event("pods", labels=OURS)
def seen(type: str | None, name: str, **_: Any) -> None:
    call(f"pod {type}", name)
