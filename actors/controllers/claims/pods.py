"""Which pods are gone: from what was seen of them, else from the API."""

from collections import OrderedDict
from collections.abc import Mapping

from protocols.dra.pods import Entry, pod_done
from protocols.kube.client import ApiClient
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, uid_of
from protocols.kube.resources import PODS

REMEMBERED = 500


class PodsSeen:
    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self.known: Mapping[str, Object] = {}
        """The informer's items, set once they exist."""

    def deleted(self, uid: str) -> None:
        self._deleted[uid] = None
        if len(self._deleted) > REMEMBERED:
            self._deleted.popitem(last=False)

    async def done(self, namespace: str, consumer: Entry) -> bool:
        """Whether this very pod uses nothing any more. Raises ApiError, ApiAway while nobody can tell."""
        name, uid = str(consumer.get("name") or ""), str(consumer.get("uid") or "")
        if uid in self._deleted:
            return True
        pod = self.known.get(f"{namespace}/{name}")
        if pod is None or uid_of(pod) != uid:
            pod = await self._live(namespace, name)
        if pod is None or uid_of(pod) != uid:
            self.deleted(uid)
            return True
        return pod_done(pod)

    async def _live(self, namespace: str, name: str) -> Object | None:
        """A pod not seen yet may be newer than what was seen."""
        try:
            return await self._client.get(PODS, name, namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise
