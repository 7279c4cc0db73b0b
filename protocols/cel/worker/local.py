"""Compute answers: in the worker, and in programs that have none, such as tests.

Whatever the engine raises becomes a fault of the expression.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from protocols.cel import policies
from protocols.cel.costs.estimate import cost_of
from protocols.cel.evaluation.running import CALL_LIMIT, CostBudget
from protocols.cel.libraries import authorizing
from protocols.cel.programs import compiled
from protocols.cel.rules.check import Checker, program
from protocols.cel.rules.values import converted
from protocols.cel.text.source import SPENT, CelError, CompileError, EvaluationError
from protocols.cel.worker.messages import (
    Answer,
    Checked,
    CheckedRule,
    CheckedRules,
    CheckPolicy,
    CheckRules,
    CheckSelector,
    DriverDevices,
    Evaluated,
    EvaluatePolicy,
    EvaluateRules,
    Forgotten,
    Outcome,
    Question,
    RuleGroup,
    RuleText,
    Select,
    Selected,
    Skipped,
    Undecided,
    Value,
    WireDevice,
    WorkerFault,
    fault_of,
)
from protocols.dra.types import PLAIN, Attribute, Capacity, Device, Extras
from protocols.kube.quantity import Quantity

CANCELLED = "operation cancelled"
PART_S = 0.2
"""Time after which an answer about devices is given as far as it got."""
KEPT = 65_536
"""Devices that a worker keeps."""
ASKED = 256
"""Checks of the authorizer in one evaluation."""
_SHARED = Extras(shared=True)
Begin = Callable[[str], None]
"""Called with each expression before it reaches the engine. Raises Ended."""
PolicyPrograms = Callable[[str, policies.PolicyScope], policies.PolicyProgram]
"""Return the program of a policy's expression. Raises CompileError."""


def nothing(source: str) -> None:
    """Let every expression pass."""


def _faulty(error: Exception, kind: type[CelError]) -> WorkerFault:
    if isinstance(error, CelError):
        return fault_of(error)
    text = " ".join(str(error).split())[:512]
    return fault_of(kind(f"{type(error).__name__}: {text}"))


def _device_of(wire: WireDevice) -> Device:
    attributes = {name: Attribute(kind, value) for name, (kind, value) in wire.attributes.items()}
    capacity = {name: Capacity(Quantity(int(nanos))) for name, nanos in wire.capacity.items()}
    return Device("", attributes, capacity, extras=_SHARED if wire.shared else PLAIN)


def wire_of(device: Device) -> WireDevice:
    """Return the part of a device that a worker gets."""
    attributes = {name: (each.kind, each.value) for name, each in device.attributes.items()}
    capacity = {name: str(each.value.nanos) for name, each in device.capacity.items()}
    return WireDevice(attributes, capacity, device.extras.shared)


