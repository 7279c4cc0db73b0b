"""The right to create, for a PUT or an apply that finds nothing: their verb has another right."""

from actors.apiserver.writes.admission.rule import EVERY_KIND, Rule, Step
from actors.apiserver.writes.change import CREATE, Change


class CreationRight(Rule):
    """Comes before rules that look something up for the author."""

    step, covers = Step.COMPLETE, {EVERY_KIND: (CREATE,)}

    def concerns(self, change: Change) -> bool:
        return change.target.verb != "create"

    def apply(self, change: Change) -> None:
        self.given.authorizer.check(change.author, change.attributes)
