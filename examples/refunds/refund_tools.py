"""Tools of the refunds example. Two books in a folder stand for the bank and the post office.

The folder is `surefoot-refunds/TASK` below the system's folder for temporary files: the world
outside, which no snapshot of the workspace holds.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from langchain_core.tools import tool

from surefoot.tools import NotDone, ToolContext, effect

RETURN_DAYS = 30


def _book(context: ToolContext, name: str) -> Path:
    folder = Path(tempfile.gettempdir()) / "surefoot-refunds" / context.task_id
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _lines(book: Path) -> list[dict[str, Any]]:
    if not book.exists():
        return []
    return [json.loads(line) for line in book.read_text(encoding="utf-8").splitlines()]


def _enter(book: Path, line: dict[str, Any]) -> None:
    with book.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(line, ensure_ascii=False) + "\n")


@effect("read")
@tool
def open_requests(path: str) -> dict[str, Any]:
    """Read the refund requests."""
    return {"open": json.loads(Path(path).read_text(encoding="utf-8"))}


@effect("read")
@tool
def decide_request(request: dict[str, Any]) -> dict[str, Any]:
    """Decide by the rules: broken goods always, anything else within thirty days."""
    owed = request["reason"] == "arrived broken" or request["days"] <= RETURN_DAYS
    return {"request": request, "owed": owed}


def _take_payment_back(args: dict[str, Any], result: Any, context: ToolContext) -> None:
    request = args["decision"]["request"]["id"]
    bank = _book(context, "bank.jsonl")
    if sum(line["amount"] for line in _lines(bank) if line["request"] == request) > 0:
        amount = args["decision"]["request"]["amount"]
        _enter(bank, {"request": request, "amount": -amount})


@effect("reversible", compensate=_take_payment_back)
@tool
def pay_refund(decision: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Pay what is owed."""
    request = decision["request"]
    if decision["owed"]:
        if request["amount"] <= 0:
            raise NotDone(f"{request['id']} asks for nothing")
        _enter(
            _book(context, "bank.jsonl"), {"request": request["id"], "amount": request["amount"]}
        )
    return {"request": request, "booked": request["amount"] if decision["owed"] else 0}


def _was_sent(args: dict[str, Any], context: ToolContext) -> dict[str, Any] | None:
    request = args["payment"]["request"]["id"]
    for line in _lines(_book(context, "post.jsonl")):
        if line["request"] == request:
            return {"letter": line["letter"]}
    return None


@effect("irreversible", key=lambda args: args["payment"]["request"]["id"], probe=_was_sent)
@tool
def send_letter(payment: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Tell a customer what was decided."""
    request, booked = payment["request"], payment["booked"]
    said = f"we have paid you {booked:.2f}" if booked else "the time for a return is over"
    letter = f"Dear {request['customer']}, about order {request['order']}: {said}."
    _enter(_book(context, "post.jsonl"), {"request": request["id"], "letter": letter})
    return {"letter": letter}


@effect("idempotent")
@tool
def close_books(
    payments: list[dict[str, Any]], decisions: list[dict[str, Any]], context: ToolContext
) -> dict[str, Any]:
    """Sum up what was paid and what was refused."""
    summary = {
        "paid": round(sum(payment["booked"] for payment in payments), 2),
        "refused": [one["request"]["id"] for one in decisions if not one["owed"]],
        "books": str(_book(context, "")),
    }
    context.artifacts.put("summary.json", json.dumps(summary, indent=2))
    return summary


TOOLS = [open_requests, decide_request, pay_refund, send_letter, close_books]
