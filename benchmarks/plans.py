"""Does the validator find what is wrong with a plan, and only that?

Three sources: valid plans with one thing broken, once for every rule; plans that models really
wrote; planner's answers that go wrong on the way. Recall is the share of broken ones refused for
the right reason, a false alarm is a fault in a valid one. No database, no network, no model.
"""

import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks import malformed, plan_faults, report, taskbench
from surefoot.graph.validation import LocalWorld, plain_faults, validate_plan
from surefoot.models.answers import parse_answer

SEEDS = 40
RECALL = 0.98
FALSE_ALARMS = 0.02


def faults_of(seed: plan_faults.Seed, world: LocalWorld) -> set[str]:
    """Codes of what is wrong with a seeded plan."""
    found = validate_plan(
        seed.plan, seed.task, tools=plan_faults.TOOLS, world=world, models=seed.models
    )
    return {fault.code for fault in found.faults}


def seeded(world: LocalWorld) -> dict[str, Any]:
    """Recall by code, and false alarms among the plans that nothing was done to."""
    found: dict[str, list[bool]] = defaultdict(list)
    for code, ways in plan_faults.BREAKS.items():
        for way in range(len(ways)):
            for n in range(SEEDS):
                found[code].append(code in faults_of(plan_faults.broken(n, code, way), world))
    alarms = [bool(faults_of(plan_faults.seed(n), world)) for n in range(10 * SEEDS)]
    return {
        "broken": sum(map(len, found.values())),
        "valid": len(alarms),
        "recall": share([hit for hits in found.values() for hit in hits]),
        "recall_by_code": {code: share(hits) for code, hits in found.items()},
        "false_alarms": share(alarms),
    }


def by_models(world: LocalWorld) -> dict[str, Any]:
    """Recall by defect, and false alarms among the plans that are structurally valid."""
    found: dict[str, list[bool]] = defaultdict(list)
    alarms: list[bool] = []
    task = {"goal": {"objective": "as asked"}}
    for one in taskbench.recorded():
        judged = validate_plan(one.plan, task, tools=one.tools, world=world)
        codes = {fault.code for fault in judged.faults}
        if one.valid:
            alarms.append(bool(codes))
        for defect in one.defects & taskbench.REFUSED.keys():
            found[defect].append(bool(codes & taskbench.REFUSED[defect]))
    return {
        "broken": sum(map(len, found.values())),
        "valid": len(alarms),
        "recall": share([hit for hits in found.values() for hit in hits]),
        "recall_by_defect": {defect: share(hits) for defect, hits in found.items()},
        "false_alarms": share(alarms),
    }


def answers(world: LocalWorld) -> dict[str, Any]:
    """Malformed answers refused, answers with a whole plan in them accepted unchanged."""
    plan = plan_faults.seed(3).plan
    other = plan_faults.seed(4).plan
    task = plan_faults.seed(3).task
    refused: list[bool] = []
    accepted: list[bool] = []
    for one in malformed.templates(plan, other):
        value = usable(one.text, task, world) if one.finish_reason == "stop" else None
        if one.must_accept:
            accepted.append(value == plan)
        elif one.must_refuse:
            refused.append(value is None)
    real = malformed.real_answers()
    refused += [usable(text, task, world) is None for text in real]
    wrong = [not hit for hit in accepted]
    return {
        "broken": len(refused),
        "valid": len(accepted),
        "recall": share(refused),
        "false_alarms": share(wrong),
    }


def usable(text: str | None, task: dict[str, Any], world: LocalWorld) -> Any:
    """The plan in an answer where it may run, else None."""
    value, faults = parse_answer(text or "", None)
    if faults or plain_faults(value):
        return None
    tools = plan_faults.TOOLS
    judged = validate_plan(value, task, tools=tools, world=world, models=("m",))
    return value if judged.valid else None


def share(hits: list[bool]) -> float:
    """Part of them that is true, 4 digits."""
    return round(sum(hits) / len(hits), 4) if hits else 0.0


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "checks.py").write_text("def there(context):\n    return True\n")
        world = LocalWorld(task_dir=Path(folder))
        found = {"seeded": seeded(world), "taskbench": by_models(world), "answers": answers(world)}
    met = all(
        one["recall"] >= RECALL and one["false_alarms"] <= FALSE_ALARMS for one in found.values()
    )
    at_least = {"recall": RECALL, "false_alarms": FALSE_ALARMS}
    report.print_document(
        "is a bad plan refused and a good one taken", **found, wanted=at_least, met=met
    )


if __name__ == "__main__":
    main()
