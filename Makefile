# make run: install into .venv, train a network from nothing, draw its learning curve, compare it
# make figures: what shows the network that ships: the picture of the README, with the training of
# make run, and the notebook of examples/
# make test: install into .venv and run the tests in two processes; those of a real Spark are
# skipped without Java 17
# make docs: the documentation site, site/index.html
# make wheel: dist/*.whl, with the jar of the Spark plugin (needs a JDK) and machine code for common
# processors
# All may be repeated; the set-up is redone only when pyproject.toml or constraints.txt changed, and
# the training only if it was interrupted or its folder is gone.

PYTHON ?= python3
BIN := .venv/bin
SMALL := runs/small
# The recipe counts iterations, so a slow machine gets the same model later; this only bounds it.
MINUTES ?= 60
TRAIN := $(BIN)/decima train --out $(SMALL) --workers 2 --minutes $(MINUTES)
POLICIES := strict_fair,fifo,sjf_cp,sticky_fair,spark_fair,weighted_fair,tuned_weighted_fair,tuned_srw,es_rule,random

.PHONY: run figures test lint docs wheel clean

run: .venv/train
	@if [ -e $(SMALL)/done ]; then echo "$(SMALL) is trained; remove it to train again"; \
	elif [ -e $(SMALL)/config.json ]; then $(TRAIN) --resume; \
	else $(TRAIN) --config docs/examples/small-training.toml; fi
	@touch $(SMALL)/done
	$(BIN)/decima report $(SMALL) -o $(SMALL)/training.html --figures $(SMALL)/figures
	$(BIN)/decima evaluate --policies $(POLICIES),$(SMALL)/model.safetensors,decima --interarrival 18 --sequences 40

figures: .venv/installed
	$(BIN)/python -m benchmarks.readme_figures $(SMALL) docs/assets
	$(BIN)/python -m benchmarks.notebook

test: .venv/installed .venv/spark-3.5/installed
	$(BIN)/pytest --numprocesses 2 --dist loadfile

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation site, for a browser: site/index.html. Warnings are errors.
docs: .venv/installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: .venv/installed
	$(BIN)/python -c "from decima.spark.jar import ship_jar; ship_jar()"
	$(BIN)/python -c "from decima.prepare import ship_kernels; ship_kernels() or print('no machine code: this processor is older than those it is made for')"
	rm -rf build
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	rm -rf spark_sim/compiled/data

PIP = $(BIN)/python -m pip install --quiet --constraint constraints.txt

# torch alone: the constraint picks the CPU build, which nothing else then replaces. While it is
# installed, the other core compiles what a comparison needs, and shows the first one.
.venv/train: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	$(PIP) torch & torch=$$!; $(BIN)/decima evaluate --policies $(POLICIES),decima --jobs 50 --sequences 10; wait $$torch
	$(PIP) --editable '.[train,plots]'
	touch $@

.venv/installed: .venv/train
	$(PIP) --editable '.[train,gym,plots,graphs,dev,docs,spark,tpch,connect]'
	touch $@

# The oldest Spark that is supported, beside the newest, for tests/test_spark_versions.py.
.venv/spark-3.5/installed: .venv/installed
	$(BIN)/python -m pip install --quiet --upgrade --target $(@D) pyspark==3.5.6
	touch $@

clean:
	rm -rf .venv build site dist *.egg-info decima/spark/data spark_sim/compiled/data
