"""Plans with one thing broken: valid plans made at random, and one way to break each rule of plans.

Every break names the fault that must be found; nothing else of the plan is touched.
"""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from surefoot.graph.ports import EffectKind, ToolSpec

Json = dict[str, Any]


def _spec(name: str, effect: EffectKind, **properties: Any) -> ToolSpec:
    schema: Json = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
    }
    return ToolSpec(name=name, description=name, schema=schema, effect=effect)


TOOLS = {
    spec.name: spec
    for spec in (
        _spec("look", "read", path="string"),
        _spec("count", "read", text="string", times="integer"),
        _spec("write_text", "idempotent", path="string", text="string"),
        _spec("send", "irreversible", to="string"),
        _spec("wipe", "irreversible", path="string"),
    )
}


@dataclass
class Seed:
    """A valid task without its plan, the plan, and the models configured outside."""

    task: Json
    plan: Json
    models: tuple[str, ...] = ("m",)
    draw: random.Random = field(default_factory=random.Random)

    def step(self, kind: str | None = None) -> Json:
        """A subtask, of a kind if that matters; the last two cover everything and are not taken."""
        steps = [s for s in self.plan["subtasks"][:-2] if kind is None or s["kind"] == kind]
        return self.draw.choice(steps)

    @property
    def report(self) -> Json:
        """The subtask with the report."""
        return self.plan["subtasks"][-2]


