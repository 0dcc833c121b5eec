"""Slots: never more than there are, and a free one goes round."""

from dataclasses import dataclass, field

from surefoot.tools.slots import Slots


@dataclass(eq=False)
class Queue:
    """A runner that only counts; `started` is shared to see the order of all."""

    name: str
    waiting: int
    started: list[str] = field(default_factory=list[str])

    @property
    def wants_slot(self) -> bool:
        return self.waiting > 0

    def offer(self) -> bool:
        if not self.waiting:
            return False
        self.waiting -= 1
        self.started.append(self.name)
        return True


def test_no_more_start_than_there_are_slots() -> None:
    slots, one = Slots(3), Queue("a", 5)
    slots.fill(one)
    assert (len(one.started), slots.taken) == (3, 3)
    slots.give_back()
    assert (len(one.started), slots.taken) == (4, 3)


def test_a_free_slot_goes_to_who_waited_longest_one_order_at_a_time() -> None:
    slots, started = Slots(1), list[str]()
    first, second, third = (Queue(name, 2, started) for name in "abc")
    for queue in (first, second, third):
        slots.fill(queue)
    for _ in range(5):
        slots.give_back()
    assert started == ["a", "a", "b", "c", "b", "c"]
    slots.give_back()
    assert slots.taken == 0


def test_who_has_nothing_to_start_any_more_is_passed_over() -> None:
    slots, started = Slots(1), list[str]()
    first, second, third = (Queue(name, 1, started) for name in "abc")
    for queue in (first, second, third):
        slots.fill(queue)
    second.waiting = 0
    slots.give_back()
    assert (started, slots.taken) == (["a", "c"], 1)
    slots.leave(third)
    slots.give_back()
    assert slots.taken == 0
