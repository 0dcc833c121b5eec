"""An office in PostgreSQL: mails, events, project tasks, customers. Every call is one transaction.

The rows come from recorded tables. What must not be done twice (a mail, a new row) leaves its
answer with the same commit, so that its probe can tell; the rest may be done again.
"""

import os
from typing import Any, LiteralString

import psycopg
from langchain_core.tools import tool
from psycopg import sql
from psycopg.types.json import Jsonb

from surefoot.tools import ToolContext, effect

URL = "OFFICE_URL"
NOW = "2023-11-30 00:00:00"
KEYS = {
    "emails": "email_id",
    "events": "event_id",
    "tasks": "task_id",
    "customers": "customer_id",
    "plots": "plot",
}
"""Tables and their keys."""

OUTBOX = ("inbox_outbox", "sender_recipient", "subject", "sent_datetime", "body")


def connect() -> "psycopg.Connection[Any]":
    return psycopg.connect(os.environ[URL])


class Office:
    """What the calls do, on a connection of theirs; the caller commits."""

    def __init__(self, connection: "psycopg.Connection[Any]", schema: str = "office") -> None:
        self._connection = connection
        self._schema = schema

    def insert(self, table: str, **row: Any) -> str:
        """A new row under the next free id."""
        name = sql.Identifier(self._schema, table)
        key = KEYS[table]
        lock = sql.SQL("lock table {} in exclusive mode").format(name)
        self._connection.execute(lock)
        newest = sql.SQL("select coalesce(max({}::bigint), 0) + 1 from {}")
        found = self._connection.execute(newest.format(sql.Identifier(key), name)).fetchone()
        id = f"{found[0] if found else 1:08d}"
        self._put(name, {key: id, **row})
        return id

    def put(self, table: str, **row: Any) -> None:
        """A row that may be there already."""
        self._put(sql.Identifier(self._schema, table), row, " on conflict do nothing")

    def change(self, table: str, id: str, field: str, value: str) -> str:
        query = sql.SQL("update {} set {} = %s where {} = %s").format(
            sql.Identifier(self._schema, table),
            sql.Identifier(field),
            sql.Identifier(KEYS[table]),
        )
        self._connection.execute(query, (value, id))
        return "changed"

    def delete(self, table: str, id: str) -> str:
        query = sql.SQL("delete from {} where {} = %s").format(
            sql.Identifier(self._schema, table), sql.Identifier(KEYS[table])
        )
        self._connection.execute(query, (id,))
        return "deleted"

    def row(self, table: str, id: str) -> dict[str, Any]:
        query = sql.SQL("select to_jsonb(t) from {} t where {} = %s").format(
            sql.Identifier(self._schema, table), sql.Identifier(KEYS[table])
        )
        found = self._connection.execute(query, (id,)).fetchone()
        return found[0] if found else {}

    def _put(self, name: sql.Identifier, row: dict[str, Any], more: LiteralString = "") -> None:
        query = sql.SQL("insert into {} ({}) values ({})" + more).format(
            name,
            sql.SQL(", ").join(map(sql.Identifier, row)),
            sql.SQL(", ").join([sql.Placeholder()] * len(row)),
        )
        self._connection.execute(query, list(row.values()))

    # --- the recorded calls ------------------------------------------------------------------

    def send_email(self, recipient: str, subject: str, body: str) -> str:
        row = dict(zip(OUTBOX, ("outbox", recipient, subject, NOW, body), strict=True))
        return self.insert("emails", **row)

    def reply_email(self, email_id: str, body: str) -> str:
        first = self.row("emails", email_id)
        return self.send_email(first["sender_recipient"], first["subject"], body)

    def forward_email(self, email_id: str, recipient: str) -> str:
        first = self.row("emails", email_id)
        return self.send_email(recipient, f"FW: {first['subject']}", first["body"])

    def create_event(self, **given: str) -> str:
        return self.insert("events", **given)

    def create_task(self, **given: str) -> str:
        return self.insert("tasks", **given)

    def add_customer(self, **given: str) -> str:
        return self.insert("customers", **given)

    def create_plot(self, **given: str) -> str:
        self.put("plots", plot=repr(sorted(given.items())))
        return "drawn"

    def update_task(self, task_id: str, field: str, new_value: str) -> str:
        return self.change("tasks", task_id, field, new_value)

    def update_customer(self, customer_id: str, field: str, new_value: str) -> str:
        return self.change("customers", customer_id, field, new_value)

    def delete_email(self, email_id: str) -> str:
        return self.delete("emails", email_id)

    def delete_event(self, event_id: str) -> str:
        return self.delete("events", event_id)

    def delete_customer(self, customer_id: str) -> str:
        return self.delete("customers", customer_id)


ONCE = ("send_email", "reply_email", "forward_email", "create_event", "create_task", "add_customer")


def was_made(args: dict[str, Any], context: ToolContext) -> Any:
    with connect() as connection:
        query = "select answer from office.calls where subtask = %s"
        found = connection.execute(query, (context.subtask_id,)).fetchone()
    return found[0] if found else None


def make(name: str, args: dict[str, Any], context: ToolContext) -> str:
    with connect() as connection:
        answer: str = getattr(Office(connection), name)(**args)
        connection.execute(
            "insert into office.calls (subtask, answer) values (%s, %s)"
            " on conflict (subtask) do update set times = office.calls.times + 1",
            (context.subtask_id, Jsonb(answer)),
        )
    return answer


@effect("irreversible", probe=was_made)
@tool
def once(name: str, arguments: dict[str, Any], context: ToolContext) -> str:
    """Do something in the office that must not be done twice."""
    return make(name, arguments, context)


@effect("idempotent")
@tool
def again(name: str, arguments: dict[str, Any], context: ToolContext) -> str:
    """Do something in the office that may be done again."""
    return make(name, arguments, context)


TOOLS = [once, again]
