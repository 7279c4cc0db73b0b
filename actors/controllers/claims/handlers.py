"""What the informers of pods, claims and templates tell the keeper."""

from collections.abc import Callable

from actors.controllers.claims.keeper import ClaimKeeper
from protocols.kube.meta import Object


class Changes:
    """One informer's events as two calls."""

    def __init__(self, changed: Callable[[Object], None], gone: Callable[[Object], None]) -> None:
        self._changed, self._gone = changed, gone

    def on_add(self, obj: Object) -> None:
        self._changed(obj)

    def on_update(self, old: Object, new: Object) -> None:
        self._changed(new)

    def on_delete(self, obj: Object) -> None:
        self._gone(obj)


def pods(keeper: ClaimKeeper) -> Changes:
    return Changes(keeper.pod_changed, keeper.pod_gone)


def claims(keeper: ClaimKeeper) -> Changes:
    return Changes(keeper.claim_changed, keeper.claim_gone)


def templates(keeper: ClaimKeeper) -> Changes:
    return Changes(keeper.template_changed, lambda template: None)
