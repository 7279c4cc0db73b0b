"""Admission of one write by policies and webhooks, in upstream's order: first what changes it, then what checks it.

Policies are evaluated in a thread where the object is large. Webhooks are called from the event loop.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from actors.apiserver.api.errors import BadRequest, InternalError
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.workers import offload
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.writes.admission.policies.calling import Caller
from actors.apiserver.writes.admission.policies.evaluation import Input, request_of
from actors.apiserver.writes.admission.policies.index import Hooks, PolicyHook, WebhookHook
from actors.apiserver.writes.admission.policies.mutating import mutated, refused
from actors.apiserver.writes.admission.policies.parameters import Parameters, ParametersMissing
from actors.apiserver.writes.admission.policies.validating import Binding, Evaluation, Findings, denied
from actors.apiserver.writes.admission.policies.webhook import (
    Answer,
    Webhook,
    WebhookFailed,
    read_answer,
    rejection,
    review_of,
)
from actors.apiserver.writes.change import DELETE, Change
from actors.apiserver.writes.metadata import keep_server_fields
from actors.apiserver.writes.update import amended
from actors.apiserver.writes.validation import clean_changed
from protocols.cel.text.source import CelError
from protocols.kinds.patches.json_patch import apply_json_patch
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import WrongType
from protocols.kube.errors import KubeError
from protocols.kube.meta import Object
from protocols.kube.objects import fresh_copy, same

FIXED = ("name", "generateName", "namespace", "uid", "creationTimestamp", "resourceVersion", "managedFields")
"""Metadata that no policy or webhook changes."""


class Parts(msgspec.Struct, frozen=True):
    """Parts that the sessions of all writes share."""

    authorizer: Authorizer
    parameters: Parameters
    caller: Caller


class Session:
    """One write. `warnings` and `annotations` are complete once it is admitted."""

    def __init__(self, change: Change, hooks: Hooks, parts: Parts, namespace: Object | None) -> None:
        self._change, self.hooks, self._parts, self._namespace = change, hooks, parts, namespace
        self._row = change.target.resource
        self._called = Findings()
        """Warnings and annotations of webhooks."""
        self._found = Findings()
        """Findings of policies in the last evaluation."""
        self._asked: set[int] = set()
        """Identities of the hooks of mutating policies and webhooks that matched the object."""

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys((*self._called.warnings, *self._found.warnings)))

    @property
    def annotations(self) -> dict[str, str]:
        return {**self._called.annotations, **self._found.annotations}

    @property
    def asks(self) -> bool:
        """True if others are asked about the write: only about the newest object, as their answers may have effects."""
        hooks, changes = self.hooks, self._change.operation != DELETE
        return bool(hooks.mutating_webhooks or hooks.validating_webhooks or (hooks.mutating and changes))

    async def mutate(self) -> None:
        """Let policies and webhooks change the new object, then make it valid again. Raises StatusError."""
        change, target, new = self._change, self._change.target, self._change.sent
        if change.operation == DELETE:
            await self.ask_mutating_webhooks()
            return
        mutated = await self._mutate(fresh_copy(new), change.old) if self.hooks.mutates else new
        if mutated is new or same(mutated, new):
            return
        if change.old is None:
            keep_server_fields(mutated["metadata"], new["metadata"])
            _clean(mutated, {}, target)
            target.resource.strategy.default(mutated)
            change.new = mutated
        else:
            change.new = await offload(_size(mutated), partial(_updated, target, mutated, new, change.old))

    async def ask_mutating_webhooks(self) -> None:
        """Ask them about a write without an object that they could change. Raises the error of the first denial."""
        for hook in self.hooks.mutating_webhooks:
            await self._ask(hook, self._shown, self._change.old)

    async def check_policies(self) -> None:
        """Evaluate all validating policies. Raises the error of the first denial, BudgetSpent."""
        if self.hooks.validating:
            await offload(_size(self._shown), partial(self._check, self._shown, self._change.old))

    async def check_webhooks(self) -> None:
        """Call all validating webhooks at once. Raises the error of the first one that does not allow the write."""
        asked = (self._ask(hook, self._shown, self._change.old) for hook in self.hooks.validating_webhooks)
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    @property
    def _shown(self) -> Object | None:
        return None if self._change.operation == DELETE else self._change.new

    def _check(self, new: Object | None, old: Object | None) -> None:
        findings, given = Findings(), self._input()
        views = _Views(self._row, new, old)
        for hook in self.hooks.validating:
            for binding in self._matching(hook, new, old):
                evaluation = Evaluation(hook.policy, binding, given, findings)
                for data in self._data(hook, binding, given, views, evaluation.broken):
                    evaluation.run(data)
        self._found = findings
        if findings.denials:
            error = denied(self._change, new if new is not None else old, findings.denials)
            error.warnings = self.warnings
            raise error

    def _matching(self, hook: PolicyHook, new: Object | None, old: Object | None) -> Iterable[Binding]:
        space = self._namespace or {}
        if not hook.match.selects(self._change, new, old, space):
            return
        for binding, match in hook.bindings:
            if match is None or match.selects(self._change, new, old, space):
                yield binding

    def _data(
        self, hook: PolicyHook, binding: Binding, given: Input, views: "_Views", broken: Callable[[str], None]
    ) -> Iterable[dict[str, Any]]:
        try:
            parameters = self._parts.parameters.of(hook.policy.kind, binding.reference, self._change.namespace)
        except ParametersMissing as error:
            broken(f"failed to configure binding: {error}")
            return
        new, old = views.of(hook.row)
        request = request_of(self._change, hook.row, new, old)
        for params in parameters:
            yield given.data(request, new, old, params)

    def _input(self) -> Input:
        return Input(self._change, self._parts.authorizer, self._namespace)

    async def _mutate(self, obj: Object, old: Object | None) -> Object:
        """Return the object after all policies and webhooks that change it. Raises StatusError.

        Those that ask for it are called a second time if a later one changed the object, never for the first time.
        """
        fixed = {key: obj["metadata"].get(key) for key in FIXED}
        steps: list[PolicyHook | WebhookHook] = [*self.hooks.mutating, *self.hooks.mutating_webhooks]
        last = -1
        for number, step in enumerate(steps):
            obj, changed = await self._step(step, obj, old, fixed)
            last = number if changed else last
        asked = self._asked.copy()
        for step in (step for step in steps[: max(0, last)] if _reinvoked(step) and id(step) in asked):
            obj, _ = await self._step(step, obj, old, fixed)
        return obj

    async def _step(
        self, step: PolicyHook | WebhookHook, obj: Object, old: Object | None, fixed: Object
    ) -> tuple[Object, bool]:
        if isinstance(step, PolicyHook):
            mutated = await offload(_size(obj), partial(self._apply, step, obj, old))
        else:
            mutated = await self._ask(step, obj, old) or obj
        if mutated is obj or not isinstance(mutated.get("metadata"), dict):
            return obj, False
        mutated["metadata"].update({key: value for key, value in fixed.items() if value is not None})
        mutated["apiVersion"], mutated["kind"] = obj["apiVersion"], obj["kind"]
        return mutated, not same(mutated, obj)

    def _apply(self, hook: PolicyHook, obj: Object, old: Object | None) -> Object:
        """Apply one mutating policy with all its bindings. Raises Forbidden, BudgetSpent."""
        given, policy = self._input(), hook.policy
        for binding in self._matching(hook, obj, old):
            faults, runs = list[str](), False
            # The mutations see, and change, the object in the version of the request.
            same_version = replace(hook, row=self._row)
            for data in self._data(same_version, binding, given, _Views(self._row, obj, old), faults.append):
                runs = True
                try:
                    if given.matches(policy.conditions, policy.scope._replace(variables=()), data):
                        self._asked.add(id(hook))
                        obj = mutated(policy, given, {**data, "object": obj}, self._change, faults.append)
                except CelError as error:
                    faults.append(str(error))
            if faults and not policy.ignores:
                raise refused(policy, binding, faults, self._change, runs=runs)
        return obj

    async def _ask(self, hook: WebhookHook, new: Object | None, old: Object | None) -> Object | None:
        """Call a webhook if it matches; return the object that it changed. Raises StatusError."""
        webhook, row, views = hook.webhook, hook.row, _Views(self._row, new, old)
        if not hook.match.selects(self._change, new, old, self._namespace or {}):
            return None
        shown, before = views.of(row)
        if not await offload(_size(new), partial(self._holds, hook, row, shown, before)):
            return None
        self._asked.add(id(hook))
        uid, review = review_of(webhook, self._change, row, shown, before)
        try:
            raw = await self._parts.caller.call(webhook, review)
            answer = await offload(len(raw), partial(read_answer, raw, uid, webhook))
        except WebhookFailed as error:
            if webhook.ignores:
                self._called.annotate(f"failed-open.{webhook.name}", str(error)[:1024])
                return None
            raise InternalError(f'failed calling webhook "{webhook.name}": {error}') from None
        patch = self._patch(webhook, answer, shown)
        return views.back(row, await offload(len(raw), partial(_patched, shown or {}, patch))) if patch else None

    def _holds(self, hook: WebhookHook, row: Served, new: Object | None, old: Object | None) -> bool:
        """Return True if the conditions hold. Raises Forbidden if they fail and the webhook does not ignore that."""
        from protocols.cel.policies import PolicyScope

        if not hook.webhook.conditions:
            return True
        given = self._input()
        data = given.data(request_of(self._change, row, new, old), new, old, None)
        try:
            return given.matches(hook.webhook.conditions, PolicyScope(), data)
        except CelError as error:
            if not hook.webhook.ignores:
                self._change.reject(str(error))
            return False

    def _patch(self, webhook: Webhook, answer: Answer, obj: Object | None) -> list[Any]:
        """Record warnings and annotations; return the patch. Raises ApiError."""
        self._called.warnings += answer.warnings
        for key, value in answer.annotations.items():
            self._called.annotate(f"{webhook.name}/{key}", value)
        if not answer.allowed:
            raise rejection(webhook, answer.status)
        if answer.patch and obj is None:
            fault = "attempted to modify the object, which is not supported for this operation"
            raise InternalError(f'admission webhook "{webhook.name}" {fault}')
        return answer.patch


class _Views:
    """The objects of a write in the versions that rules cover."""

    def __init__(self, row: Served, new: Object | None, old: Object | None) -> None:
        self._row, self._new, self._old = row, new, old

    def of(self, row: Served) -> tuple[Object | None, Object | None]:
        if row is self._row:
            return self._new, self._old
        return _converted(self._new, self._row, row), _converted(self._old, self._row, row)

    def back(self, row: Served, obj: Object | None) -> Object | None:
        """Return a patched object of `row` in the version of the write. Raises InternalError for one of other shape."""
        try:
            if obj is not None and not isinstance(obj["metadata"], dict):
                raise TypeError("metadata")
            return obj if row is self._row else _converted(obj, row, self._row)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InternalError(f"the object that a webhook patched is no {row.kind}") from None


def _patched(obj: Object, patch: list[Any]) -> Object:
    """Raises InternalError: as upstream, failurePolicy is about calls, not about patches that do not apply."""
    try:
        return apply_json_patch(obj, patch)
    except KubeError as error:
        raise InternalError(str(error)) from None


def _converted(obj: Object | None, row: Served, to: Served) -> Object | None:
    """Return the object in another version. One of a custom resource retains fields that this version does not have."""
    if obj is None or row.custom is not None:
        return obj and {**fresh_copy(obj), "apiVersion": to.api_version}
    return to.converter.to_version(row.converter.to_stored(fresh_copy(obj)))


def _reinvoked(step: PolicyHook | WebhookHook) -> bool:
    if isinstance(step, PolicyHook):
        return step.policy.spec.get("reinvocationPolicy") == "IfNeeded"
    return step.webhook.reinvoked


def _updated(target: Target, mutated: Object, new: Object, old: Object) -> Object:
    """Return the object as an update leaves it. Raises BadRequest, and as `amended`."""
    _clean(mutated, old, target)
    return amended(target, mutated, new, old)


def _clean(new: Object, old: Object, target: Target) -> None:
    """Remove fields that the kind does not have. Raises BadRequest for values of other types."""
    try:
        clean_changed(new, old, target)
    except WrongType as error:
        raise BadRequest(str(error)) from None


def _size(obj: Object | None) -> int:
    return 0 if obj is None else len(msgspec.json.encode(obj))
