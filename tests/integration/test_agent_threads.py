"""Agents' threads in PostgreSQL: beside the task's own, fenced, linear in the steps."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from agent_bench import AgentBench, agent_order
from fakes import Bench, ok
from scripted import ScriptedModel, finishes, wants

from surefoot.checkpointing.database import Database
from surefoot.checkpointing.journal import TaskJournal
from surefoot.checkpointing.lease import Lease
from surefoot.checkpointing.saver import TaskSaver
from surefoot.graph.errors import DatabaseUnavailable, LeaseLost


@pytest.fixture
def lease(sql: Any) -> Lease:
    return sql.make_task("t1")


@pytest.fixture
async def saver(database: Database, lease: Lease) -> AsyncGenerator[TaskSaver]:
    saver = TaskSaver(database, lease, TaskJournal("t1"))
    yield saver
    await saver.close()


@pytest.fixture
def agents(tmp_path: Path, saver: TaskSaver) -> AgentBench:
    bench = AgentBench(Bench(tmp_path), saver=saver)
    bench.host.add("look", lambda call: ok({"seen": call.args, "text": "x" * 500}))
    return bench


class Counting(ScriptedModel):
    """Looks a number of times, told by the subtask's name (`a-12`), then finishes."""

    async def step(self, turn: Any) -> Any:
        self.turns.append(turn)
        times = int(turn.subtask.partition("-")[2])
        said = sum(message["role"] == "assistant" for message in turn.messages)
        await asyncio.sleep(0)
        return wants(("look", {"n": said})) if said < times else finishes(said)


async def test_many_agents_save_over_one_connection_at_the_same_time(
    sql: Any, agents: AgentBench
) -> None:
    agents.model = Counting()
    orders = [agent_order(f"a-{n}", tools=["look"]) for n in range(12)]
    runner = agents.runner(slots=12)
    await runner.submit(orders)
    async with asyncio.timeout(60):
        while len(runner.finished()) < len(orders):
            await runner.wait()
            await asyncio.sleep(0)
    results = {o["subtask"]: (o.get("result") or {}).get("value") for o in runner.finished()}
    assert results == {f"a-{n}": n for n in range(12)}
    threads = sql.rows("select distinct thread_id from checkpoints order by 1")
    assert {row["thread_id"] for row in threads} == {f"t1/a-{n}/1" for n in range(12)}
    await runner.close()


async def test_what_a_node_has_queued_does_not_leave_with_an_agents_step(
    sql: Any, database: Database, lease: Lease, agents: AgentBench
) -> None:
    journal = TaskJournal("t1")
    task_saver = TaskSaver(database, lease, journal)
    journal.event("HalfASuperstep")
    agents.model.script = [finishes(1)]
    assert (await agents.run(agent_order()))["ok"]
    assert sql.rows("select 1 from surefoot.events") == []
    assert journal.pending()
    await task_saver.close()


async def test_a_lost_lease_ends_an_agent_and_writes_nothing(sql: Any, agents: AgentBench) -> None:
    def stolen(turn: Any) -> Any:
        sql.steal("t1")
        return finishes(1)

    agents.model.script = [stolen]
    with pytest.raises(LeaseLost):
        await agents.run(agent_order())
    assert sql.value("select count(*) from checkpoint_writes where channel = 'finished'") == 0


async def test_another_process_goes_on_where_the_thread_stands(
    sql: Any, database: Database, lease: Lease, agents: AgentBench
) -> None:
    class Died(BaseException): ...

    def dies(turn: Any) -> Any:
        raise Died

    agents.model.script = [wants(("look", {"n": 1}), ("look", {"n": 2})), dies]
    with pytest.raises(Died):
        await agents.run(agent_order(tools=["look"]))
    agents.model.script = [finishes("end")]
    agents.saver = fresh = TaskSaver(database, lease, TaskJournal("t1"))
    outcome = await agents.run(agent_order(tools=["look"], attempt=2, go=1, recovering=True))
    assert outcome.get("result") == {"value": "end"}
    assert len(agents.host.calls) == 2
    assert [message["role"] for message in agents.model.turns[-1].messages] == [
        "assistant",
        "tool",
        "tool",
    ]
    await fresh.close()


async def test_a_step_whose_save_was_lost_leaves_nothing_behind_for_the_go_that_follows(
    sql: Any, saver: TaskSaver, agents: AgentBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: Any, **__: Any) -> Any:
        raise DatabaseUnavailable("gone")

    def loses(turn: Any) -> Any:
        monkeypatch.setattr(saver, "aput", lost)
        return wants(("look", {"n": "lost"}))

    agents.model.script = [wants(("look", {"n": 1})), loses]
    with pytest.raises(DatabaseUnavailable):
        await agents.run(agent_order(tools=["look"]))
    monkeypatch.undo()
    agents.model.script = [wants(("look", {"n": 2})), finishes("end")]
    assert (await agents.run(agent_order(tools=["look"])))["ok"]
    history = (await agents.state("t1/a/1"))["history"]
    said = [message for step in history.values() for message in step]
    assert [message["role"] for message in said] == [
        *["assistant", "tool"] * 2,
        "assistant",
        "tool",
    ]
    assert "lost" not in str(history)
    assert (
        sql.rows("select 1 from checkpoint_writes where encode(blob, 'escape') like '%%lost%%'")
        == []
    )


async def test_bytes_grow_with_the_steps_and_not_with_their_square(
    sql: Any, agents: AgentBench
) -> None:
    agents.model = Counting()
    sizes: list[int] = []
    for times in (10, 40):
        assert (await agents.run(agent_order(f"a-{times}", tools=["look"])))["ok"]
        sizes.append(
            sql.value(
                "select (select sum(length(blob)) from checkpoint_writes where thread_id = %(t)s)"
                " + (select coalesce(sum(length(blob)), 0) from checkpoint_blobs"
                " where thread_id = %(t)s)".replace("%(t)s", f"'t1/a-{times}/1'")
            )
        )
    assert sizes[1] < 5.5 * sizes[0]
