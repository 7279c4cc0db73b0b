"""Who has to go before one more stranger may enter."""

from protocols.serving.unauthenticated import UnauthenticatedConnections, UnauthenticatedLimits

LIMITS = UnauthenticatedLimits(in_all=5, per_address=3)


def filled(*addresses: str) -> UnauthenticatedConnections[int]:
    unauthenticated: UnauthenticatedConnections[int] = UnauthenticatedConnections(LIMITS)
    for number, address in enumerate(addresses):
        unauthenticated.enter(number, address)
    return unauthenticated


def test_unauthenticated_with_room_asks_nobody_to_leave() -> None:
    assert filled().excess("a") is None
    assert filled("a", "a").excess("a") is None


def test_unauthenticated_with_too_many_of_an_address_names_its_oldest() -> None:
    unauthenticated = filled("b", "a", "a", "a")
    assert unauthenticated.excess("a") == 1
    assert unauthenticated.excess("b") is None


def test_unauthenticated_with_too_many_in_all_names_the_oldest() -> None:
    assert filled("b", "a", "a", "c", "d").excess("e") == 0


def test_unauthenticated_forgets_who_left_and_its_address() -> None:
    unauthenticated = filled("a", "a", "a")
    unauthenticated.leave(0)
    unauthenticated.leave(0)
    assert unauthenticated.excess("a") is None
    for visit in (1, 2):
        unauthenticated.leave(visit)
    assert len(unauthenticated) == 0
    assert unauthenticated.oldest() is None
    assert unauthenticated._by_address == {}
