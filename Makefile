PY = .venv/bin

.PHONY: install check test test-crash db

install:
	python3 -m venv .venv
	$(PY)/pip install -q -c constraints.txt -e ".[embedded,documents,dev]"
	$(PY)/pre-commit install

check:
	$(PY)/ruff check
	$(PY)/ruff format --check
	$(PY)/pyright

test:
	$(PY)/pytest -q

test-crash:
	$(PY)/pytest -q tests/crash

db:
	$(PY)/surefoot doctor
