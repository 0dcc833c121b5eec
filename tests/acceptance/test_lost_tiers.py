"""Any one tier of a stopped task deleted: it is completed from the others, or asks. Never twice."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lost_tiers import NAMES, Story
from model_server import ModelServer
from scenes import Scene

from surefoot.graph.settings import Settings

LIGHT = ("checkpoints", "checkpoint_blobs", "checkpoint_writes")
ROOT, GROUP, AGENT = "thread_id = 't'", "thread_id like 't/g:%%'", "thread_id like 't/ag/%%'"


@pytest.fixture
def story(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    with ModelServer() as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield Story(Scene(settings, tmp_path / "files"), server)


def lose(story: Story, tables: Sequence[str], where: str) -> None:
    for table in tables:
        assert story.scene.rows(f"delete from {table} where {where} returning 1"), table


@pytest.mark.parametrize(
    ("tables", "where"),
    [
        (LIGHT, "true"),
        (LIGHT, ROOT),
        (LIGHT[:1], ROOT),
        (LIGHT[1:2], ROOT),
        (LIGHT[2:], ROOT),
        (
            LIGHT[:1],
            f"{ROOT} and checkpoint_id > (select checkpoint_id from checkpoints"
            f" where {ROOT} order by checkpoint_id offset 8 limit 1)",
        ),
    ],
    ids=["all threads", "its thread", "checkpoints", "blobs", "writes", "the newer half"],
)
async def test_a_lost_thread_is_made_anew_and_nothing_is_done_twice(
    story: Story, tables: Sequence[str], where: str
) -> None:
    await story.kill_in_the_middle()
    lose(story, tables, where)
    story.is_whole(story.resume())
    (rebuilt,) = [event for event in story.types("StateRebuilt") if event["subtask"] is None]
    assert rebuilt["facts"]["strategy"] == "roll back to the stable point"
    history = story.scene.process("history", "t", "--json").document
    assert "roll back to the stable point" in [entry["strategy"] for entry in history]


@pytest.mark.parametrize("channel", ["records", "milestones", "decisions"])
@pytest.mark.parametrize("later", [False, True], ids=["its newest state", "one before it"])
async def test_a_lost_snapshot_of_one_channel_is_noticed(
    story: Story, channel: str, later: bool
) -> None:
    await story.kill_in_the_middle()
    assert story.scene.process("gc", "--json").code == 0  # leaves a head of whole snapshots
    if later:
        await story.resume_and_kill()
    lose(story, LIGHT[1:2], f"{ROOT} and channel = '{channel}'")
    story.is_whole(story.resume())
    assert len(story.types("StateRebuilt")) == 1


async def test_what_was_made_anew_survives_a_further_kill(story: Story) -> None:
    await story.kill_in_the_middle()
    lose(story, LIGHT[1:], ROOT)
    await story.resume_and_kill()
    story.is_whole(story.resume())
    assert len([e for e in story.types("StateRebuilt") if e["subtask"] is None]) == 1


@pytest.mark.parametrize(
    ("tables", "where"),
    [
        (LIGHT, ROOT),
        (LIGHT[:1], f"{ROOT} and checkpoint_id > 'KNOWN'"),
    ],
    ids=["its thread", "what came since"],
)
async def test_a_group_that_was_taken_back_begins_anew_though_the_state_is_lost(
    story: Story, tables: Sequence[str], where: str
) -> None:
    await story.kill_in_the_middle()
    before = story.scene.rows(f"select checkpoint_id from checkpoints where {ROOT}")
    assert story.scene.process("rollback", "t", "start", "--json").code == 0
    lose(story, tables, where.replace("KNOWN", str(max(b["checkpoint_id"] for b in before))))
    done = story.resume()
    assert (done.code, done.document["status"]) == (0, "completed"), done.out + done.err
    rows = story.scene.rows("select id, state from surefoot.subtasks where state <> 'completed'")
    assert rows == []
    assert story.done() == Counter(NAMES)


async def test_a_groups_lost_thread_is_made_anew(story: Story) -> None:
    await story.kill_in_the_middle()
    lose(story, LIGHT, GROUP)
    story.is_whole(story.resume())
    assert [event["type"] for event in story.types("StateRebuilt", "GroupStateRebuilt")]
    assert story.types("TaskStarted", "GroupStarted")[0]["subtask"] is None


@pytest.mark.parametrize("tables", [LIGHT, LIGHT[2:]], ids=["all of it", "its writes"])
async def test_an_agents_lost_thread_starts_from_scratch_and_the_ledger_answers(
    story: Story, tables: Sequence[str]
) -> None:
    await story.kill_in_the_middle()
    lose(story, tables, AGENT)
    story.is_whole(story.resume())
    (lost,) = story.types("AgentThreadLost")
    assert (lost["subtask"], lost["facts"]["strategy"]) == ("ag", "rerun the subtask")


@pytest.mark.parametrize("tier", ["before", "full", "complete"])
async def test_lost_snapshots_of_the_workspace_lose_no_work(story: Story, tier: str) -> None:
    await story.kill_in_the_middle()
    story.lose_snapshots(tier)
    story.is_whole(story.resume())


async def test_a_thread_and_the_complete_snapshots_lost_leave_the_tables(story: Story) -> None:
    await story.kill_in_the_middle()
    story.lose_snapshots("complete")
    lose(story, LIGHT, "true")
    story.is_whole(story.resume())


async def test_a_lost_artifact_is_asked_about_and_done_again(story: Story) -> None:
    await story.kill_in_the_middle()
    story.lose_blob("keeps", "kept.txt")
    waits = story.resume()
    assert waits.code == 3
    (question,) = waits.document["questions"]
    assert question["kind"] == "inconsistent_state"
    assert "artifact keeps/kept.txt is missing" in question["text"]
    assert question["choices"] == ["recheck", "redo"]
    answered = story.scene.process("answer", "t", question["id"], "redo")
    assert answered.code == 0, answered.err
    done = story.resume()
    assert done.code == 0, done.out + done.err
    assert story.scene.process("artifacts", "t", "keeps/kept.txt").out == "kept"
    # What was done for good stays done, and answers whoever is done again.
    assert story.done() == dict.fromkeys(NAMES, 1)


async def test_what_an_irreversible_effect_has_left_is_not_offered_to_be_done_again(
    story: Story,
) -> None:
    await story.kill_in_the_middle()
    story.lose_blob("a", "note.txt")
    (question,) = story.resume().document["questions"]
    assert question["choices"] == ["recheck"]
    assert "surefoot edit t a" in question["text"]
    note = story.scene.write("note.txt", "by hand")
    edited = story.scene.process("edit", "t", "a", "--artifact", f"note.txt={note}")
    assert edited.code == 0, edited.err
    done = story.resume()
    assert done.code == 0, done.out + done.err
    assert story.done() == dict.fromkeys(NAMES, 1)
