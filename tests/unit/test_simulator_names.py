"""What `nodeplane plugin` and `dra-driver` are called when nobody says it."""

import pytest

from actors.simulator import actor
from supervisor.cli.commands import parser_of


@pytest.mark.parametrize(("words", "resource"), [([], "example.com/gpu"), (["--resource", "a.b/c"], "a.b/c")])
def test_plugin_without_resource_has_the_one_of_the_help(words: list[str], resource: str) -> None:
    assert actor.plugin_script(parser_of([actor]).parse_args(["plugin", *words])).resource == resource


@pytest.mark.parametrize(("words", "driver"), [([], "gpu.example.com"), (["--driver", "a.b"], "a.b")])
def test_driver_without_name_has_the_one_of_the_help(words: list[str], driver: str) -> None:
    assert actor.driver_script(parser_of([actor]).parse_args(["dra-driver", *words])).driver == driver
