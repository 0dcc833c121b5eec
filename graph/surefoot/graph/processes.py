"""What the operating system says about processes: when one began, and who its children are.

A pid alone names nobody for long; a pid with its start time does. Linux tells both through /proc;
elsewhere only whether a process is there.
"""

import os
import signal
import time
from pathlib import Path

TOOLS_MARK = "SUREFOOT_TOOLS"
"""Environment variable by which the processes of one root are found, wherever they went."""

_PROC = Path("/proc")
_HAS_PROC = Path("/proc/self/stat").exists()
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def process_started(pid: int) -> float | None:
    """When a living process began, in seconds since boot (0.0 where the system does not say).

    Two readings for one process are equal. A zombie counts as gone: it runs nothing and holds
    nothing, and whoever should reap it may never do so.

    Returns:
        The start time, or None when there is no such process.
    """
    if not _HAS_PROC:
        return 0.0 if _answers(pid) else None
    fields = _stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return int(fields[19]) / _TICKS


def children_of(pid: int) -> list[int]:
    """The direct children of a process, zombies included; empty without /proc."""
    if not _HAS_PROC:
        return []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
        texts = [(_PROC / f"{pid}/task/{task}/children").read_text() for task in tasks]
    except OSError:
        return _children_by_scan(pid)
    return [int(child) for text in texts for child in text.split()]


def descendants_of(pid: int) -> list[int]:
    """Children, their children and so on, nearest first."""
    found = children_of(pid)
    for child in found:
        found.extend(c for c in children_of(child) if c not in found)
    return found


def processes_marked(mark: str) -> list[int]:
    """Living processes of this user whose environment at their start held `mark` (`NAME=value`).

    Finds the ones that left their parent, their group and their session; empty without /proc.
    """
    wanted = mark.encode()
    found: list[int] = []
    for name in os.listdir(_PROC) if _HAS_PROC else []:
        if not name.isdigit() or process_started(int(name)) is None:
            continue
        try:
            entries = (_PROC / name / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if wanted in entries:
            found.append(int(name))
    return found


def end_family(pid: int, started: float, *, seconds: float) -> list[int]:
    """Kill a root of tool processes with everything it started; blocks until that is gone.

    The root is stopped first: it forks nothing more, and adopts what the killed ones leave behind,
    so that nothing slips out of sight. What left the tree is found by the root's mark.

    Args:
        pid: the root.
        started: when it began; another process that has its pid by now is left alone.
        seconds: at most so long.

    Returns:
        The pids that still live then (they are another user's, or hang in the kernel).
    """
    if not same_process(pid, started):
        return []
    mark = _mark_of(pid)
    _send(pid, signal.SIGSTOP)
    until = time.monotonic() + seconds
    while True:
        family = {*descendants_of(pid), *(processes_marked(mark) if mark else ())} - {pid}
        living = [one for one in family - {os.getpid()} if process_started(one) is not None]
        if not living and not same_process(pid, started):
            return []
        if time.monotonic() >= until:
            return [*living, pid] if same_process(pid, started) else living
        for one in living or [pid]:
            _send(one, signal.SIGKILL)
        time.sleep(0.005)


def same_process(pid: int, started: float) -> bool:
    """True while this very incarnation runs: a reused pid has another start time."""
    now = process_started(pid)
    return now is not None and abs(now - started) < 0.02


def _mark_of(pid: int) -> str:
    """The `NAME=value` by which the processes of a root are found, "" where it has none."""
    try:
        entries = (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    name = f"{TOOLS_MARK}=".encode()
    return next((one.decode() for one in entries if one.startswith(name)), "")


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name, which may itself hold spaces and brackets."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _children_by_scan(pid: int) -> list[int]:
    # Kernels without CONFIG_PROC_CHILDREN.
    names = [name for name in os.listdir(_PROC) if name.isdigit()]
    stats = [(int(name), _stat(int(name))) for name in names]
    return [child for child, fields in stats if fields is not None and int(fields[1]) == pid]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
