"""Call a DRA driver as kubelet does."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import grpc

from protocols.wire.methods import CLIENT_OPTIONS
from protocols.wire.plugins import PREPARE

CALL_S = 45.0
"""Deadline of kubelet's calls to drivers."""


class PrepareFailed(AssertionError):
    """Raised when a driver answers that a claim cannot be prepared, or with an error of gRPC."""


class PreparedDevice(NamedTuple):
    requests: tuple[str, ...]
    pool: str
    device: str
    cdi: tuple[str, ...]


def prepare(endpoint: str, version: str, claims: Sequence[Mapping[str, str]]) -> list[PreparedDevice]:
    """Return the devices of every claim, sorted. Raises PrepareFailed, also for a call without an answer."""
    method = PREPARE[version]
    with grpc.insecure_channel(f"unix:{endpoint}", options=CLIENT_OPTIONS) as channel:
        call = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.reply.FromString,
        )
        try:
            reply = call(method.request(claims=claims), timeout=CALL_S)
        except grpc.RpcError as error:
            raise PrepareFailed(f"NodePrepareResources ended with {error.code().name}: {error.details()}") from None
    missing = {claim["uid"] for claim in claims} - set(reply.claims)
    errors = [answer.error for answer in reply.claims.values() if answer.error]
    if errors or missing:
        reasons = [*errors, *(f"no answer for claim {uid}" for uid in missing)]
        raise PrepareFailed(f"the driver did not prepare the claim: {'; '.join(reasons)}")
    return sorted(
        PreparedDevice(tuple(device.request_names), device.pool_name, device.device_name, tuple(device.cdi_device_ids))
        for answer in reply.claims.values()
        for device in answer.devices
    )
