"""Hollow pods as users write them: limits, restart policy, how long they run and how they end."""

import random
from typing import Any

from protocols.kube.meta import Object
from protocols.lifecycle.pods.hollow import DURATION, EXIT_CODE, HOLLOW

NAMESPACE = "default"
ENDED = frozenset({"Succeeded", "Failed"})


def hollow_pod(name: str, limits: dict[str, str], chance: random.Random) -> dict[str, Any]:
    container = {"name": "main", "image": "hollow/app", "resources": {"limits": limits, "requests": dict(limits)}}
    spec: Object = {
        "restartPolicy": chance.choice(("Never", "OnFailure", "Always")),
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    notes = {HOLLOW: "true", EXIT_CODE: str(chance.choice((0, 0, 1)))}
    if chance.random() < 0.8:
        notes[DURATION] = f"{chance.choice((200, 1000, 3000, 8000))}ms"
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def with_card(pod: dict[str, Any], source: dict[str, str]) -> None:
    """Let a pod use a card: `source` names its claim, or the template of it."""
    pod["spec"]["resourceClaims"] = [{"name": "card", **source}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "card"}]


def card_request() -> Object:
    return {"devices": {"requests": [{"name": "card", "exactly": {"deviceClassName": "card"}}]}}


def has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED
