# make run: install into .venv and compare the baselines on the built-in trace
# make test: install into .venv and run the tests
# Both may be repeated; the set-up is redone only when pyproject.toml or constraints.txt changed.

PYTHON ?= python3
BIN := .venv/bin

.PHONY: run test lint clean

run: .venv/installed
	$(BIN)/decima evaluate --trace tpch --policies strict_fair,fifo,sjf_cp,sticky_fair,spark_fair,weighted_fair,tuned_weighted_fair,tuned_srw,random --sequences 10

test: .venv/installed
	$(BIN)/pytest

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# torch first and alone: the constraint picks the CPU build, which nothing else then replaces.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,spark,record]'
	touch $@

clean:
	rm -rf .venv build *.egg-info
