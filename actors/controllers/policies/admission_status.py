"""The status of ValidatingAdmissionPolicies, as upstream's validatingadmissionpolicy-status controller writes it.

Types of fields are not checked: `typeChecking` is empty, which is upstream's answer for a policy without warnings.
"""

import logging
from collections.abc import Mapping

from protocols.kinds.table import VALIDATINGADMISSIONPOLICIES
from protocols.kube.errors import suppress_status
from protocols.kube.meta import Object, meta, name_of, uid_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import ResourceEventHandler
from protocols.kubeclient.workqueue import Key, WorkQueue

MANAGER = "validatingadmissionpolicy-status"


class AdmissionPolicyStatusController(ResourceEventHandler):
    """Writes observedGeneration and an empty typeChecking after each change of a policy's spec."""

    def __init__(self, client: ApiClient, log: logging.Logger) -> None:
        self._client = client
        self._queue = WorkQueue(self._step, log, workers=1)
        self.items: Mapping[str, Object] = {}
        """The informer's policies by name."""

    def on_add(self, obj: Object) -> None:
        self._queue.put(("policy", name_of(obj)))

    async def run(self) -> None:
        await self._queue.run()

    async def _step(self, key: Key) -> None:
        policy = self.items.get(key[1])
        if policy is None or (generation := unobserved(policy)) is None:
            return
        body = {
            **VALIDATINGADMISSIONPOLICIES.type_meta,
            "metadata": {"name": name_of(policy), "uid": uid_of(policy)},
            "status": {"observedGeneration": generation, "typeChecking": {}},
        }
        with suppress_status(404, 409):  # deleted, or another one of the name, which comes with its event
            await self._client.apply(VALIDATINGADMISSIONPOLICIES, body, MANAGER, subresource="status")


def unobserved(policy: Object) -> int | None:
    """Return the generation of a policy whose status is older; None for others."""
    generation = meta(policy).get("generation") or 0
    observed = (policy.get("status") or {}).get("observedGeneration") or 0
    return generation if generation > observed else None
