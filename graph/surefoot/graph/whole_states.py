"""Whether a state is whole: nothing of it is missing, and the rows know no more than it. Pure.

Rows leave in one statement with the checkpoint, so of a whole state they are never ahead.
"""

from collections.abc import Mapping

from surefoot.graph.gone_snapshots import gone_of
from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.state import DELTAS, TaskState
from surefoot.graph.tables import Row, Tally
from surefoot.graph.values import Record

ESSENTIAL = ("goal", "head", "planning", "orders", "finished", "questions", "status")
"""Channels that every state has from the first superstep on: one that is missing was lost."""

ENDED = ("completed", "skipped", "failed")


def tally_of(records: Mapping[str, Record], index: PlanIndex) -> Tally:
    """What the records of a plan come to, to be compared with the rows'."""
    done = ended = attempts = 0
    for id, record in records.items():
        if (container_of(id) or id) not in index.raw:
            continue
        done += record.get("state") in ENDED
        ended += record.get("ended", 0)
        attempts += record.get("attempt", 0)
    return Tally(done=done, ended=ended, attempts=attempts)


def may_be_behind(records: Tally, rows: Tally) -> bool:
    """Whether the rows might know more than the records: then they are compared one by one."""
    same = (records.done, records.ended) == (rows.done, rows.ended)
    return not same or rows.attempts > records.attempts


def behind(records: Mapping[str, Record], rows: Mapping[str, Row], index: PlanIndex) -> list[str]:
    """The subtasks of which the rows know more than the records, by id.

    Rows are never ahead of a whole state: both leave in one statement, and rows that say what runs
    name attempts that the state has ordered.
    """
    found: list[str] = []
    for id, row in rows.items():
        if (container_of(id) or id) not in index.raw:
            continue
        record = records.get(id) or Record()
        ahead = row["attempt"] > record.get("attempt", 0)
        ahead = ahead or row["attempts"] > record.get("ended", 0)
        if ahead or (row["state"] in ENDED and record.get("state") != row["state"]):
            found.append(id)
    return found


def is_whole(state: TaskState, *, planned: bool) -> bool:
    """Whether every channel is there that must be. `planned`: the tables have a plan."""
    there = all(name in state for name in ESSENTIAL) and not gone_of(state, DELTAS)
    return there and (not planned or bool(state.get("plan")))
