"""Is a history of one key linearizable? A search as Wing and Gong describe it, with the memory of Lowe's. Pure.

An operation takes effect at one moment between its call and its return. One whose answer was lost has no return: it may
take effect at any later moment, also after all others, which is as if it never had.
"""

import math
from dataclasses import dataclass

State = bytes | None
"""The key's value. Every write has a value of its own, so a value also tells which write it is of."""


@dataclass(frozen=True)
class Operation:
    """`put`, `get`, `cas` (write `value` if the key has `expected`), `delete`, `release` (delete if it has `value`)."""

    kind: str
    called: float
    returned: float = math.inf
    """Infinite when the answer was lost."""
    value: State = None
    expected: State = None
    seen: State = None
    """What a get or a delete found, or a cas that was refused."""
    ok: bool = True
    """Whether the cas was done."""

    @property
    def lost(self) -> bool:
        return math.isinf(self.returned)


def step(state: State, operation: Operation) -> tuple[bool, State]:
    """Whether the operation may answer as it did in this state, and the state after it."""
    match operation.kind:
        case "put":
            return True, operation.value
        case "get":
            return state == operation.seen, state
        case "delete":
            return operation.lost or operation.seen == state, None
        case "release":
            return True, None if state == operation.value else state
        case _:
            return _swap(state, operation)


def _swap(state: State, operation: Operation) -> tuple[bool, State]:
    done = state == operation.expected
    if operation.lost or (operation.ok and done):
        return True, operation.value if done else state
    return not operation.ok and not done and state == operation.seen, state


class Node:
    """A call, or a return, in a list from which operations are lifted out and put back."""

    def __init__(self, number: int, match: "Node | None") -> None:
        self.number = number
        self.match = match
        """Of a call its return; None for a return."""
        self.before: Node | None = None
        self.after: Node | None = None

    def lift(self) -> None:
        for node in (self, self.match):
            if node is not None and node.before is not None:
                node.before.after = node.after
                if node.after is not None:
                    node.after.before = node.before

    def put_back(self) -> None:
        for node in (self.match, self):
            if node is not None and node.before is not None:
                node.before.after = node
                if node.after is not None:
                    node.after.before = node


def linearizable(operations: list[Operation], state: State = None) -> bool:
    """Whether some order of the operations explains every answer."""
    relevant = _observed(operations)
    head = _timeline(relevant)
    done, tried, path = 0, set(), []
    node = head.after
    while head.after is not None:
        if node is not None and node.match is not None:
            legal, then = step(state, relevant[node.number])
            mark = (done | 1 << node.number, then)
            if legal and mark not in tried:
                tried.add(mark)
                path.append((node, done, state))
                done, state = mark
                node.lift()
                node = head.after
            else:
                node = node.after
        elif not path:
            return False
        else:
            # Someone has returned before anything that is left could be next: the last choice was wrong.
            node, done, state = path.pop()
            node.put_back()
            node = node.after
    return True


def _observed(operations: list[Operation]) -> list[Operation]:
    """Lost writes whose value nothing else depends on explain nothing; without them the search is short."""
    wanted = {operation.seen for operation in operations} | {operation.expected for operation in operations}
    wanted |= {operation.value for operation in operations if operation.kind == "release"}
    return [
        operation
        for operation in operations
        if not (
            operation.lost
            and (operation.kind == "get" or (operation.kind in ("put", "cas") and operation.value not in wanted))
        )
    ]


def _timeline(operations: list[Operation]) -> Node:
    moments: list[tuple[float, int, Node]] = []
    for number, operation in enumerate(operations):
        returned = Node(number, None)
        moments += [(operation.called, 0, Node(number, returned)), (operation.returned, 1, returned)]
    head = last = Node(-1, None)
    for _, _, node in sorted(moments, key=lambda moment: moment[:2]):
        last.after, node.before = node, last
        last = node
    return head
