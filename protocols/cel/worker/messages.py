"""Questions of a process to its CEL worker, and the answers.

Each question is answered as a whole and names the expressions it evaluates, so that the worker can blame one of them.
"""

import math
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from protocols.cel.rules.values import CelType
from protocols.cel.text.source import CelError, CompileError, EvaluationError, TooComplex, TooLong

EVALUATE = "cel.evaluate"
"""RPC Work -> Answers, of the actor `cel`."""


def worker_of(instance: str) -> str:
    """Return the name of the worker that serves an instance."""
    return f"cel-{instance}"


class WorkerFault(msgspec.Struct, frozen=True, tag="fault"):
    """An error of this package, or of the worker about an expression (kind `ended`)."""

    kind: str
    text: str
    again_s: float = 0.0
    """Seconds until an expression of kind `ended` is evaluated again."""


class EvaluationEnded(EvaluationError):
    """Raised for an expression that overran, grew or killed the worker, and while it is in quarantine for that."""

    def __init__(self, text: str, again_s: float = 0.0) -> None:
        super().__init__(text)
        self.again_s = again_s


KINDS: dict[str, type[CelError]] = {
    "compile": CompileError, "too long": TooLong, "too complex": TooComplex, "evaluation": EvaluationError,
}  # fmt: skip
_NAMES = {kind: name for name, kind in KINDS.items()}


def fault_of(error: CelError) -> WorkerFault:
    """Return an error as the answer that carries it."""
    if isinstance(error, EvaluationEnded):
        return WorkerFault("ended", str(error), error.again_s)
    return WorkerFault(_NAMES.get(type(error), "evaluation"), str(error))


def error_of(fault: WorkerFault) -> CelError:
    """Return the error that an answer carries."""
    kind = KINDS.get(fault.kind)
    return EvaluationEnded(fault.text, fault.again_s) if kind is None else kind(fault.text)


class CheckSelector(msgspec.Struct, frozen=True, tag="check-selector"):
    """Compile a selector. Answer: Checked."""

    source: str


class CheckPolicy(msgspec.Struct, frozen=True, tag="check-policy"):
    """Check an expression of a policy in its scope. Answer: Checked."""

    source: str
    scope: tuple[bool, bool, tuple[tuple[str, str], ...]]
    """The fields of protocols.cel.policies.PolicyScope."""
    results: tuple[str, ...]


class RuleText(msgspec.Struct, frozen=True):
    """One expression of a rule of a custom resource."""

    text: str
    optional_old: bool = False


class CheckRules(msgspec.Struct, frozen=True, tag="check-rules"):
    """Compile the rules at one path of a schema. Answer: CheckedRules."""

    of: CelType
    count: int
    """Most values at this path in one object."""
    rules: tuple[RuleText, ...]


class WireDevice(NamedTuple):
    """The part of a device that selectors read; amounts are texts, since they exceed 64 bits."""

    attributes: dict[str, tuple[str, bool | int | str]]
    capacity: dict[str, str]
    shared: bool


class DriverDevices(msgspec.Struct, frozen=True):
    """Devices of one driver, by numbers under which the worker keeps them: each one is sent once."""

    driver: str
    numbers: tuple[int, ...]
    new: dict[int, WireDevice] = {}


class Select(msgspec.Struct, frozen=True, tag="select"):
    """Evaluate a selector for devices. Answer: Selected, or Forgotten."""

    source: str
    devices: DriverDevices


class Expression(NamedTuple):
    """An expression of a policy; `scope` has the fields of PolicyScope."""

    source: str
    scope: tuple[bool, bool, tuple[tuple[str, str], ...]]


class EvaluatePolicy(msgspec.Struct, frozen=True, tag="evaluate-policy"):
    """Evaluate expressions of one policy with the values of one write. Answer: Evaluated, or Undecided."""

    expressions: tuple[Expression, ...]
    data: dict[str, Any]
    gates: int = 0
    """The first so many are conditions, with a budget of their own; those behind need all of them to be true."""
    seconds: float = 1.0
    decisions: tuple[tuple[str, bool], ...] = ()
    """The authorizer's decisions, by the JSON of what was asked."""