class Engine:
    """Answers questions, one after the other; keeps the devices it was sent last."""

    def __init__(
        self, begin: Begin = nothing, program: PolicyPrograms = policies.program, cost: int = policies.COST
    ) -> None:
        """`cost`: limit of all expressions of one policy, if it is below upstream's."""
        self._begin, self._program, self._cost = begin, program, cost
        self.spent = False
        """True if the last policy reached the limit."""
        self._devices: OrderedDict[int, Device] = OrderedDict()

    def answer(self, question: Question) -> Answer:
        try:
            match question:
                case CheckSelector():
                    return self._check_selector(question)
                case CheckPolicy():
                    return self._check_policy(question)
                case CheckRules():
                    return self._check_rules(question)
                case Select():
                    return self._select(question)
                case EvaluatePolicy():
                    return self._evaluate_policy(question)
                case EvaluateRules():
                    return self._evaluate_rules(question)
        except MemoryError:
            raise
        except Exception as error:
            return _faulty(error, CompileError)

    def _check_selector(self, question: CheckSelector) -> Answer:
        self._begin(question.source)
        program = compiled(question.source)
        return Checked(program.serialized, program.cost)

    def _check_policy(self, question: CheckPolicy) -> Answer:
        self._begin(question.source)
        scope = policies.PolicyScope(*question.scope)
        policies.check(question.source, scope, question.results)
        serialized = policies.program(question.source, scope).serialized
        return Checked(serialized, cost_of(serialized))

    def _check_rules(self, question: CheckRules) -> Answer:
        checker = Checker(question.of, max(1, question.count))
        return CheckedRules(tuple(self._check_rule(checker, rule) for rule in question.rules))

    def _check_rule(self, checker: Checker, rule: RuleText) -> CheckedRule | WorkerFault:
        try:
            self._begin(rule.text)
            return CheckedRule(*checker.check(rule.text, rule.optional_old))
        except MemoryError:
            raise
        except Exception as error:
            return _faulty(error, CompileError)

    def _select(self, question: Select) -> Answer:
        devices = self._held(question.devices)
        if devices is None:
            return Forgotten()
        self._begin(question.source)
        matches, driver = compiled(question.source).matches, question.devices.driver
        end, outcomes = time.monotonic() + PART_S, list[bool | WorkerFault]()
        for device in devices:
            try:
                outcomes.append(matches(driver, device))
            except MemoryError:
                raise
            except Exception as error:
                outcomes.append(_faulty(error, EvaluationError))
            if time.monotonic() > end:
                break
        return Selected(tuple(outcomes))

    def _held(self, sent: DriverDevices) -> list[Device] | None:
        for number, wire in sent.new.items():
            self._devices[number] = _device_of(wire)
        try:
            for number in sent.numbers:
                self._devices.move_to_end(number)
        except KeyError:
            return None
        held = [self._devices[number] for number in sent.numbers]
        while len(self._devices) > KEPT:
            self._devices.popitem(last=False)
        return held

    def _evaluate_policy(self, question: EvaluatePolicy) -> Answer:
        decisions = _Decisions(dict(question.decisions))
        conditions, others = self._budget(policies.CONDITIONS_COST), self._budget(policies.COST)
        end = time.monotonic() + question.seconds
        data = {
            **question.data,
            authorizing.AUTHORIZER: authorizing.START,
            authorizing.REQUEST_RESOURCE: authorizing.request_resource(
                question.data.get(authorizing.REQUEST_RESOURCE) or {}
            ),
        }
        outcomes: list[Outcome] = []
        with authorizing.deciding(decisions.decide):
            for number, expression in enumerate(question.expressions):
                if number == question.gates and not _passed(outcomes):
                    outcomes += [Skipped()] * (len(question.expressions) - number)
                    break
                budget = conditions if number < question.gates else others
                outcomes.append(
                    self._policy_value(expression.source, policies.PolicyScope(*expression.scope), data, end, budget)
                )
        self.spent = min(conditions.left, others.left) <= 0
        if decisions.asked:
            return Undecided(tuple(decisions.asked))
        return Evaluated(tuple(outcomes))

    def _budget(self, units: int) -> CostBudget:
        return CostBudget(min(self._cost, units), min(self._cost, CALL_LIMIT))

    def _policy_value(
        self, source: str, scope: policies.PolicyScope, data: dict[str, Any], end: float, budget: CostBudget
    ) -> Outcome:
        if budget.left < 0 or time.monotonic() > end:
            return WorkerFault("evaluation", SPENT)
        try:
            self._begin(source)
            return Value(self._program(source, scope).value(data, budget))
        except MemoryError:
            raise
        except Exception as error:
            return _faulty(error, EvaluationError)

    def _evaluate_rules(self, question: EvaluateRules) -> Answer:
        end = time.monotonic() + question.seconds
        budget, outcomes = CostBudget(policies.COST), list[Outcome]()
        total = sum(2 * len(group.rules) for group in question.groups)
        for group in question.groups:
            if not self._evaluate_group(group, end, budget, outcomes):
                break
        return Evaluated((*outcomes, *[Skipped()] * (total - len(outcomes))))

    def _evaluate_group(self, group: RuleGroup, end: float, budget: CostBudget, outcomes: list[Outcome]) -> bool:
        """Append the outcomes; return False once the budget is spent."""
        this = converted(group.value, group.of)
        old = converted(group.old, group.of) if group.has_old and group.old is not None else None
        for rule, message in group.rules:
            if budget.left < 0 or time.monotonic() > end:
                outcomes += [WorkerFault("evaluation", SPENT), Skipped()]
                return False
            held = self._rule_value(rule, this, old, group.has_old, budget)
            spent = isinstance(held, WorkerFault) and held.text.startswith(CANCELLED)
            wanted = message and isinstance(held, Value) and held.value is not True
            text = self._rule_value(RuleText(message), this, old, group.has_old, budget) if wanted else Skipped()
            outcomes += [held, text]
            if spent:
                return False
        return True

    def _rule_value(self, rule: RuleText, this: Any, old: Any, has_old: bool, budget: CostBudget) -> Outcome:
        try:
            self._begin(rule.text)
            value = program(rule.text, rule.optional_old).value(this, old, has_old, budget)
        except MemoryError:
            raise
        except Exception as error:
            return _faulty(error, EvaluationError)
        return Value(value if isinstance(value, bool | str) else None)


def _passed(outcomes: list[Outcome]) -> bool:
    return all(isinstance(outcome, Value) and outcome.value is True for outcome in outcomes)


class _Decisions:
    """Decisions known so far. Checks without one count as denied, so that one evaluation asks for many at once."""

    def __init__(self, known: Mapping[str, bool]) -> None:
        self._known = known
        self.asked: dict[str, None] = {}

    def decide(self, asked: Mapping[str, str]) -> tuple[bool, str]:
        key = msgspec.json.encode(asked, order="sorted").decode()
        if (known := self._known.get(key)) is not None:
            return known, ""
        if len(self._known) + len(self.asked) >= ASKED:
            raise ValueError(f"more than {ASKED} checks of the authorizer in one evaluation")
        self.asked[key] = None
        return False, ""
