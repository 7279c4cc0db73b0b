"""Policies and webhooks of users as rules: they act by the Session of a change, if it has one."""

from actors.apiserver.writes.admission.rule import EVERY_KIND, Rule, Step
from actors.apiserver.writes.change import CREATE, DELETE, UPDATE, Change


class Mutating(Rule):
    """MutatingAdmissionPolicies and mutating webhooks: together, as each may ask to be called again after others."""

    step, covers = Step.MUTATE, {EVERY_KIND: (CREATE, UPDATE)}

    def concerns(self, change: Change) -> bool:
        return change.session is not None and bool(change.session.hooks.mutates)

    async def apply(self, change: Change) -> None:
        await change.session.mutate(change)


class ValidatingPolicies(Rule):
    step, covers = Step.CHECK_VALID, {EVERY_KIND: (CREATE, UPDATE, DELETE)}

    def concerns(self, change: Change) -> bool:
        return change.session is not None and bool(change.session.hooks.validating)

    async def apply(self, change: Change) -> None:
        await change.session.check_policies(change)


class ValidatingWebhooks(Rule):
    """They are called at once: what they see, nothing changes any more."""

    step, covers = Step.CHECK_VALID, {EVERY_KIND: (CREATE, UPDATE, DELETE)}

    def concerns(self, change: Change) -> bool:
        return change.session is not None and bool(change.session.hooks.validating_webhooks)

    async def apply(self, change: Change) -> None:
        await change.session.check_webhooks(change)
