"""Recorded worlds as tools: a simulator of the benchmark's own package, kept in a file outside.

A call loads the simulator, calls it, and puts state and answer down in one step (rename). What it
remembers of a call is what its probe may be told. No part of that package is here.
"""

import fcntl
import importlib
import json
import os
import pickle
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from surefoot.tools import ToolContext, effect

PACKAGE = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
MODULES = {
    "MessageAPI": "message_api",
    "VehicleControlAPI": "vehicle_control",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
}


def new_world(config: dict[str, Any], classes: list[str]) -> dict[str, Any]:
    """Simulators in their first state, by class; `answers` of calls that were made, by key."""
    simulators: dict[str, Any] = {}
    for name in classes:
        simulators[name] = getattr(importlib.import_module(f"{PACKAGE}.{MODULES[name]}"), name)()
        simulators[name]._load_scenario(json.loads(json.dumps(config.get(name, {}))))
    return {"simulators": simulators, "answers": {}}


def call_in(world: dict[str, Any], name: str, args: dict[str, Any]) -> Any:
    """Call whichever simulator knows it; under `*` stand the arguments without a name."""
    methods = [getattr(one, name) for one in world["simulators"].values() if hasattr(one, name)]
    named = {key: value for key, value in args.items() if key != "*"}
    return json.loads(json.dumps(methods[0](*args.get("*", ()), **named), default=str))


def store(world: dict[str, Any], folder: Path) -> None:
    new = folder / "world.new"
    new.write_bytes(pickle.dumps(world))
    os.replace(new, folder / "world")


def load(folder: Path) -> dict[str, Any]:
    return pickle.loads((folder / "world").read_bytes())


@contextmanager
def held(folder: Path) -> Generator[dict[str, Any]]:
    """The world, nobody else's meanwhile."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield load(folder)


def key_of(context: ToolContext) -> str:
    return f"{context.task_id}/{context.subtask_id}"


def make(folder: str, name: str, args: dict[str, Any], context: ToolContext) -> Any:
    with held(Path(folder)) as world:
        answer = call_in(world, name, args)
        world["answers"][key_of(context)] = answer
        store(world, Path(folder))
    return answer


def was_made(args: dict[str, Any], context: ToolContext) -> Any:
    with held(Path(args["folder"])) as world:
        return world["answers"].get(key_of(context))


@effect("read")
@tool
def look_up(folder: str, name: str, arguments: dict[str, Any]) -> Any:
    """Ask the world something."""
    with held(Path(folder)) as world:
        return call_in(world, name, arguments)


@effect("idempotent")
@tool
def set_to(folder: str, name: str, arguments: dict[str, Any], context: ToolContext) -> Any:
    """Change the world in a way that may be done again."""
    return make(folder, name, arguments, context)


@effect("irreversible", probe=was_made)
@tool
def do_once(folder: str, name: str, arguments: dict[str, Any], context: ToolContext) -> Any:
    """Change the world in a way that shows when it is done twice."""
    return make(folder, name, arguments, context)


TOOLS = [look_up, set_to, do_once]
