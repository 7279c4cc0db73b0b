"""Policies and webhooks of users as rules: they act by the Session of a change, if it has one."""

from actors.apiserver.writes.admission.rule import EVERY_KIND, Rule, Step
from actors.apiserver.writes.change import CONNECT, CREATE, DELETE, UPDATE, Change


class _HookRule(Rule):
    step, covers = Step.CHECK_VALID, {EVERY_KIND: (CREATE, UPDATE, DELETE, CONNECT)}

    def concerns(self, change: Change) -> bool:
        return change.session is not None


class Mutating(_HookRule):
    """MutatingAdmissionPolicies and mutating webhooks: together, as each may ask to be called again after others."""

    step, covers = Step.MUTATE, {EVERY_KIND: (CREATE, UPDATE)}

    async def apply(self, change: Change) -> None:
        await change.session.mutate()


class ValidatingPolicies(_HookRule):
    """Check a write by ValidatingAdmissionPolicies."""

    async def apply(self, change: Change) -> None:
        await change.session.check_policies()


class ValidatingWebhooks(_HookRule):
    """Check a write by webhooks, all called at once: nothing changes the object after them."""

    async def apply(self, change: Change) -> None:
        await change.session.check_webhooks()
