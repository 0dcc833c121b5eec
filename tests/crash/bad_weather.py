"""Ways in which a database does not serve, each made with the real server, and undone.

Each is a class: made before a run (`prepare`), begun and ended in its middle.
"""

import os
import re
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import psycopg
from conftest import Sql

DISK_BYTES = 24 << 20
TABLES = ("surefoot.effects", "surefoot.events", "surefoot.subtasks", "checkpoints")


class Weather:
    """What comes over the test's own database. `readable`: whether it can be looked into."""

    readable = True

    def __init__(self, sql: Sql) -> None:
        self.sql = sql
        self.name: str = sql.value("select current_database()")
        self.admin = Sql(sql.url.replace(f"/{self.name}?", "/postgres?"))

    @property
    def url(self) -> str:
        """The database as the run sees it."""
        return self.sql.url

    def prepare(self) -> None:
        """Before the run."""

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def clear(self) -> None:
        """After the test, whatever happened."""
        with suppress(psycopg.Error):
            self.end()

    def cut(self) -> None:
        """End every other connection to the database."""
        self.admin.rows(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity"
            " where datname = %s and pid <> pg_backend_pid()",
            self.name,
        )


class Closed(Weather):
    """It takes no connection, as while the server starts or is moved."""

    readable = False

    def begin(self) -> None:
        self.admin.rows(f"alter database {self.name} allow_connections false")
        self.cut()

    def end(self) -> None:
        self.admin.rows(f"alter database {self.name} allow_connections true")


class ReadOnly(Weather):
    """It answers and writes nothing, as a standby or a server near its limits."""

    def begin(self) -> None:
        self.admin.rows(f"alter database {self.name} set default_transaction_read_only = on")
        self.cut()

    def end(self) -> None:
        self.admin.rows(f"alter database {self.name} reset default_transaction_read_only")
        self.cut()


class FullDisk(Weather):
    """The disk under some of its tables is full: a small one of their own (needs root)."""

    def prepare(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="surefoot-test-disk-"))
        size = f"size={DISK_BYTES}"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", size, "tmpfs", self.folder],
            check=True,
            capture_output=True,
        )
        data = os.stat(self.sql.value("show data_directory"))
        place = self.folder / "space"
        place.mkdir()
        os.chown(place, data.st_uid, data.st_gid)
        self.sql.rows(f"create tablespace {self.name} location '{place}'")
        for table in TABLES:
            self.sql.rows(f"alter table {table} set tablespace {self.name}")

    def begin(self) -> None:
        with suppress(OSError), (self.folder / "filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(4096))

    def end(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def clear(self) -> None:
        self.end()
        self.cut()
        for table in TABLES:
            self.sql.rows(f"alter table {table} set tablespace pg_default")
        self.sql.rows(f"drop tablespace {self.name}")
        subprocess.run(["umount", self.folder], check=True)
        self.folder.rmdir()


class SaysFull(Weather):
    """The same by its word alone: every insert is refused as on a full disk."""

    def prepare(self) -> None:
        self.sql.rows(
            "create function full_disk() returns trigger language plpgsql as $$ begin"
            " raise exception 'could not extend file: No space left on device'"
            " using errcode = 'disk_full'; end $$"
        )

    def begin(self) -> None:
        for table in TABLES:
            self.sql.rows(
                f"create trigger full_disk before insert or update on {table}"
                " for each row execute function full_disk()"
            )

    def end(self) -> None:
        for table in TABLES:
            self.sql.rows(f"drop trigger full_disk on {table}")


class Crowded(Weather):
    """The user of the run may have no more connections: others have taken them all."""

    readable = False

    def prepare(self) -> None:
        self.role = f"crowd_{self.name}"
        self.sql.rows(f"create role {self.role} login")
        self.sql.rows(f"grant create on database {self.name} to {self.role}")
        for schema in ("surefoot", "public"):
            self.sql.rows(f"grant usage on schema {schema} to {self.role}")
            for kind in ("tables", "sequences"):
                self.sql.rows(f"grant all on all {kind} in schema {schema} to {self.role}")

    @property
    def url(self) -> str:
        """The database as that user."""
        return re.sub(r"postgresql://[^@/]*@?/", f"postgresql://{self.role}@/", self.sql.url)

    def begin(self) -> None:
        self.admin.rows(f"alter role {self.role} connection limit 0")
        self.cut()

    def end(self) -> None:
        self.admin.rows(f"alter role {self.role} connection limit -1")

    def clear(self) -> None:
        self.sql.rows(f"drop owned by {self.role}")
        self.sql.rows(f"drop role {self.role}")
