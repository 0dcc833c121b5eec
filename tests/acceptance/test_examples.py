"""The examples as a user runs them: through the command, as processes, also killed in between."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cuad
import pytest
from conftest import Sql
from example_code import CONTRACT_REVIEW, FLAKY_STEPS, REFUNDS, example_module
from model_server import ModelServer, Said, Seen, call_tool, finish, say_json

from surefoot.graph.settings import Settings
from surefoot.service.client import Surefoot

SUREFOOT = Path(sys.executable).with_name("surefoot")
REVIEW = CONTRACT_REVIEW / "task.yaml"
FLAKY = FLAKY_STEPS / "task.yaml"
document_text = example_module(CONTRACT_REVIEW, "reading").read_document


class Command:
    """The command `surefoot` with a home and a database of its own."""

    def __init__(self, settings: Settings) -> None:
        assert settings.database_url is not None
        self.settings = settings
        self.environment = {
            **os.environ,
            "SUREFOOT_HOME": str(settings.home),
            "SUREFOOT_DATABASE_URL": settings.database_url,
            "SUREFOOT_ARTIFACTS_URL": settings.artifacts_url,
        }

    def __call__(self, *words: str | Path) -> tuple[int, Any]:
        """Run to the end; the exit code and the JSON document on standard output."""
        done = subprocess.run(
            [SUREFOOT, *words, "--json"],
            env=self.environment,
            capture_output=True,
            timeout=240,
            check=False,
        )
        assert done.stdout, done.stderr.decode()
        return done.returncode, json.loads(done.stdout)

    def artifact(self, task: str, name: str) -> bytes:
        target = self.settings.home / "copy"
        subprocess.run(
            [SUREFOOT, "artifacts", task, name, "-o", target],
            env=self.environment,
            check=True,
            capture_output=True,
            timeout=60,
        )
        return target.read_bytes()

    @contextmanager
    def started(self, *words: str | Path) -> Generator[subprocess.Popen[bytes]]:
        """A process that is running, and is gone afterwards whatever happens."""
        process = subprocess.Popen(
            [SUREFOOT, *words],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


@pytest.fixture
def surefoot(settings: Settings) -> Command:
    return Command(settings)


async def findings_of(surefoot: Command, task: str) -> list[dict[str, Any]]:
    """All findings of a contract review; by the client, since each command is a process."""
    async with Surefoot(surefoot.settings) as client:
        names = [one["name"] for one in await client.artifacts(task)]
        contents = [
            (await client.artifact(task, name))[1]
            for name in names
            if name.endswith("/finding.json")
        ]
    return [json.loads(content) for content in contents]


def assert_verbatim(folder: Path, findings: list[dict[str, Any]]) -> None:
    reading: Any = example_module(CONTRACT_REVIEW, "reading")
    for finding in findings:
        text = reading.read_document(folder / finding["file"])
        assert finding["quotes"], f"{finding['file']}: nothing is quoted"
        for quote in finding["quotes"]:
            assert text[quote["start"] : quote["end"]] == quote["text"]


# --- contract-review --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file",
    [REVIEW, FLAKY, REFUNDS / "task.yaml"],
    ids=["contract-review", "flaky-steps", "refunds"],
)
def test_the_task_files_have_neither_faults_nor_warnings(surefoot: Command, file: Path) -> None:
    assert surefoot("validate", file) == (0, {"valid": True, "faults": [], "warnings": []})


async def test_a_contract_review_ends_with_findings_a_register_and_two_reports(
    surefoot: Command,
) -> None:
    expected = json.loads((CONTRACT_REVIEW / "expected.json").read_text("utf-8"))
    code, status = surefoot("run", REVIEW, "--id", "review")
    assert (code, status["status"], status["progress"]) == (0, "completed", 1.0), status
    assert status["milestones"] == {"total": 2, "passed": 2, "failed": 0, "rollbacks": 0}
    assert (status["subtasks"]["completed"], status["attempts"]) == (15, 15)

    findings = await findings_of(surefoot, "review")
    assert {f["file"] for f in findings} == set(expected) and len(findings) == 12
    assert_verbatim(CONTRACT_REVIEW / "contracts", findings)
    rows = csv.DictReader(io.StringIO(surefoot.artifact("review", "register.csv").decode()))
    for row, file in zip(rows, sorted(expected), strict=True):
        assert (row["file"], row["risks"].split()) == (file, expected[file]["risks"])
    for name in ("report.md", "report.html"):
        report = surefoot.artifact("review", name).decode()
        assert all(file in report for file in expected)


def test_documents_that_cannot_be_read_are_noted_and_do_not_stop_the_review(
    surefoot: Command, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("Agreement between A Ltd and B Ltd, made on 4 March 2024.")
    (tmp_path / "broken.pdf").write_text("no PDF at all")
    (tmp_path / "empty [x], & <b>.txt").write_bytes(b"")
    code, status = surefoot("run", REVIEW, "--id", "odd", "--set", f"folder={tmp_path}")
    assert (code, status["status"]) == (0, "completed"), status
    assert status["degraded"] == ["review/1", "review/2"]
    rows = csv.DictReader(io.StringIO(surefoot.artifact("odd", "register.csv").decode()))
    assert [row["reviewed"] for row in rows] == ["in full", "simple", "simple"]


@pytest.mark.skipif(not cuad.MATERIAL.is_dir(), reason="contracts_cuad is not here")
async def test_real_contracts_are_reviewed_and_quoted_word_for_word(surefoot: Command) -> None:
    folder = cuad.MATERIAL / "txt"
    code, status = surefoot("run", REVIEW, "--id", "cuad", "--set", f"folder={folder}")
    assert (code, status["status"], status["degraded"]) == (0, "completed", []), status
    findings = await findings_of(surefoot, "cuad")
    assert sorted(f["file"] for f in findings) == sorted(p.name for p in folder.iterdir())
    assert_verbatim(folder, findings)
    found = cuad.recall(findings)
    print(f"\n{cuad.shown(found)}")  # noqa: T201 - the measurement is what this test is for
    for name, (good, labelled) in found.items():
        assert good >= cuad.LEAST[name] * labelled, name


# --- flaky-steps ------------------------------------------------------------------------------


@pytest.mark.parametrize(("seed", "attempts", "rate"), [(42, 21, 0.75), (7, 20, 0.667)])
def test_a_seed_always_fails_at_the_same_places(
    surefoot: Command, seed: int, attempts: int, rate: float
) -> None:
    code, status = surefoot("run", FLAKY, "--id", "flaky", "--set", f"seed={seed}")
    assert (code, status["status"]) == (0, "completed"), status
    assert (status["attempts"], status["retry_rate"]) == (attempts, rate)
    assert status["milestones"]["passed"] == 2
    summary = json.loads(surefoot.artifact("flaky", "summary.json"))
    assert summary == {"done_steps": 12, "total_attempts": attempts, "retry_rate": rate}


def test_a_step_that_uses_up_its_attempts_ends_the_task(surefoot: Command) -> None:
    code, status = surefoot("run", FLAKY, "--id", "flaky", "--set", "seed=13")
    assert (code, status["status"], status["attempts"]) == (1, "failed", 8)
    assert status["failure"]["code"] == "attempts_exhausted"
    assert status["failure"]["subtask"] == "step5"
    assert (status["subtasks"]["completed"], status["subtasks"]["pending"]) == (4, 7)


def test_kills_in_between_change_no_figure(surefoot: Command, sql: Sql) -> None:
    killed = 0
    for done in (1, 4, 6, 9):
        with surefoot.started("run", FLAKY, "--id", "flaky", "--quiet") as process:
            killed += kill_at(process, sql, done)
    assert killed >= 2, "the task was over before it could be killed often"
    code, status = surefoot("run", FLAKY, "--id", "flaky")
    assert (code, status["status"]) == (0, "completed"), status
    assert (status["attempts"], status["retry_rate"]) == (21, 0.75)
    summary = json.loads(surefoot.artifact("flaky", "summary.json"))
    assert summary == {"done_steps": 12, "total_attempts": 21, "retry_rate": 0.75}


def kill_at(process: subprocess.Popen[bytes], sql: Sql, done: int) -> bool:
    """Kill a run once so many subtasks are completed; False if it was over before."""
    query = "select count(*) from surefoot.subtasks where task_id = 'flaky' and state = 'completed'"
    wait_until(lambda: sql.value(query) >= done or process.poll() is not None)
    alive = process.poll() is None
    process.send_signal(signal.SIGKILL)
    return alive


def wait_until(condition: Callable[[], bool], *, timeout_s: float = 60) -> None:
    limit = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.005)


def test_a_goal_in_words_ends_in_a_report_with_the_scripted_model(surefoot: Command) -> None:
    script = REVIEW.parent.parent / "scripted_model.py"
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as model:
        try:
            assert model.stdout is not None
            said = model.stdout.readline().removeprefix("export ").split()
            surefoot.environment |= dict(word.split("=", 1) for word in said)
            goal = ("--goal", "Report how each contract in the folder can be ended")
            folder = f"folder={REVIEW.parent / 'contracts'}"
            code, status = surefoot("run", *goal, "--set", folder, "--id", "endings")
        finally:
            model.kill()
    assert (code, status["status"], status["usage"]["steps"]) == (0, "completed", 44)
    report = surefoot.artifact("endings", "report.md").decode()
    assert report.count("\n- **") == 12 and "ten (10) days' notice" in report


def test_a_model_reads_contracts_and_rules_read_what_it_quotes_wrongly(surefoot: Command) -> None:
    """One contract's quotes are invented twice: there the rules' own words are taken."""

    def read(seen: Seen) -> Said:
        path = re.search(
            r"contract at (\S+) with", "\n".join(str(m["content"]) for m in seen.messages)
        )
        assert path is not None
        results = [m["content"] for m in seen.messages if m["role"] == "tool"]
        if not results:
            return call_tool("read_document", {"path": path.group(1)})
        quote = "This sentence stands in no contract at all."
        if not path.group(1).endswith("03-mutual-nda.md"):
            quote = document_text(Path(path.group(1)))[10:90]
        return finish(
            {
                "file": path.group(1),
                "summary": "Two parties agree on what the quoted words say.",
                "risk": "low",
                "quotes": [quote],
            }
        )

    verdict = {"pass": True, "confidence": 0.9, "reasons": ["findings of contracts"]}
    critic = {"choice": "retry", "criticism": "Copy the words of the contract."}
    with ModelServer() as models:
        models.always("agent", read).always("verdict", say_json(verdict))
        models.always("reflection", say_json(critic))
        surefoot.environment |= {**models.environment(), "SUREFOOT_MODEL": "m"}
        code, status = surefoot("run", REVIEW.with_name("with-model.yaml"), "--id", "read")
    assert (code, status["status"]) == (0, "completed")
    (degraded,) = status["degraded"]
    assert degraded.startswith("read/")
    report = surefoot.artifact("read", "report.md").decode()
    assert (report.count("Read by a model"), report.count("Read by the rules")) == (11, 1)


# --- refunds ----------------------------------------------------------------------------------


async def test_people_approve_refunds_and_take_them_back(surefoot: Command, tmp_path: Path) -> None:
    surefoot.environment["TMPDIR"] = str(tmp_path)
    books = tmp_path / "surefoot-refunds" / "refunds"
    owed = {"R-101": 39.0, "R-103": 18.9, "R-104": 260.0}

    assert surefoot("run", REFUNDS / "task.yaml", "--id", "refunds")[0] == 3
    assert not books.exists()
    code, status = await approved(surefoot)
    assert (code, status["progress"], status["attempts"]) == (0, 1.0, 14)
    assert balances(books) == owed
    letters = (books / "post.jsonl").read_text("utf-8").splitlines()
    assert len(letters) == 4

    code, back = surefoot("rollback", "refunds", "decided")
    assert (code, surefoot("status", "refunds")[1]["status"]) == (0, "paused"), back
    assert balances(books) == dict.fromkeys(owed, 0.0)

    assert surefoot("resume", "refunds")[0] == 3
    code, status = await approved(surefoot)
    assert (code, status["milestones"]["rollbacks"]) == (0, 1)
    assert balances(books) == owed
    assert (books / "post.jsonl").read_text("utf-8").splitlines() == letters
    summary = json.loads(surefoot.artifact("refunds", "summary.json"))
    assert (summary["paid"], summary["refused"]) == (317.9, ["R-102"])


async def approved(surefoot: Command) -> tuple[int, Any]:
    """Say yes to all that is asked, and go on."""
    async with Surefoot(surefoot.settings) as client:
        for question in await client.questions("refunds"):
            await client.answer("refunds", question["id"], True)
    return surefoot("resume", "refunds")


def balances(books: Path) -> dict[str, float]:
    """What the bank holds for each request."""
    lines = [json.loads(line) for line in (books / "bank.jsonl").read_text("utf-8").splitlines()]
    sums = dict.fromkeys((line["request"] for line in lines), 0.0)
    for line in lines:
        sums[line["request"]] = round(sums[line["request"]] + line["amount"], 2)
    return sums
