"""Checks: what must hold, asked on the evidence itself (contract §1, Checks).

Programs decide first, then the injected judge; `person` checks come back undecided, with what is to
be looked at. A failed check is a value, never an exception.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from surefoot.graph.checks import (
    PROGRAM_CHECKS,
    ArtifactCheck,
    Check,
    CommandCheck,
    FileCheck,
    JudgeCheck,
    PersonCheck,
    PythonCheck,
    ResultCheck,
)
from surefoot.graph.errors import InconsistentState, PermanentError
from surefoot.graph.judging import Judge, JudgeCase, Verdict
from surefoot.graph.plain import clean_text, compact_json
from surefoot.graph.ports import ArtifactStore, ToolCall, ToolHost
from surefoot.graph.references import dig, find_references, split_path
from surefoot.graph.shapes import is_array, is_object
from surefoot.graph.values import ArtifactRef, Json, JsonObject
from surefoot.tools.bindings import ValueCache
from surefoot.tools.content_checks import same_json
from surefoot.tools.contents import Contents, ask_host, shown
from surefoot.tools.evidence import Evidence
from surefoot.tools.person_samples import shown_to_people
from surefoot.tools.stopping import Cut

COMMAND_TIMEOUT_S = 120.0
PIECE_BYTES = 64 * 1024
"""So much of one artifact goes to a judge at most."""
WHY_CHARS = 1000

Why = tuple[bool, str]
"""Whether a check holds, and why or why not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Evaluates program checks for one task.

    Attributes:
        readable: declared inputs, which `file` checks may look at besides the workspace.
        judge: decides `judge` checks; without one they do not hold.
        copies: where artifacts are laid out for `python` checks.
    """

    host: ToolHost
    store: ArtifactStore
    values: ValueCache
    task_id: str
    workspace: Path
    task_dir: Path
    copies: Path
    readable: tuple[Path, ...]
    judge: Judge | None = None

    async def evaluate(self, checks: Sequence[Check], evidence: Evidence) -> list[JsonObject]:
        """One `{type, id, ok, why, ...}` per check, in their order; never raises for a failed one.

        Programs are asked first, a judge only when all of them hold. What is left to people is
        not ok and `undecided`, with the texts `shown`: `person` checks, and `unsure` verdicts. A
        check that a judge could not decide has a `kind` that says why.

        Raises:
            CallStopped, InconsistentState: of a judge; see `Judge`.
        """
        order = sorted(range(len(checks)), key=lambda n: _RANK.get(checks[n].type, 0))
        found: dict[int, JsonObject] = {}
        for n in order:
            check = checks[n]
            if isinstance(check, JudgeCheck) and not all(map(_may_hold, found.values())):
                found[n] = {**_facts(check), "ok": False, "why": "not asked: another check failed"}
            else:
                found[n] = await self._one(check, evidence)
        return [found[n] for n in range(len(checks))]

    async def _one(self, check: Check, evidence: Evidence) -> JsonObject:
        try:
            plain = check.model_dump(exclude_unset=True)
            if find_references(plain):
                check = type(check).model_validate(await evidence.scope.resolve(plain))
            if isinstance(check, JudgeCheck):
                return await self._judged(check, evidence)
            if isinstance(check, PersonCheck):
                return await self._left_to_people(check, evidence)
            ok, why = await self._holds(check, evidence)
        except InconsistentState:
            raise  # nothing may be sent to a judge: that is no verdict about the work
        except PermanentError as missing:
            ok, why = False, str(missing)
        except ValueError as wrong:  # a resolved value that does not fit the check's own field
            ok, why = False, f"the check cannot be used: {wrong}"
        return {**_facts(check), "ok": ok, "why": clean_text(why)[:WHY_CHARS]}

    async def _holds(self, check: Check, evidence: Evidence) -> Why:
        match check:
            case ResultCheck():
                return await self._result(check, evidence)
            case ArtifactCheck():
                return await self._artifact(check, evidence)
            case FileCheck():
                return await asyncio.to_thread(self._file, check)
            case CommandCheck():
                return await self._command(check, evidence)
            case PythonCheck():
                return await self._python(check, evidence)
            case JudgeCheck() | PersonCheck():
                raise AssertionError("judges and people are asked apart")
            case _:
                assert_never(check)

    # --- judge -------------------------------------------------------------------------------

    async def _judged(self, check: JudgeCheck, evidence: Evidence) -> JsonObject:
        if self.judge is None or evidence.brief is None:
            verdict = Verdict(ok=False, why="no model is there to judge it", kind="missing_model")
        else:
            case = JudgeCase(
                rubric=check.rubric,
                brief=evidence.brief,
                pieces=await self._pieces(evidence),
                subtask=evidence.subtask,
                attempt=evidence.attempt,
            )
            verdict = await self.judge(case)
        more = {"kind": verdict.kind, "confidence": verdict.confidence}
        said = {key: value for key, value in more.items() if value not in (None, "")}
        why = clean_text(verdict.why)[:WHY_CHARS]
        judged: JsonObject = {**_facts(check), "ok": verdict.ok, "why": why, **said}
        if not verdict.unsure:
            return judged
        looked_at = await shown_to_people(evidence, self.values, self.store)
        return {**judged, "ok": False, "undecided": True, "shown": looked_at}

    async def _left_to_people(self, check: PersonCheck, evidence: Evidence) -> JsonObject:
        looked_at = await shown_to_people(
            evidence,
            self.values,
            self.store,
            sample=check.sample,
            seed=f"{self.task_id} {check.question}",
        )
        asked: JsonObject = {**_facts(check), "ok": False, "why": "a person must say"}
        return {**asked, "undecided": True, "shown": looked_at}

    async def _pieces(self, evidence: Evidence) -> list[tuple[str, str]]:
        """What a judge is shown: results and the artifacts as text, each to `PIECE_BYTES`."""
        pieces: list[tuple[str, str]] = []
        if evidence.result is not None:
            pieces.append(("result", compact_json(await self._value(evidence))))
        for id, stored in evidence.results.items():
            pieces.append((f"result of {id}", compact_json(await self.values.load(stored))))
        for name in evidence.names:
            for ref in evidence.artifacts(name) or ():
                content = await self.store.get_bytes(ref["sha256"])
                text = content[:PIECE_BYTES].decode("utf-8", "replace")
                if len(content) > PIECE_BYTES:
                    text += f"\n[... {len(content) - PIECE_BYTES} more bytes are not shown]"
                pieces.append((f"artifact {name}", text))
        return pieces

    # --- result ------------------------------------------------------------------------------

    async def _result(self, check: ResultCheck, evidence: Evidence) -> Why:
        if evidence.result is None:
            return False, "there is no result"
        whole = await self._value(evidence)
        value = dig(whole, split_path(check.path), reference=f"result.{check.path}")
        stated = check.model_fields_set
        if "equals" in stated and not same_json(value, check.equals):
            return False, f"it is {shown(value)}, not {shown(check.equals)}"
        if check.min_items is not None:
            if not is_array(value):
                return False, f"it is no list but {shown(value)}"
            if len(value) < check.min_items:
                return False, f"it has {len(value)} items, fewer than {check.min_items}"
        if check.json_schema is not None:
            fault = await Contents(self.host, evidence.subtask).schema_fault(
                check.json_schema, value
            )
            if fault is not None:
                return False, fault
        if value is None and not {"equals", "min_items", "json_schema"} & stated:
            return False, "it is null"
        return True, f"it is {shown(value)}"

    async def _value(self, evidence: Evidence) -> Json:
        value = await self.values.load(evidence.result or {})
        if evidence.skipping and is_array(value):
            return [one for n, one in enumerate(value) if n not in evidence.skipping]
        return value

    # --- artifacts ---------------------------------------------------------------------------

    async def _artifact(self, check: ArtifactCheck, evidence: Evidence) -> Why:
        refs = evidence.artifacts(check.name)
        if refs is None:
            return False, f"there is no artifact {check.name!r}"
        if not refs:
            return True, "no child is left that must have it"
        why = ""
        for n, ref in enumerate(refs):
            ok, why = await self._version(check, ref, evidence)
            if not ok:
                return False, why if len(refs) == 1 else f"number {n} of {len(refs)}: {why}"
        return True, why if len(refs) == 1 else f"all {len(refs)} hold; the last: {why}"

    async def _version(self, check: ArtifactCheck, ref: ArtifactRef, evidence: Evidence) -> Why:
        if check.min_bytes is not None and ref["size"] < check.min_bytes:
            return False, f"it has {ref['size']} bytes, fewer than {check.min_bytes}"
        about_text = check.contains is not None or check.regex is not None
        if about_text or check.json_schema is not None or evidence.fresh:
            content = await self.store.get_bytes(ref["sha256"])
            fault = await Contents(self.host, evidence.subtask).fault(check, content)
            if fault is not None:
                return False, fault
        return True, f"{ref['size']} bytes, sha256 {ref['sha256'][:12]}"

    # --- files -------------------------------------------------------------------------------

    def _file(self, check: FileCheck) -> Why:
        path = (self.workspace / check.path).resolve()
        roots = [root.resolve() for root in (self.workspace, *self.readable)]
        if not any(path == root or root in path.parents for root in roots):
            return False, f"{check.path} is neither in the workspace nor a declared input"
        if path.exists() is not check.exists:
            return False, f"{path} {'does not exist' if check.exists else 'exists'}"
        if check.contains is None or not check.exists:
            return True, f"{path} {'exists' if check.exists else 'does not exist'}"
        try:
            found = check.contains.encode() in path.read_bytes()
        except OSError as unreadable:
            return False, f"{path} cannot be read: {unreadable}"
        return (
            found,
            f"{path} {'contains' if found else 'does not contain'} {shown(check.contains)}",
        )

    # --- commands and functions --------------------------------------------------------------

    async def _command(self, check: CommandCheck, evidence: Evidence) -> Why:
        reply = await self.host.call(
            ToolCall(
                tool="run_command",
                args={"command": check.run},
                subtask=evidence.subtask,
                attempt=evidence.attempt,
                failed_attempts=0,
                idempotency_key="",
                timeout_s=check.timeout_seconds or COMMAND_TIMEOUT_S,
                writes=None,
                readable=self.readable,
            )
        )
        if reply.status == "cut":
            raise Cut
        if reply.status != "ok" or not is_object(reply.value):
            return False, f"{reply.status}: {reply.message}"
        code = reply.value.get("exit_code")
        tail = "\n".join(str(reply.value.get(k) or "")[-300:] for k in ("stdout", "stderr")).strip()
        return code == 0, f"exit code {code}" + (f": {tail}" if tail and code != 0 else "")

    async def _python(self, check: PythonCheck, evidence: Evidence) -> Why:
        context: JsonObject = {
            "task_id": self.task_id,
            "subtask": evidence.subtask,
            "attempt": evidence.attempt,
            "workspace": str(self.workspace),
            "task_dir": str(self.task_dir),
            "inputs": evidence.scope.inputs,
            "result": None if evidence.result is None else await self._value(evidence),
            "artifacts": await self._copies(evidence),
        }
        answer = await ask_host(self.host, check.call, context, timeout_s=COMMAND_TIMEOUT_S)
        if answer is True:
            return True, f"{check.call} says it holds"
        return False, f"{check.call} says no" if answer is False else str(answer)

    async def _copies(self, evidence: Evidence) -> JsonObject:
        """Paths of the artifacts by name (of several children: lists), for a function to open."""
        paths: JsonObject = {}
        for name in evidence.names:
            refs = evidence.artifacts(name) or ()
            folder = self.copies / (evidence.subtask or "_")
            found = [
                str(await self.store.materialise(ref, folder / str(n) if n else folder))
                for n, ref in enumerate(refs)
            ]
            paths[name] = found[0] if len(found) == 1 else found
        return paths


def failed(checks: Sequence[JsonObject]) -> str | None:
    """What did not hold, one phrase per check; None when all program checks do."""
    why = [
        f"{one['id'] or one['type']}: {one['why']}"
        for one in checks
        if one["type"] in PROGRAM_CHECKS and not one["ok"]
    ]
    return "; ".join(why) or None


def refused_by_judge(
    checks: Sequence[JsonObject], *, doubts_to_people: bool
) -> tuple[str, str] | None:
    """(failure kind, why) of the first `judge` check that does not hold; None when all do.

    `doubts_to_people`: one that the judge is not sure of does not fail: people decide it.
    """
    for one in checks:
        left = doubts_to_people and one.get("undecided")
        if one["type"] == "judge" and not one["ok"] and not left:
            return one.get("kind") or "check_failed", f"{one['id'] or 'judge'}: {one['why']}"
    return None


def _may_hold(check: JsonObject) -> bool:
    return bool(check["ok"] or check.get("undecided"))


_RANK = {"judge": 1, "person": 2}


def _facts(check: Check) -> JsonObject:
    """What a check is about: its type and id, and the name, path or call it looks at."""
    facts: JsonObject = {"type": check.type, "id": check.id}
    for key in ("name", "path", "run", "call", "rubric", "question", "sample"):
        value = getattr(check, key, None)
        if value is not None:
            facts[key] = value
    return facts
