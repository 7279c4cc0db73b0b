"""Ask the CEL worker from pure code, which does not wait for it.

Pure code calls `answer`. On a miss the question is noted, and NotAnswered is raised, or a placeholder returned where
the code can go on and ask more. The shell runs pure code with `client.settled`: it sends the questions that were noted
and runs the code again, until nothing is missing; a result found with placeholders is dropped. A process without a
worker computes answers at once.
"""

from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar

from protocols.bounded import BoundedMap
from protocols.cel.worker.messages import (
    Answer,
    CheckPolicy,
    CheckSelector,
    EvaluatePolicy,
    Question,
    WorkerFault,
    encode,
    error_of,
)
from protocols.errors import NodeplaneError

if TYPE_CHECKING:
    from protocols.cel.worker.short import ShortPolicies

CHECKS = 4096
"""Answers to checks of single expressions that a process keeps; they do not depend on data."""


class NotAnswered(NodeplaneError, http=503, grpc="UNAVAILABLE"):
    """Raised in pure code for a question without an answer; to users only where nothing asks the worker."""

    def __init__(self) -> None:
        super().__init__("an expression was not evaluated; try again")


class Asking:
    """Answers known to one run of pure code, and the questions that it asked beyond them."""

    def __init__(self) -> None:
        self.answers: dict[bytes, Answer] = {}
        self.missing: dict[bytes, Question] = {}


current: ContextVar[Asking | None] = ContextVar("asking", default=None)


class Process:
    """The worker of this process, if it has one, and its answers to checks."""

    remote: ClassVar[bool] = False
    checks: ClassVar[BoundedMap[bytes, Answer]] = BoundedMap(CHECKS)
    short: ClassVar["ShortPolicies | None"] = None


def _known(question: Question) -> Answer | None:
    if not Process.remote:
        from protocols.cel.worker.local import Engine

        return Engine().answer(question)
    asking = current.get()
    if isinstance(question, EvaluatePolicy) and (short_answer := _short(question, asking)) is not None:
        return short_answer
    return _answered(question, asking)


def _answered(question: Question, asking: Asking | None) -> Answer | None:
    key = encode(question)
    cached = Process.checks.get(key)
    if cached is not None:
        return cached
    if asking is None:
        raise NotAnswered
    if (cached := asking.answers.get(key)) is None:
        asking.missing[key] = question
    return cached


def _short(question: EvaluatePolicy, asking: Asking | None) -> Answer | None:
    """Evaluate a question of short expressions here; those not seen before are checked with the next questions."""
    from protocols.cel.worker.short import ShortPolicies

    if Process.short is None:
        Process.short = ShortPolicies()
    for expression in Process.short.unknown(question):
        if (checked := _answered(CheckPolicy(expression.source, expression.scope, ()), asking)) is not None:
            Process.short.add(expression, checked)
    return Process.short.answer(question)


def answer(question: Question) -> Answer | None:
    """Return the answer, or None if it is not known yet: the caller may go on. Raises CelError."""
    reply = _known(question)
    if isinstance(reply, WorkerFault):
        raise error_of(reply)
    return reply


def remember(key: bytes, question: Question, found: Answer) -> None:
    """Keep the answer to a check for the whole process, unless the worker died of it."""
    if isinstance(question, CheckSelector | CheckPolicy) and not (
        isinstance(found, WorkerFault) and found.kind == "ended"
    ):
        Process.checks[key] = found
