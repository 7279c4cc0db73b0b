"""The certificate controller: approve kubelets' client certificates, sign what is approved, remove old requests.

As upstream, it approves only client certificates of kubelets, for users with the right to create `selfnodeclient` or
`nodeclient` of certificatesigningrequests. Serving certificates are approved by users.
"""

import asyncio
import datetime
import logging
import time
from collections.abc import Mapping
from pathlib import Path

from actors.controllers.certificates.rules import (
    APPROVED,
    DENIED,
    FAILED,
    SIGNERS,
    Certificate,
    RequestInvalid,
    approvals,
    certificate_of,
    check_signer,
    conditions_of,
    has_condition,
    parse_request,
    read_certificate,
    removal_time,
    usages_of,
)
from actors.controllers.certificates.signing import SigningFailed, expiry, sign
from protocols.kinds.table import CERTIFICATESIGNINGREQUESTS, Resource
from protocols.kube.errors import suppress_status
from protocols.kube.meta import Object, meta, name_of, uid_of
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import ResourceEventHandler
from protocols.kubeclient.workqueue import Key, WorkQueue

GROUP = "certificates.k8s.io"
REVIEWS = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", False)
NO_KEY_S = 60.0
"""Time until a request is tried again when there is no CA to sign with."""
NO_RIGHT_S = 60.0
"""Time until the right to have a request approved is asked for again: a binding may come after the node."""


class CertificateController(ResourceEventHandler):
    """Handles each request until it is signed, denied or old enough to be removed."""

    def __init__(self, client: ApiClient, log: logging.Logger, ca: Path, key: Path) -> None:
        self._client, self._log, self._ca, self._key = client, log, ca, key
        self._queue = WorkQueue(self._step, log, workers=2)
        self.requests: Mapping[str, Object] = {}
        """The informer's objects by name."""

    def on_add(self, obj: Object) -> None:
        self._queue.put(("csr", name_of(obj)))

    def on_delete(self, obj: Object) -> None:
        self._queue.cancel_timer(("csr", name_of(obj)))

    async def run(self) -> None:
        await self._queue.run()

    async def _step(self, key: Key) -> None:
        csr = self.requests.get(key[1])
        if csr is None or meta(csr).get("deletionTimestamp"):
            return
        if await self._remove(csr, key):
            return
        if certificate_of(csr) or has_condition(csr, FAILED) or has_condition(csr, DENIED):
            return
        if not has_condition(csr, APPROVED):
            await self._approve(csr, key)
        elif (csr.get("spec") or {}).get("signerName") in SIGNERS:
            await self._sign(csr, key)

    async def _remove(self, csr: Object, key: Key) -> bool:
        """Remove an old request, or come back when it is one."""
        certificate = certificate_of(csr)
        ends = await asyncio.to_thread(expiry, certificate) if certificate else None
        due = removal_time(csr, ends)
        if due is None:
            return False
        left = due - time.time()
        if left > 0:
            self._queue.put_later(key, left + 1)
            return False
        with suppress_status(404, 409):
            await self._client.delete(CERTIFICATESIGNINGREQUESTS, name_of(csr), uid=uid_of(csr))
        self._log.info("certificate request removed: it is old csr=%s", name_of(csr))
        return True

    async def _approve(self, csr: Object, key: Key) -> None:
        if (csr.get("spec") or {}).get("signerName") not in SIGNERS:
            return
        try:
            wanted = await asyncio.to_thread(_read, csr)
        except RequestInvalid as error:
            self._log.warning("certificate request not read csr=%s error=%s", name_of(csr), error)
            return
        ways = approvals(csr, wanted)
        for subresource, message in ways:
            if await self._allowed(csr, subresource):
                await self._add_condition(csr, APPROVED, "AutoApproved", message, "approval")
                self._log.info("certificate request approved csr=%s name=%s", name_of(csr), wanted.common_name)
                return
        if ways:
            self._queue.put_later(key, NO_RIGHT_S)

    async def _allowed(self, csr: Object, subresource: str) -> bool:
        spec = csr["spec"]
        right = {
            "group": GROUP,
            "resource": CERTIFICATESIGNINGREQUESTS.plural,
            "verb": "create",
            "subresource": subresource,
        }
        review = {
            "apiVersion": REVIEWS.api_version,
            "kind": REVIEWS.kind,
            "spec": {
                "user": spec.get("username"),
                "uid": spec.get("uid"),
                "groups": spec.get("groups"),
                "extra": spec.get("extra"),
                "resourceAttributes": right,
            },
        }
        answer = await self._client.create(REVIEWS, review)
        return (answer.get("status") or {}).get("allowed") is True

    async def _sign(self, csr: Object, key: Key) -> None:
        try:
            certificate = await asyncio.to_thread(self._certificate, csr)
        except RequestInvalid as error:
            await self._add_condition(csr, FAILED, "SignerValidationFailure", str(error), "status")
        except SigningFailed as error:
            self._log.warning("certificate request not signed csr=%s error=%s", name_of(csr), error)
            self._queue.put_later(key, NO_KEY_S)
        else:
            await self._patch(csr, {"certificate": certificate}, "status")
            self._log.info("certificate request signed csr=%s signer=%s", name_of(csr), csr["spec"]["signerName"])

    def _certificate(self, csr: Object) -> str:
        check_signer(csr["spec"]["signerName"], _read(csr), usages_of(csr))
        return sign(csr, self._ca, self._key, datetime.datetime.now(datetime.UTC))

    async def _add_condition(self, csr: Object, kind: str, reason: str, message: str, subresource: str) -> None:
        added = {"type": kind, "status": "True", "reason": reason, "message": message, "lastUpdateTime": now()}
        await self._patch(csr, {"conditions": [*conditions_of(csr), added]}, subresource)

    async def _patch(self, csr: Object, status: Object, subresource: str) -> None:
        """Patch the object as it was seen; one that has changed comes again with its event."""
        seen = {"uid": uid_of(csr), "resourceVersion": meta(csr).get("resourceVersion")}
        body = {"metadata": seen, "status": status}
        with suppress_status(404, 409):
            await self._client.patch(CERTIFICATESIGNINGREQUESTS, name_of(csr), body=body, subresource=subresource)


def _read(csr: Object) -> Certificate:
    return read_certificate(parse_request(csr))
