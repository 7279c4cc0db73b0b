"""Who has to go before one more stranger may enter."""

from protocols.serving import Limits, Lobby

LIMITS = Limits(in_all=5, per_address=3)


def filled(*addresses: str) -> Lobby[int]:
    lobby: Lobby[int] = Lobby(LIMITS)
    for number, address in enumerate(addresses):
        lobby.enter(number, address)
    return lobby


def test_lobby_with_room_asks_nobody_to_leave() -> None:
    assert filled().excess("a") is None
    assert filled("a", "a").excess("a") is None


def test_lobby_with_too_many_of_an_address_names_its_oldest() -> None:
    lobby = filled("b", "a", "a", "a")
    assert lobby.excess("a") == 1
    assert lobby.excess("b") is None


def test_lobby_with_too_many_in_all_names_the_oldest() -> None:
    assert filled("b", "a", "a", "c", "d").excess("e") == 0


def test_lobby_forgets_who_left_and_its_address() -> None:
    lobby = filled("a", "a", "a")
    lobby.leave(0)
    lobby.leave(0)
    assert lobby.excess("a") is None
    for visit in (1, 2):
        lobby.leave(visit)
    assert len(lobby) == 0
    assert lobby.oldest() is None
    assert lobby._by_address == {}
