"""The records of a state that is made anew (`rebuilding`): what the rows say and is still known.

What was taken back and not begun since is done from scratch: whatever is left of it, in a torn
state or on the thread of a group, tells of work that stands no more. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from surefoot.graph.index import PlanIndex, container_of
from surefoot.graph.tables import Row, Saved
from surefoot.graph.values import JsonObject, Record, StoredValue
from surefoot.graph.whole_states import ENDED

TAKEN_BACK = ("RolledBack", "SubtasksReopened")
"""Events of ways back; their facts say by id what begins anew (`again`: its attempt then) and
what groups are to hold (`inside`)."""


def records_anew(
    candidates: Sequence[Mapping[str, Record]], saved: Saved, index: PlanIndex
) -> dict[str, Record]:
    """The records of a plan.

    Args:
        candidates: records that could still be read, the likeliest first.
        saved: what the tables say.
        index: of the plan.
    """
    again, inside = _taken_back(saved)
    lists = {e["subtask"]: e["facts"] for e in saved.events if e["type"] == "SubtaskExpanded"}
    failed = {e["subtask"]: e["attempt"] for e in saved.events if e["type"] == "AttemptFailed"}
    records: dict[str, Record] = {}
    for id, row in saved.rows.items():
        if (container_of(id) or id) not in index.raw:
            continue
        known = [c[id] for c in candidates if id in c]
        stands = again.get(id, 0)
        if stands and (row["state"], row["attempt"]) == ("pending", stands):
            records[id] = _afresh(row, known)
        else:
            kept = next((one for one in known if _is_as(one, row)), None)
            begins = 1 + max(stands, failed.get(id) or 0)
            records[id] = kept or _record(id, row, saved, lists.get(id) or {}, begins=begins)
        if stands and row["state"] not in ENDED and index.kind(id) == "group":
            records[id] = _entered_anew(records[id], stands, inside.get(id))
    return records


def _taken_back(saved: Saved) -> tuple[dict[str, int], JsonObject]:
    """By id the newest attempt that was taken back; and what groups held where they went back."""
    again: dict[str, int] = {}
    inside: JsonObject = {}
    for event in saved.events:
        if event["type"] in TAKEN_BACK:
            begun: JsonObject = event["facts"].get("again") or {}
            held: JsonObject = event["facts"].get("inside") or {}
            again |= begun
            inside = {**{k: v for k, v in inside.items() if k not in begun}, **held}
    return again, inside


def _afresh(row: Row, known: Sequence[Record]) -> Record:
    """What is done again from scratch, with the arguments that a person gave."""
    record = Record(state="pending", attempt=row["attempt"], ended=row["attempts"], tries=0)
    given = next((one["args"] for one in known if "args" in one), None)
    if given is not None:
        record["args"] = given
    return record


def _entered_anew(record: Record, stands: int, inside: StoredValue | None) -> Record:
    """A group whose thread may still hold what it was before it was taken back."""
    again = Record(**record)
    again["taken_back"] = max(stands, record.get("taken_back", 0))
    if inside is not None:
        again["inside"] = inside
    return again


def _is_as(record: Record, row: Row) -> bool:
    """Whether a record that was found is still what the row says; only then it is the newer."""
    numbers = (
        record.get("attempt", 0) == row["attempt"] and record.get("ended", 0) == row["attempts"]
    )
    return numbers and record.get("state", "pending") == row["state"] and "question" not in record


def _record(id: str, row: Row, saved: Saved, expanded: JsonObject, *, begins: int) -> Record:
    """The record that a row tells of. `begins`: the first attempt of what is under way."""
    record = Record(attempt=row["attempt"], ended=row["attempts"])
    if row["rung"]:
        record["rung"] = row["rung"]
    _take(record, row, ("reason", "marks"))
    if row["started_at"] is not None:
        record["started"] = row["started_at"]
    if row["state"] in ENDED:
        return _ended_record(record, id, row, saved, expanded)
    record["tries"] = 0 if row["rung"] else row["attempts"]
    said = {one["id"]: one["answer"] for one in saved.answered if one["local"] == id}
    if said:
        record["said"] = said
    if row["not_before"] is not None:
        record["not_before"] = row["not_before"]
    if (
        row["kind"] == "foreach"
        and not row["rung"]
        and "items" in expanded
        and row["n"] is not None
    ):
        record["state"] = "running"
        record.update(_list_of(expanded))
        return record
    record["state"] = "pending"
    if row["attempt"] >= begins:  # it is not over: a kill or a pause cut it
        record["cut"] = True
    if "cut" in record and (row["kind"] == "agent" or id in saved.gos):
        # An older thread belongs to an attempt that is over, or was taken back.
        record["go"] = max(saved.gos.get(id, 0), begins)
    return record


def _ended_record(record: Record, id: str, row: Row, saved: Saved, expanded: JsonObject) -> Record:
    record["state"] = row["state"]
    if row["ended_at"] is not None:
        record["finished"] = row["ended_at"]
    if row["state"] == "failed":
        record["failure"] = row["failure"]
        return record
    record["result"] = row["result"] or {"value": None}
    refs = saved.artifacts.get(id)
    if refs:
        record["artifacts"] = list(refs)
    if row["n"] is not None:
        known = _list_of(expanded) if "items" in expanded else Record(n=row["n"])
        record.update(known)
    return record


def _list_of(expanded: JsonObject) -> Record:
    known = Record(n=expanded["n"], items=expanded["items"])
    if expanded.get("serial"):
        known["serial"] = True
    return known


def _take(record: Record, row: Row, names: Sequence[str]) -> None:
    filled = {name: row[name] for name in names if row[name] is not None}
    record.update(cast("Record", filled))
