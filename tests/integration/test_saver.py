import operator
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Annotated, Any, TypedDict

import pytest
from conftest import Sql
from langchain_core.runnables import RunnableConfig
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.saver import TaskSaver
from surefoot.checkpointing.serializer import StrictSerializer
from surefoot.graph.errors import DatabaseUnavailable, LeaseLost

Records = dict[str, Any]


def merge(state: Records | None, writes: Sequence[Records]) -> Records:
    merged = dict(state or {})
    for write in writes:
        merged.update(write)
    return merged


class State(TypedDict, total=False):
    step: int
    records: Annotated[Records, DeltaChannel(merge, snapshot_frequency=5)]
    log: Annotated[list[str], operator.add]
    plan: Records


CONFIG: RunnableConfig = {"configurable": {"thread_id": "t1"}, "recursion_limit": 1000}


def until(steps: int) -> Callable[[State], str]:
    return lambda state: "work" if state.get("step", 0) < steps else END


def looping(steps: int, saver: BaseCheckpointSaver[Any], journal: TaskJournal | None = None) -> Any:
    async def work(state: State) -> State:
        step = state.get("step", 0) + 1
        if journal is not None:
            journal.event("SubtaskCompleted", subtask=f"s{step}", attempt=1, took=0.5)
            journal.subtask(f"s{step}", state="completed", attempt=1, ended_at=1.5)
            journal.task(progress=step / steps)
        return {"step": step, "records": {f"s{step}": {"state": "completed"}}, "log": [f"{step}"]}

    graph: Any = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", until(steps), ["work", END])
    return graph.compile(checkpointer=saver)


@pytest.fixture
def lease(sql: Any) -> Lease:
    return sql.make_task("t1")


@pytest.fixture
def journal() -> TaskJournal:
    return TaskJournal("t1")


@pytest.fixture
async def saver(
    database: Database, lease: Lease, journal: TaskJournal
) -> AsyncGenerator[TaskSaver]:
    saver = TaskSaver(database, lease, journal)
    yield saver
    await saver.close()


async def test_a_run_leaves_state_and_projection_that_agree(
    sql: Any, database: Database, saver: TaskSaver, journal: TaskJournal
) -> None:
    graph = looping(12, saver, journal)
    result = await graph.ainvoke({"step": 0, "plan": {"a": 1}}, CONFIG, durability="sync")
    assert result["step"] == 12
    done = sql.rows("select id, state, extract(epoch from ended_at) as e from surefoot.subtasks")
    assert {r["id"] for r in done} == {f"s{n}" for n in range(1, 13)}
    assert {(r["state"], float(r["e"])) for r in done} == {("completed", 1.5)}
    events = sql.rows("select subtask, facts, attempt from surefoot.events order by id")
    assert [e["subtask"] for e in events] == [f"s{n}" for n in range(1, 13)]
    assert events[0]["facts"] == {"took": 0.5}
    assert sql.value("select progress from surefoot.tasks") == 1


async def test_the_stock_saver_reads_the_thread_its_history_and_its_delta_channels(
    database: Database, saver: TaskSaver
) -> None:
    ours = looping(12, saver)
    await ours.ainvoke({"step": 0, "plan": {"a": [1, 2]}}, CONFIG, durability="sync")
    stock = looping(12, AsyncPostgresSaver(database.pool))
    seen = await stock.aget_state(CONFIG)
    assert seen.values == (await ours.aget_state(CONFIG)).values
    assert seen.values["plan"] == {"a": [1, 2]}
    assert list(seen.values["records"]) == [f"s{n}" for n in range(1, 13)]
    history = [s async for s in stock.aget_state_history(CONFIG)]
    assert [len(s.values.get("records", {})) for s in history] == [*range(12, -1, -1), 0]
    assert [s.values.get("step") for s in history][:3] == [12, 11, 10]


async def test_a_stock_saver_and_ours_store_the_same_rows(
    sql: Any, database: Database, saver: TaskSaver
) -> None:
    await looping(6, saver).ainvoke({"step": 0}, CONFIG, durability="sync")
    stock = AsyncPostgresSaver(database.pool)
    other: RunnableConfig = {"configurable": {"thread_id": "stock"}}
    await looping(6, stock).ainvoke({"step": 0}, other, durability="sync")
    for query in (
        "select channel, type, count(*) as n from checkpoint_writes"
        " where thread_id = %s group by 1, 2 order by 1, 2",
        "select channel, type, count(*) as n from checkpoint_blobs"
        " where thread_id = %s group by 1, 2 order by 1, 2",
        "select metadata ->> 'source' as s, checkpoint -> 'channel_values' as v,"
        " parent_checkpoint_id is null as root"
        " from checkpoints where thread_id = %s order by checkpoint_id",
    ):
        assert sql.rows(query, "t1") == sql.rows(query, "stock")


async def test_a_lost_lease_writes_nothing(
    sql: Any, database: Database, saver: TaskSaver, journal: TaskJournal
) -> None:
    graph = looping(3, saver, journal)
    await graph.ainvoke({"step": 0}, CONFIG, durability="sync")
    sql.steal("t1")
    counts = (
        "select (select count(*) from checkpoints) + (select count(*) from checkpoint_writes)"
        " + (select count(*) from checkpoint_blobs) + (select count(*) from surefoot.events)"
    )
    before = sql.value(counts)
    journal.event("Late")
    with pytest.raises(LeaseLost):
        await graph.ainvoke({"step": 0}, CONFIG, durability="sync")
    journal.event("Later still")
    with pytest.raises(LeaseLost):
        await journal.flush()
    assert sql.value(counts) == before


