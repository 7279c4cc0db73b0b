"""docs/explanation/device-scenarios.md names tests: all of them exist."""

from tests.support.pages import named, page, written

PAGE = page("device-scenarios.md")


def test_every_test_on_the_page_of_device_scenarios_exists() -> None:
    assert len(named(PAGE)) > 50
    assert not named(PAGE) - written()
