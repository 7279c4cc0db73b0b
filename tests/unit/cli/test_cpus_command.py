"""`nodeplane cpus`."""

from protocols.messages.devices import AllocatedMemory, ContainerAllocation, Machine, Placement, PodAllocation
from supervisor.cli.inspect.devices import cpu_cells, cpu_view_of

GIB = 1 << 30


def test_each_container_then_the_pool_and_what_is_reserved() -> None:
    memory = (AllocatedMemory("hugepages-2Mi", 4 << 20, (0,)), AllocatedMemory("memory", GIB, (0, 1)))
    pods = {
        "u2": PodAllocation("u2", "ns", "second", (ContainerAllocation("c", cpus=(3,)), ContainerAllocation("d"))),
        "u1": PodAllocation("u1", "ns", "first", (ContainerAllocation("c", cpus=(1, 2), memory=memory),)),
    }
    placement = Placement(online="0-7", memory=16 * GIB, shared="0,4-7")
    shown = cpu_view_of(Machine(cpus=(1, 2, 3, 4, 5, 6, 7)), placement, pods)
    assert cpu_cells(shown) == [
        ("1-2", "hugepages-2Mi=4Mi@0 1Gi@0+1", "ns/first", "c"),
        ("3", "-", "ns/second", "c"),
        ("0,4-7", "-", "(shared pool)", "-"),
        ("0", "-", "(reserved)", "-"),
    ]
