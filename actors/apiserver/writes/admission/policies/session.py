"""Admission of one write by policies and webhooks, in upstream's order: first what changes it, then what checks it.

Policies run where the write is computed. Webhooks need the event loop: a mutation that needs one raises Deferred, the
write loop waits for the answers, and the mutation runs again with them while its object has the same revision.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import msgspec

from actors.apiserver.api.errors import BadRequest, InternalError
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.workers import offload
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.writes.admission.policies.calling import Caller
from actors.apiserver.writes.admission.policies.evaluation import Input, request_of
from actors.apiserver.writes.admission.policies.index import DELETE, Hooks, PolicyHook, WebhookHook
from actors.apiserver.writes.admission.policies.matching import Write
from actors.apiserver.writes.admission.policies.mutating import MutationFailed, mutated, refused
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
from actors.apiserver.writes.loop import Deferred, Mutation
from actors.apiserver.writes.metadata import keep_server_fields
from actors.apiserver.writes.patches.json_patch import apply_json_patch
from actors.apiserver.writes.update import updated
from actors.apiserver.writes.validation import clean_changed
from protocols.cel.text.source import CelError
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import WrongType
from protocols.kube.errors import KubeError, StatusError
from protocols.kube.meta import Object
from protocols.kube.objects import fresh_copy, same

FIXED = ("name", "generateName", "namespace", "uid", "creationTimestamp", "resourceVersion", "managedFields")
"""Metadata that no policy or webhook changes."""


class Parts(msgspec.Struct, frozen=True):
    authorizer: Authorizer
    parameters: Parameters
    caller: Caller


class _Verdict(NamedTuple):
    """The outcome of a phase for the object at one revision: a changed object, or an error."""

    revision: str
    new: Object | None = None
    error: StatusError | None = None


class Session:
    """One write. `warnings` and `annotations` are complete once it is admitted."""

    def __init__(self, write: Write, target: Target, hooks: Hooks, parts: Parts, namespace: Object | None) -> None:
        self._write, self._target, self._hooks, self._parts = write, target, hooks, parts
        self._namespace = namespace
        self._mutated: _Verdict | None = None
        self._validated: _Verdict | None = None
        self._called = Findings()
        """Warnings and annotations of webhooks."""
        self._found = Findings()
        """Those of policies, of the last evaluation."""

    @property
    def warnings(self) -> list[str]:
        return list(dict.fromkeys((*self._called.warnings, *self._found.warnings)))

    @property
    def annotations(self) -> dict[str, str]:
        return {**self._called.annotations, **self._found.annotations}

    async def created(self, obj: Object) -> None:
        """Change a new object before its validation, in place. Raises StatusError."""
        if not self._hooks.mutates:
            return
        new = await self._mutate(fresh_copy(obj), None)
        if same(new, obj):
            return
        keep_server_fields(new["metadata"], obj["metadata"])
        _clean(new, {}, self._target)
        self._target.resource.strategy.default(new)
        obj.clear()
        obj.update(new)

    async def validated(self, obj: Object | None, old: Object | None = None) -> None:
        """Check an object that is ready to be stored, a body of a subresource, or a deletion. Raises StatusError."""
        if self._hooks.validating:
            await offload(_size(obj), partial(self._check, obj, old))
        if self._hooks.validating_webhooks:
            await self._ask_all(obj, old)

    def mutation(self, mutate: Mutation) -> Mutation:
        """Return `mutate` with admission of its result. The result also raises Deferred."""

        def admitted(old: Object) -> Object | None:
            before, revision = fresh_copy(old), str(old["metadata"].get("resourceVersion"))
            new = self._changed(mutate, old, before, revision)
            self._require(new, before, revision)
            return new

        return admitted

    def _changed(self, mutate: Mutation, old: Object, before: Object, revision: str) -> Object | None:
        verdict = self._mutated
        if verdict is None or verdict.revision != revision:
            new = mutate(old)
            if new is None or not self._hooks.mutates or self._write.operation == DELETE:
                return new
            raise Deferred(partial(self._resolve_change, revision, fresh_copy(new), before))
        if verdict.error is not None:
            raise verdict.error
        return fresh_copy(verdict.new or {})

    def _require(self, new: Object | None, before: Object, revision: str) -> None:
        shown = None if self._write.operation == DELETE else new
        if self._hooks.validating_webhooks:
            verdict = self._validated
            if verdict is None or verdict.revision != revision:
                raise Deferred(partial(self._resolve_check, revision, shown and fresh_copy(shown), before))
            if verdict.error is not None:
                raise verdict.error
        elif self._hooks.validating:
            self._check(shown, before)

    async def _resolve_change(self, revision: str, new: Object, before: Object) -> None:
        try:
            made = await self._mutate(fresh_copy(new), before)
            if not same(made, new):
                _clean(made, before, self._target)
                entries = new["metadata"].get("managedFields") or []
                made = updated(
                    self._target, made, fresh_copy(before), patching=True, owners=lambda obj, old, sent: entries
                )
            self._mutated = _Verdict(revision, made)
        except StatusError as error:
            self._mutated = _Verdict(revision, error=error)

    async def _resolve_check(self, revision: str, new: Object | None, before: Object) -> None:
        try:
            await self.validated(new, before)
            self._validated = _Verdict(revision)
        except StatusError as error:
            self._validated = _Verdict(revision, error=error)

    def _check(self, new: Object | None, old: Object | None) -> None:
        """Evaluate all validating policies. Raises the error of the first denial, BudgetSpent."""
        findings, given = Findings(), self._input()
        views = _Views(self._write.row, new, old)
        for hook in self._hooks.validating:
            for binding in self._matching(hook, new, old):
                evaluation = Evaluation(hook.policy, binding, given, findings)
                for data in self._data(hook, binding, given, views, evaluation.broken):
                    evaluation.run(data)
        self._found = findings
        if findings.denials:
            error = denied(self._write, new if new is not None else old, findings.denials)
            error.warnings = self.warnings
            raise error

    def _matching(self, hook: PolicyHook, new: Object | None, old: Object | None) -> Iterable[Binding]:
        space, row = self._namespace or {}, hook.row
        if not hook.policy.match.selects(self._write, row, new, old, space):
            return
        for binding in hook.bindings:
            if binding.match is None or (
                binding.match.row_of((row, self._write.row), self._write.subresource, self._write.operation)
                and binding.match.selects(self._write, row, new, old, space)
            ):
                yield binding

    def _data(
        self, hook: PolicyHook, binding: Binding, given: Input, views: "_Views", broken: Callable[[str], None]
    ) -> Iterable[dict[str, Any]]:
        try:
            found = self._parts.parameters.of(hook.policy.kind, binding.reference, self._write.namespace)
        except ParametersMissing as error:
            broken(str(error))
            return
        new, old = views.of(hook.row)
        request = request_of(self._write, hook.row, new, old)
        for params in found:
            yield given.data(request, new, old, params)

    def _input(self) -> Input:
        return Input(self._write, self._parts.authorizer, self._namespace)

    async def _mutate(self, obj: Object, old: Object | None) -> Object:
        """Return the object after all policies and webhooks that change it. Raises StatusError.

        Those that ask for it are called a second time if a later one changed the object.
        """
        fixed = {key: obj["metadata"].get(key) for key in FIXED}
        steps: list[PolicyHook | WebhookHook] = [*self._hooks.mutating, *self._hooks.mutating_webhooks]
        last = -1
        for number, step in enumerate(steps):
            obj, changed = await self._step(step, obj, old, fixed)
            last = number if changed else last
        for step in (step for step in steps[: max(0, last)] if _reinvoked(step)):
            obj, _ = await self._step(step, obj, old, fixed)
        return obj

    async def _step(
        self, step: PolicyHook | WebhookHook, obj: Object, old: Object | None, fixed: Object
    ) -> tuple[Object, bool]:
        if isinstance(step, PolicyHook):
            made = await offload(_size(obj), partial(self._apply, step, obj, old))
        else:
            made = await self._ask(step, obj, old) or obj
        if made is obj or not isinstance(made.get("metadata"), dict):
            return obj, False
        made["metadata"].update({key: value for key, value in fixed.items() if value is not None})
        made["apiVersion"], made["kind"] = obj["apiVersion"], obj["kind"]
        return made, not same(made, obj)

    def _apply(self, hook: PolicyHook, obj: Object, old: Object | None) -> Object:
        """Apply one mutating policy with all its bindings. Raises PolicyRefused, BudgetSpent."""
        given, policy = self._input(), hook.policy
        for binding in self._matching(hook, obj, old):
            faults: list[str] = []
            # The mutations see, and change, the object in the version of the request.
            same_version = PolicyHook(policy, hook.bindings, self._write.row)
            for data in self._data(same_version, binding, given, _Views(self._write.row, obj, old), faults.append):
                try:
                    if given.matches(policy.conditions, policy.scope._replace(variables=()), data):
                        obj = mutated(policy, given, {**data, "object": obj}, self._write)
                except (CelError, MutationFailed) as error:
                    faults.append(str(error))
            if faults and not policy.ignores:
                raise refused(policy, binding, faults[0], self._write)
        return obj

    async def _ask_all(self, new: Object | None, old: Object | None) -> None:
        """Call all validating webhooks at once. Raises the error of the first one that does not allow the write."""
        asked = (self._ask(hook, new, old) for hook in self._hooks.validating_webhooks)
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _ask(self, hook: WebhookHook, new: Object | None, old: Object | None) -> Object | None:
        """Call a webhook if it matches; return the object that it changed. Raises StatusError."""
        webhook, row, views = hook.webhook, hook.row, _Views(self._write.row, new, old)
        if not webhook.match.selects(self._write, row, new, old, self._namespace or {}):
            return None
        shown, before = views.of(row)
        try:
            if not await offload(_size(new), partial(self._holds, hook, row, shown, before)):
                return None
            uid, review = review_of(webhook, self._write, row, shown, before)
            raw = await self._parts.caller.call(webhook, review)
            answer = await offload(len(raw), partial(read_answer, raw, uid, webhook.version))
            if not self._patches(webhook, answer, shown):
                return None
            return views.back(row, await offload(len(raw), partial(apply_json_patch, shown or {}, answer.patch)))
        except (WebhookFailed, CelError, KubeError) as error:
            if isinstance(error, StatusError):
                raise
            if webhook.ignores:
                self._called.annotate(f"failed-open.{webhook.name}", str(error)[:1024])
                return None
            text = "" if str(error).startswith("received ") else "failed to call webhook: "
            raise InternalError(f'failed calling webhook "{webhook.name}": {text}{error}') from None

    def _holds(self, hook: WebhookHook, row: Served, new: Object | None, old: Object | None) -> bool:
        """Return True if the match conditions hold. Raises EvaluationError."""
        from protocols.cel.policies import Scope

        if not hook.webhook.conditions:
            return True
        given = self._input()
        data = given.data(request_of(self._write, row, new, old), new, old, None)
        return given.matches(hook.webhook.conditions, Scope(), data)

    def _patches(self, webhook: Webhook, answer: Answer, obj: Object | None) -> bool:
        """Take warnings and annotations; return True if the answer has a patch. Raises ApiError, WebhookFailed."""
        self._called.warnings += answer.warnings
        for key, value in answer.annotations.items():
            self._called.annotate(f"{webhook.name}/{key}", value)
        if not answer.allowed:
            raise rejection(webhook, answer.status)
        if answer.patch is None:
            return False
        if not webhook.mutating or obj is None:
            raise WebhookFailed("received invalid webhook response: a patch where none is allowed")
        return True


class _Views:
    """The objects of a write in the versions that rules cover."""

    def __init__(self, row: Served, new: Object | None, old: Object | None) -> None:
        self._row, self._new, self._old = row, new, old

    def of(self, row: Served) -> tuple[Object | None, Object | None]:
        if row is self._row:
            return self._new, self._old
        return _converted(self._new, self._row, row), _converted(self._old, self._row, row)

    def back(self, row: Served, obj: Object | None) -> Object | None:
        """Return a patched object of `row` in the version of the write. Raises WebhookFailed for one of other shape."""
        if row is self._row:
            return obj
        try:
            return _converted(obj, row, self._row)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise WebhookFailed(f"received invalid webhook response: the patched object is no {row.kind}") from None


def _converted(obj: Object | None, row: Served, to: Served) -> Object | None:
    return obj and to.converter.to_version(row.converter.to_stored(fresh_copy(obj)))


def _reinvoked(step: PolicyHook | WebhookHook) -> bool:
    if isinstance(step, PolicyHook):
        return step.policy.spec.get("reinvocationPolicy") == "IfNeeded"
    return step.webhook.reinvoked


def _clean(new: Object, old: Object, target: Target) -> None:
    """Remove fields that the kind does not have. Raises BadRequest for values of other types."""
    try:
        clean_changed(new, old, target)
    except WrongType as error:
        raise BadRequest(str(error)) from None


def _size(obj: Object | None) -> int:
    return 0 if obj is None else len(msgspec.json.encode(obj))
