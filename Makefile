# pgdyno: make build | demo | test | check | bench | prove | release | site
# Everything lives in this folder (.venv, .tools, target); the system's Python is never touched.
.PHONY: build lock demo test check bench prove release site docs format clean

PYTHON  ?= python3
UV      := .tools/bin/uv
BIN     := .venv/bin
EXPORT  := $(UV) export --quiet --no-emit-workspace --no-header --no-annotate
STAMP   := .venv/.requirements
SITE    := .tools/site/.requirements

build: $(STAMP) $(SITE)
	@scripts/timed "build: engine (Rust)" $(UV) pip install --quiet --python $(BIN)/python --no-deps \
	  --no-build-isolation -e crates/pgdyno-engine -e .
	@scripts/timed "build: lab (Python)" $(BIN)/python -m compileall -q python

.tools/bin/uv: requirements/uv.txt
	@scripts/require-toolchain "$(PYTHON)"
	@scripts/timed "build: tool (uv)" sh -c '$(PYTHON) -m venv .tools && \
	  .tools/bin/python -m pip install --quiet --require-hashes -r requirements/uv.txt'
	@touch $@

$(STAMP): .tools/bin/uv requirements/lock.txt
	@[ -x $(BIN)/python ] || $(UV) venv --quiet --python "$(PYTHON)" .venv
	@scripts/timed "build: dependencies" $(UV) pip install --quiet --python $(BIN)/python \
	  --require-hashes -r requirements/lock.txt
	@# A template of a package need not compile.
	@$(BIN)/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1 || true
	@touch $@

# The site has an environment apart: Zensical and the tested applications need different versions of
# Markdown.
$(SITE): .tools/bin/uv $(STAMP) requirements/site.txt
	@$(UV) venv --quiet --allow-existing --python $(BIN)/python .tools/site
	@scripts/timed "build: site (Zensical)" $(UV) pip install --quiet \
	  --python .tools/site/bin/python --require-hashes -r requirements/site.txt
	@touch $@

# After changing a dependency in pyproject.toml: pins and hashes, without download addresses.
lock: .tools/bin/uv
	$(UV) lock --quiet
	$(EXPORT) --all-groups --no-group release --no-group site -o requirements/lock.txt >/dev/null
	$(EXPORT) --no-default-groups -o requirements/run.txt >/dev/null
	$(EXPORT) --only-group release -o requirements/release.txt >/dev/null
	$(EXPORT) --only-group site -o requirements/site.txt >/dev/null

check: build
	@scripts/check

test: build
	@scripts/test

demo: build
	@scripts/demo

bench: build
	@$(BIN)/python -m bench

prove: build
	@scripts/prove

release: build
	@scripts/release

site: build
	@scripts/site

format: build
	cargo fmt --all
	$(BIN)/ruff format python tests bench
	$(BIN)/ruff check --fix --quiet python tests bench

clean:
	rm -rf .venv .tools target dist

docs: build
	$(BIN)/pgdyno-engine facts > facts.new
	mv facts.new python/pgdyno/engine/engine_facts.json
	$(BIN)/python -m pgdyno.cli.reference > docs/cli.md
	scripts/sbom --notices > notices.new
	mv notices.new crates/pgdyno-engine/THIRD-PARTY.txt