def seed(number: int) -> Seed:
    """A valid plan: a random graph of tools and agents, a list to go through, two ends."""
    draw = random.Random(number)
    steps = [_tool("s0", path="a")]
    for n in range(1, draw.randint(4, 14)):
        needs = draw.sample([s["id"] for s in steps], draw.randint(1, min(3, len(steps))))
        make = draw.choice([_tool, _tool, _counting, _agent])
        steps.append(make(f"s{n}", *needs))
    steps.append(_agent(f"s{len(steps)}", "s0"))
    steps.append(_each(f"s{len(steps)}", "s0"))
    last = steps[-1]["id"]
    for one, phase in zip(steps, ["p0"] * (len(steps) // 2) + ["p1"] * len(steps), strict=False):
        one["phase"] = phase
    report = _agent("report", last, outputs=["report.md"], covers=["o1", "a1"], phase="p1")
    summary = _tool("summary", "report", phase="p1", covers=["o2", "a2"])
    summary |= {
        "tool": "write_text",
        "args": {"path": "out/summary.txt", "text": "${report.text}"},
        "writes": ["out/summary.txt"],
    }
    phases: list[Json] = [{"id": p, "name": p, "objective": p, "covers": []} for p in ("p0", "p1")]
    milestones: list[Json] = [{"id": "m0", "after": "p0", "checks": [], "on_failure": ["fail"]}]
    plan: Json = {"phases": phases, "subtasks": [*steps, report, summary], "milestones": milestones}
    return Seed(_task(), plan, draw=draw)


def _task() -> Json:
    return {
        "goal": {
            "objectives": [{"id": "o1", "text": "a report"}, {"id": "o2", "text": "a summary"}],
            "acceptance": [
                {"id": "a1", "type": "artifact", "name": "report.md", "min_bytes": 1},
                {"id": "a2", "type": "file", "path": "out/summary.txt"},
            ],
            "prohibitions": [{"tool": "wipe"}],
            "inputs": {"word": "hello"},
        },
        "budget": {"max_seconds": 3600, "max_steps": 500},
    }


def _step(id: str, *needs: str, **more: Any) -> Json:
    base: Json = {
        "id": id,
        "name": id,
        "description": f"what {id} does",
        "depends_on": list(needs),
        "covers": [],
        "weight": 5,
        "importance": "normal",
        "resumable": True,
        "skippable": False,
        "estimated_seconds": 5,
        "outputs": [],
        "success": [{"type": "result"}],
        "on_failure": [],
    }
    return base | more


def _tool(id: str, *needs: str, path: str = "", **more: Any) -> Json:
    looked = path or f"${{{needs[-1]}.path}}/{id}"
    return _step(id, *needs, kind="tool", tool="look", args={"path": looked}) | more


def _counting(id: str, *needs: str) -> Json:
    args = {"text": f"${{inputs.word}} {id}", "times": len(needs)}
    return _step(id, *needs, kind="tool", tool="count", args=args)


def _agent(id: str, *needs: str, **more: Any) -> Json:
    outputs = [f"{id}.txt"]
    told = f"Look at ${{{needs[-1]}}} and write {id}."
    return (
        _step(id, *needs, kind="agent", instructions=told, tools=["look"], outputs=outputs) | more
    )


def _each(id: str, *needs: str) -> Json:
    each: Json = {"kind": "tool", "tool": "look", "args": {"path": "${item}"}}
    each["success"] = [{"type": "result"}]
    return _step(id, *needs, kind="foreach", for_each=f"${{{needs[-1]}.files}}", each=each)


# --- breaking one thing ----------------------------------------------------------------------


def _add(seed: Seed, **more: Any) -> Json:
    """One subtask more, in front of the two that are never taken."""
    added = _tool("added", "s0") | more
    seed.plan["subtasks"].insert(1, added)
    return added


def _late(seed: Seed) -> None:
    other = seed.step()
    seed.plan["subtasks"][0]["args"] = {"path": f"${{{other['id']}.path}}/x"}
    if other["id"] == "s0":
        seed.plan["subtasks"][0]["args"] = {"path": "${report.text}"}


def _copied(seed: Seed, **changed: Any) -> None:
    _add(seed, tool="send", args={"to": "${ s0.path }"})
    twin = _add(seed, tool="send", args={"to": "${s0.result.path}"})
    twin.update(id="twin", **changed)


def _same_files(seed: Seed) -> None:
    _add(seed, writes=["work/*"])
    _add(seed, writes=["work/a.txt"], args={"path": "q"})["id"] = "twin"


def _unordered_cycle(seed: Seed) -> None:
    later = seed.draw.choice([s for s in seed.plan["subtasks"] if s["depends_on"]])
    first = next(s for s in seed.plan["subtasks"] if s["id"] == later["depends_on"][0])
    first["depends_on"] = [*first["depends_on"], later["id"]]


def _dropped(seed: Seed) -> None:
    del seed.step("tool")[seed.draw.choice(["name", "weight", "resumable", "skippable", "args"])]


def _covers_all(seed: Seed) -> None:
    seed.report["covers"] = ["o1", "o2", "a1", "a2"]


def _in_name_only(seed: Seed) -> None:
    seed.report.update(outputs=[], covers=[])
    label: Json = {"kind": "agent", "instructions": "x", "tools": [], "outputs": []}
    _add(seed, covers=["o1", "a1"], **label)
    for key in ("tool", "args"):
        seed.plan["subtasks"][1].pop(key)


def _unpriced(seed: Seed) -> None:
    seed.task["budget"]["max_cost_usd"] = 1


def _modelless(seed: Seed) -> None:
    seed.models = ()


Break = Callable[[Seed], Any]

BREAKS: dict[str, list[Break]] = {
    "schema": [
        _dropped,
        lambda s: s.step().update(weight="5"),
        lambda s: s.step().update(prio=1),
        lambda s: s.step().update(phase="p9"),
        lambda s: s.plan.update(subtasks=[]),
    ],
    "duplicate_id": [lambda s: _add(s).update(id="report")],
    "unknown_dependency": [lambda s: s.step()["depends_on"].append("nowhere")],
    "self_dependency": [lambda s: (one := s.step())["depends_on"].append(one["id"])],
    "cycle": [_unordered_cycle],
    "unknown_tool": [
        lambda s: s.step("tool").update(tool="shout"),
        lambda s: s.step("agent").update(tools=["LOOK"]),
        lambda s: s.step("foreach")["each"].update(tool="functions.look"),
    ],
    "bad_arguments": [
        lambda s: _add(s, tool="count", args={"text": "x", "times": "two"}),
        lambda s: _add(s, tool="count", args={"text": "x"}),
        lambda s: _add(s, args={"path": "x", "depth": 1}),
        lambda s: _add(s, tool="count", args={"text": "x", "times": "${s0.n} of it"}),
    ],
    "unknown_reference": [
        lambda s: _add(s, args={"path": "${nobody.path}"}),
        lambda s: _add(s, args={"path": "${inputs.wrod}"}),
        lambda s: _add(s, args={"path": "${item}"}),
        lambda s: s.step().update(covers=["o7"]),
        lambda s: s.step("agent").update(success=[{"type": "artifact", "name": "nobodys.txt"}]),
    ],
    "forward_reference": [_late],
    "output_conflict": [
        lambda s: s.step("agent").update(outputs=["report.md"]),
        _same_files,
    ],
    "duplicate_work": [_copied],
    "granularity": [
        lambda s: s.step("agent").update(outputs=[f"f{n}" for n in range(6)]),
        _covers_all,
    ],
    "uncovered_criterion": [
        lambda s: s.report.update(outputs=["other.md"]),
        lambda s: s.plan["subtasks"][-1].update(covers=["a2"]),
        lambda s: s.plan["subtasks"][-1].update(
            tool="look", args={"path": "x"}, writes=[], covers=["o2", "a2"]
        ),
        _in_name_only,
    ],
    "unverifiable": [lambda s: s.step("tool").update(success=[], outputs=[])],
    "no_way_back": [lambda s: _add(s, tool="send", args={"to": "x"}, approve="never")],
    "prohibited": [lambda s: _add(s, tool="wipe")],
    "missing_permission": [
        lambda s: s.step("agent").update(tools=["look", "wipe"]),
        lambda s: s.step("tool").update(writes=["../elsewhere/*"]),
    ],
    "over_budget": [
        lambda s: s.step().update(estimated_seconds=40_000),
        lambda s: s.task["budget"].update(max_steps=3),
    ],
    "missing_model": [_modelless],
    "missing_price": [_unpriced],
    "missing_resource": [
        lambda s: s.step("tool").update(success=[{"type": "python", "call": "no_such_mod:f"}]),
        lambda s: s.step("tool").update(success=[{"type": "python", "call": "checks:missing"}]),
        lambda s: s.step("tool").update(success=[{"type": "command", "run": "no-such-program"}]),
    ],
}
"""Ways to break each rule, by the code that must be found."""


def broken(number: int, code: str, way: int) -> Seed:
    """A seed with one thing broken."""
    made = seed(number)
    copied = Seed(copy.deepcopy(made.task), copy.deepcopy(made.plan), made.models, made.draw)
    BREAKS[code][way](copied)
    return copied
