"""A stream's URL is good once and not for long; what clients send on channels is read or ignored."""

import pytest

from actors.runtime.model.errors import TooManyTickets
from actors.runtime.streaming.server import MOST, VALID_S, Tickets
from protocols.streams.channels import Size, exit_status, read_size


def test_a_ticket_is_good_once_and_for_a_while() -> None:
    now = 0.0
    tickets: Tickets[str] = Tickets(lambda: now)
    first, second = tickets.issue("first"), tickets.issue("second")
    assert (tickets.redeem(first), tickets.redeem(first), tickets.redeem("nonsense")) == ("first", None, None)
    now = VALID_S
    assert tickets.redeem(second) is None


def test_tickets_nobody_uses_do_not_pile_up() -> None:
    now = 0.0
    tickets: Tickets[int] = Tickets(lambda: now)
    for number in range(MOST):
        tickets.issue(number)
    with pytest.raises(TooManyTickets):
        tickets.issue(0)
    now = VALID_S
    assert tickets.redeem(tickets.issue(1)) == 1


def test_sizes_and_exit_codes() -> None:
    assert read_size(b'{"Width":80,"Height":24}\n') == Size(80, 24)
    assert read_size(b'{"Width":-1}') is None
    assert read_size(b"\xff") is None
    assert read_size(b'{"x":' + b"[" * 100_000) is None
    assert b'"Success"' in exit_status(0)
    assert b'"message":"3"' in exit_status(3)