async def test_a_lease_stolen_in_mid_run_stops_the_run(
    sql: Any, database: Database, saver: TaskSaver, journal: TaskJournal
) -> None:
    async def work(state: State) -> State:
        step = state.get("step", 0) + 1
        journal.event("Step", n=step)
        if step == 5:
            sql.steal("t1")
        return {"step": step}

    graph: Any = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", until(9), ["work", END])
    with pytest.raises(LeaseLost):
        await graph.compile(checkpointer=saver).ainvoke({"step": 0}, CONFIG, durability="sync")
    assert sql.value("select count(*) from surefoot.events") == 4


async def test_a_run_survives_all_its_connections_being_cut(
    sql: Any, database: Database, saver: TaskSaver, journal: TaskJournal
) -> None:
    async def work(state: State) -> State:
        step = state.get("step", 0) + 1
        journal.event("Step", n=step)
        sql.cut_connections()
        return {"step": step, "records": {f"s{step}": {}}}

    graph: Any = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", until(4), ["work", END])
    result = await graph.compile(checkpointer=saver).ainvoke({"step": 0}, CONFIG, durability="sync")
    assert list(result["records"]) == ["s1", "s2", "s3", "s4"]
    assert sql.value("select count(*) from surefoot.events") == 4


async def test_an_interrupted_superstep_keeps_what_its_finished_branches_wrote(
    database: Database, saver: TaskSaver
) -> None:
    runs: list[str] = []

    async def ask(state: State) -> State:
        return {"log": [interrupt("go on?")]}

    async def finish(state: State) -> State:
        runs.append("finish")
        return {"log": ["finished"]}

    def build(checkpointer: BaseCheckpointSaver[Any]) -> Any:
        graph: Any = StateGraph(State)
        graph.add_node("finish", finish)
        graph.add_node("ask", ask)
        graph.add_edge(START, "ask")
        graph.add_edge(START, "finish")
        return graph.compile(checkpointer=checkpointer)

    asked = await build(saver).ainvoke({"step": 0}, CONFIG, durability="sync")
    answer = {asked["__interrupt__"][0].id: "yes"}
    fresh = TaskSaver(database, saver.lease, TaskJournal("t1"))
    result = await build(fresh).ainvoke(Command(resume=answer), CONFIG, durability="sync")
    await fresh.close()
    assert sorted(result["log"]) == ["finished", "yes"]
    assert runs == ["finish"]


async def test_update_state_is_seen_by_the_next_run(saver: TaskSaver) -> None:
    graph = looping(4, saver)
    await graph.ainvoke({"step": 0}, CONFIG, durability="sync")
    await graph.aupdate_state(CONFIG, {"step": 2, "records": {"x": {}}}, as_node="work")
    result = await graph.ainvoke(None, CONFIG, durability="sync")
    assert result["step"] == 4
    assert "x" in result["records"]


async def test_a_second_input_reaches_the_delta_channel(saver: TaskSaver) -> None:
    graph = looping(3, saver)
    await graph.ainvoke({"step": 0}, CONFIG, durability="sync")
    given: Any = {"step": 2, "records": {"given": {"state": "completed"}}}
    await graph.ainvoke(given, CONFIG, durability="sync")
    assert "given" in (await graph.aget_state(CONFIG)).values["records"]


async def test_integers_beyond_64_bits_survive(database: Database, saver: TaskSaver) -> None:
    huge = {"n": [2**70, -(2**90), 2**64, 2**64 - 1, -(2**63) - 1, 10**5000], "s": 1}

    async def work(state: State) -> State:
        return {"records": {"a": huge}, "plan": huge, "step": 2**80}

    graph: Any = StateGraph(State)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    await graph.compile(checkpointer=saver).ainvoke({"plan": {}}, CONFIG, durability="sync")
    fresh = graph.compile(checkpointer=TaskSaver(database, saver.lease, TaskJournal("t1")))
    state = (await fresh.aget_state(CONFIG)).values
    assert state["records"] == {"a": huge}
    assert state["plan"] == huge
    assert state["step"] == 2**80


def test_the_serializer_is_strict_whatever_the_environment_says() -> None:
    import ormsgpack

    evil = ormsgpack.Ext(0, ormsgpack.packb(("os", "system", "true")))
    kept = StrictSerializer().loads_typed(("msgpack", ormsgpack.packb(evil)))
    assert kept == "true"


async def test_a_subtask_thread_is_behind_the_same_fence(
    sql: Any, database: Database, saver: TaskSaver
) -> None:
    child: RunnableConfig = {"configurable": {"thread_id": "t1/s1/1"}, "recursion_limit": 100}
    graph = looping(3, saver)
    await graph.ainvoke({"step": 0}, child, durability="sync")
    assert (await graph.aget_state(child)).values["step"] == 3
    sql.steal("t1")
    with pytest.raises(LeaseLost):
        await graph.ainvoke({"step": 0}, child, durability="sync")


async def test_an_unreachable_database_is_a_transient_error(
    sql: Any, database: Database, saver: TaskSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = looping(2, saver)
    await graph.ainvoke({"step": 0}, CONFIG, durability="sync")
    monkeypatch.setattr(database, "url", "postgresql://u:secret@127.0.0.1:1/x")
    sql.cut_connections()
    with pytest.raises(DatabaseUnavailable) as caught:
        await saver.aput_writes(
            {"configurable": {"thread_id": "t1", "checkpoint_ns": "", "checkpoint_id": "x"}},
            [("__error__", "e")],
            "task",
        )
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_compiled_graph_uses_the_saver_it_was_given_and_no_copy(
    database: Database, sql: Sql
) -> None:
    saver = TaskSaver(database, sql.make_task("t1"), TaskJournal("t1"))
    assert saver.with_allowlist([("builtins", "set")]) is saver
    await saver.close()