class RuleGroup(msgspec.Struct, frozen=True):
    """Rules about one value."""

    of: CelType
    value: Any
    old: Any
    has_old: bool
    rules: tuple[tuple[RuleText, str], ...]
    """With the messageExpression, which is evaluated if the rule does not hold."""


class EvaluateRules(msgspec.Struct, frozen=True, tag="evaluate-rules"):
    """Evaluate all rules of one object. Answer: Evaluated, with two outcomes a rule: its own and its message's."""

    groups: tuple[RuleGroup, ...]
    seconds: float = 1.0


Question = CheckSelector | CheckPolicy | CheckRules | Select | EvaluatePolicy | EvaluateRules


class Checked(msgspec.Struct, frozen=True, tag="checked"):
    """Answer: the expression compiled; `serialized` is the checked tree, empty where nobody needs it."""

    serialized: bytes = b""
    cost: int = 0


class CheckedRule(msgspec.Struct, frozen=True, tag="checked-rule"):
    """A compiled rule: CEL's name of its result's type, and its worst cost."""

    result: str
    cost: int


class CheckedRules(msgspec.Struct, frozen=True, tag="checked-rules"):
    """Answer: one entry for each rule asked about, in order."""

    rules: tuple[CheckedRule | WorkerFault, ...]


class Selected(msgspec.Struct, frozen=True, tag="selected"):
    """Answer: outcomes for the first devices of the request; a part of them if the evaluation takes long."""

    outcomes: tuple[bool | WorkerFault, ...]


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten"):
    """The worker does not have all of the devices, or no longer: send them."""


class Value(msgspec.Struct, frozen=True, tag="value"):
    """The result of one expression, as JSON has it."""

    value: Any = None


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """A condition, or the budget, ended the evaluation before this expression."""


Outcome = Value | WorkerFault | Skipped


class Evaluated(msgspec.Struct, frozen=True, tag="evaluated"):
    """Answer: one outcome for each expression asked about, in order."""

    outcomes: tuple[Outcome, ...]


class Undecided(msgspec.Struct, frozen=True, tag="undecided"):
    """Checks of the authorizer that were asked and are not in `decisions`, as JSON."""

    asked: tuple[str, ...]


Answer = Checked | CheckedRules | Selected | Forgotten | Evaluated | Undecided | WorkerFault


class Batch(msgspec.Struct, frozen=True):
    """Work for one turn of the engine, with the expressions that it must not evaluate and why."""

    questions: tuple[bytes, ...]
    banned: dict[str, tuple[str, float]] = {}


class Work(msgspec.Struct, frozen=True):
    """Encoded questions of one owner, which share a turn."""

    questions: tuple[bytes, ...]
    owner: str = ""
    """User or namespace for whom it is done: quarantine and fairness are by owner."""


class Answers(msgspec.Struct, frozen=True):
    """Encoded answers to the questions of one batch, in order."""

    answers: tuple[bytes, ...]


def _plain(value: Any) -> Any:
    """Encode what a result may be besides JSON: it is shown, never computed with."""
    return str(value)


_encode = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def encode(message: Any) -> bytes:
    """Encode a question, an answer or a batch."""
    try:
        return _encode(message)
    except OverflowError:
        return _encode(_within_64_bits(message))


def _within_64_bits(value: Any) -> Any:
    """Return a copy whose integers beyond 64 bits are floats, as Go reads them."""
    if isinstance(value, msgspec.Struct):
        return replace(value, **{name: _within_64_bits(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, dict):
        return {key: _within_64_bits(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_within_64_bits(part) for part in value]
    if not isinstance(value, int) or -(2**63) <= value < 2**63:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


_questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)
decode_question = _questions.decode
decode_answer = _answers.decode
