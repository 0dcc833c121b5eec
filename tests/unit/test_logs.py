"""What is logged while a command runs is one line on stderr; `--debug` shows what led to it."""

import subprocess
import sys

PROGRAM = """
import logging
from surefoot.service.logs import log_in_lines
log_in_lines(debug={debug})
try:
    raise RuntimeError("odd\\nreason \\x1b[31m")
except RuntimeError:
    logging.getLogger("surefoot.somewhere").exception("it %s", "broke")
"""


def said(*, debug: bool) -> str:
    program = [sys.executable, "-c", PROGRAM.format(debug=debug)]
    return subprocess.run(program, capture_output=True, text=True, check=True).stderr


def test_an_error_is_one_line_without_what_led_to_it() -> None:
    assert said(debug=False) == "surefoot: it broke: RuntimeError: odd reason \\x1b[31m\n"


def test_who_asks_for_it_sees_the_traceback() -> None:
    assert "Traceback" in said(debug=True)
