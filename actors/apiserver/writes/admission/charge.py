"""The charge of a write to the quotas of its namespace, as a rule."""

from actors.apiserver.writes.admission.rule import EVERY_KIND, Rule, Step
from actors.apiserver.writes.change import CREATE, UPDATE, Change


class Quotas(Rule):
    """Charge the quotas of the object's namespace; the last rule, since nothing takes a charge back."""

    step, covers = Step.CHARGE, {EVERY_KIND: (CREATE, UPDATE)}

    def concerns(self, change: Change) -> bool:
        quotas, target = self.given.quotas, change.target
        if quotas is None:
            return False
        return quotas.concerns(target) if change.operation == CREATE else quotas.counts_updates(target)

    async def apply(self, change: Change) -> None:
        assert self.given.quotas is not None
        await self.given.quotas.charge(change.target, change.sent, change.old, dry_run=change.options.dry_run)
