"""The status of ValidatingAdmissionPolicies: written once for each generation, and when to leave it."""

import logging
from typing import Any

import pytest

from actors.controllers.policies.admission_status import AdmissionPolicyStatusController
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object


class Applied:
    """Records what is applied; `fault` is raised instead."""

    def __init__(self, fault: int = 0) -> None:
        self.bodies: list[Object] = []
        self._fault = fault

    async def apply(self, resource: Any, obj: Object, manager: str, subresource: str = "") -> Object:
        assert (resource.plural, manager, subresource) == (
            "validatingadmissionpolicies", "validatingadmissionpolicy-status", "status",
        )  # fmt: skip
        if self._fault:
            raise ApiError(self._fault, {})
        self.bodies.append(obj)
        return obj


async def applied(policy: Object | None, fault: int = 0) -> list[Object]:
    client: Any = Applied(fault)
    controller = AdmissionPolicyStatusController(client, logging.getLogger("t"))
    controller.items = {} if policy is None else {"p": policy}
    await controller._step(("policy", "p"))
    return list(client.bodies)


def policy(generation: int, status: Object | None) -> Object:
    return {"metadata": {"name": "p", "uid": "u", "generation": generation}, "status": status}


@pytest.mark.parametrize("status", [None, {}, {"observedGeneration": 1, "typeChecking": {}}])
async def test_older_status_is_applied_for_the_generation(status: Object | None) -> None:
    [body] = await applied(policy(2, status))
    assert body["metadata"] == {"name": "p", "uid": "u"}
    assert body["status"] == {"observedGeneration": 2, "typeChecking": {}}


@pytest.mark.parametrize("observed", [2, 2147483648])
async def test_status_of_the_generation_or_a_later_one_is_left(observed: int) -> None:
    assert await applied(policy(2, {"observedGeneration": observed})) == []


async def test_deleted_policy_is_left() -> None:
    assert await applied(None) == []
    assert await applied(policy(1, {}), fault=404) == []
    assert await applied(policy(1, {}), fault=409) == []


async def test_rejected_status_is_retried_by_the_queue() -> None:
    with pytest.raises(ApiError):
        await applied(policy(1, {}), fault=403)
