# `make` alone lists the targets. Each one does its own set-up: only make and Python are needed.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
UV_VERSION := 0.13.8
PIPX_VERSION := 1.18.4
SOURCES := gateway adapters tests benchmarks packaging/chart packaging/site

# Each test process, and each command that a test starts, would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo quick test test-thorough test-slow mutants test-emulate test-payloads test-hosts check format-check lint types imports docs format bench \
	screenshots gallery agent-wheel packages test-packages docs-site test-docs-site test-image test-chart test-systemd test-guide lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## install everything into .venv, once
	@echo "Everything is in $(VENV): . $(VENV)/bin/activate"

demo: $(READY) ## try the product: an agent asks, you answer in the browser
	$(VENV)/bin/gateway demo

# Three at a time, also on two cores: many tests wait for processes, browsers and pauses of the
# product, and each process more collects every test once more.
# Those that share what is dear to make name a group, which stays in one process.
test: $(READY) ## run the tests
	$(RUN) -m pytest -q -m "not thorough and not slow and not hosts" --numprocesses 3 --dist loadgroup

test-thorough: $(READY) ## run what kills processes, types whole pages, drives shells, tries every case or very long texts
	$(RUN) -m pytest -q -m "thorough and not slow and not hosts" --numprocesses 3 --dist loadgroup

# Without what waits for a gateway to go away, starts a process for each case, or tries every text.
AT_LENGTH := $(wildcard tests/client/test_ask*.py) tests/client/test_reach.py tests/client/test_run_command.py \
	tests/approvals/test_fake_secrets.py tests/approvals/test_hostile.py

quick: $(READY) ## run the inner loop: units, the core and the client on the real server
	$(RUN) -m pytest -q -m "not thorough and not slow" --numprocesses 4 $(addprefix --ignore=,$(AT_LENGTH)) \
		tests/unit tests/approvals tests/delivery tests/policy tests/stores tests/client

test-slow: $(READY) ## run the long tests
	$(RUN) -m pytest -q -m "slow and not hosts"

mutants: $(READY) ## take out each guard on the list and see that a test finds it missing (`ONLY=--chosen`: ten)
	$(RUN) -m tests.mutants $(ONLY)

# Node 22 and emulate are pinned exactly: without a version npm gives an unrelated package.
test-emulate: $(READY) ## run the Slack adapter against emulate, from npm
	npm install --silent --no-audit --no-fund --prefix build/emulate node@22.23.3 emulate@0.12.2
	EMULATE=build/emulate/node_modules/.bin $(RUN) -m pytest -q tests/slack/test_emulate.py

# Pinned exactly: each release of the types may know more, or forbid more.
PAYLOADS := build/payloads/node_modules
PAYLOAD_PACKAGES := node@22.23.3 typescript@7.0.2 @slack/types@3.2.0 @slack/web-api@8.2.0 \
	discord-api-types@0.38.57 @discordjs/builders@1.15.0

test-payloads: $(READY) $(PAYLOADS)/.ready ## check what Slack and Discord are sent against their own types, from npm
	PAYLOADS=$(PAYLOADS) $(RUN) -m pytest -q tests/contract/test_payloads.py

$(PAYLOADS)/.ready: Makefile
	npm install --silent --no-audit --no-fund --prefix build/payloads $(PAYLOAD_PACKAGES)
	@touch $@

test-hosts: $(READY) ## install each agents' host into build/hosts and run its tests (`HOSTS=gptme`: one)
	$(RUN) -m tests.hosts $(HOSTS)

check: format-check lint types imports docs ## run every check that is not a test

format-check: $(READY) ## is the code formatted?
	$(VENV)/bin/ruff format --check $(SOURCES)

lint: $(READY) ## ruff, and a warning for files over 1,000 lines
	$(VENV)/bin/ruff check $(SOURCES)
	@wc -l $$(git ls-files 'gateway/*.py' 'adapters/*.py') | awk '$$1 > 1000 && $$2 != "total" \
		{ print "warning: " $$2 " has " $$1 " lines: is it still one subject?" }'

types: $(READY) ## mypy --strict over source and tests
	$(VENV)/bin/mypy

imports: $(READY) ## the rules of who may import whom
	$(VENV)/bin/lint-imports

docs: $(READY) ## spelling, links, promises and plain English of the documents and docstrings
	$(VENV)/bin/codespell $(SOURCES) docs deploy *.md Makefile Dockerfile docker-compose.yml
	$(RUN) -m pytest -q tests/frame/test_documents.py tests/frame/test_language.py

format: $(READY) ## format the code and sort the imports
	$(VENV)/bin/ruff check --select I --fix $(SOURCES)
	$(VENV)/bin/ruff format $(SOURCES)

bench: $(READY) ## measure speed and memory, write build/bench.json
	$(RUN) -m benchmarks

screenshots: $(READY) ## take the pictures of README and of the inbox's page
	$(RUN) -m tests.first_screen
	$(RUN) -m tests.web.screenshots

gallery: $(READY) ## draw every state of a card on a phone, light and dark, into build/pictures/gallery
	$(RUN) -m tests.gallery $(SURFACE)

agent-wheel: $(READY) ## build the agent-only distribution into dist/
	$(RUN) -m build --wheel --no-isolation --outdir dist packaging/agent

# Pinned exactly, as the devDependencies of the package are.
NODE_TOOLS := build/packages/node_modules
NODE_PACKAGES := node@22.23.3 openapi-typescript@7.13.0 typescript@5.9.3
INSTALLERS := build/packages/installers

packages: agent-wheel $(NODE_TOOLS)/.ready ## build all that a release publishes into dist/
	$(RUN) -m build --no-isolation --outdir dist
	PATH="$(CURDIR)/$(NODE_TOOLS)/.bin:$$PATH" npm pack --silent --pack-destination dist ./packaging/typescript

test-packages: packages $(INSTALLERS)/.ready ## install each package in an empty folder, and run it
	PACKAGES=dist PATH="$(CURDIR)/$(NODE_TOOLS)/.bin:$(CURDIR)/$(INSTALLERS)/bin:$$PATH" \
		$(RUN) -m pytest -q tests/frame/test_packages.py tests/frame/test_release.py

# `IMAGE_ENGINE=docker` takes the images of others as they are published. Without it nothing is
# pulled: Debian's packages stand in for them. That needs root and buildah, mmdebstrap, podman,
# runc, catatonit, netavark, aardvark-dns and docker-compose.
test-image: $(READY) ## build the image, and run it and docker-compose.yml (`IMAGE_ENGINE=docker`: with Docker)
	IMAGE_ENGINE=$(or $(IMAGE_ENGINE),podman) $(RUN) -m pytest -q -s tests/frame/test_image.py

# Pinned exactly, in an environment of its own: Helm as a library has 240 MB.
CHART := build/chart
CHART_PACKAGES := helm-python-sdk==0.2.2 kubernetes-validate==1.37.0 pyyaml==6.0.4

test-chart: $(READY) $(CHART)/.venv/.ready ## render the Helm chart, and check it against Kubernetes' schemas
	CHART=$(CHART)/.venv/bin/python $(RUN) -m pytest -q tests/deploy/test_chart.py

$(CHART)/.venv/.ready: Makefile
	$(PYTHON) -m venv --clear $(CHART)/.venv
	$(CHART)/.venv/bin/python -m pip install --quiet --disable-pip-version-check $(CHART_PACKAGES)
	@touch $@

# Needs Linux, root and systemd. It does not touch the systemd that runs this machine.
test-systemd: $(READY) ## start the units of deploy/systemd with a systemd in namespaces, as root
	SYSTEMD=1 $(RUN) -m pytest -q tests/deploy/test_machine.py

# Needs root, mmdebstrap, iproute2, iptables, util-linux and Chromium. Docker runs inside the root.
test-guide: $(READY) ## follow `Run it for a team` on two empty Debian machines, word by word
	GUIDE=yes $(RUN) -m pytest -q -s tests/guide

$(NODE_TOOLS)/.ready: Makefile
	npm install --silent --no-audit --no-fund --prefix build/packages $(NODE_PACKAGES)
	@touch $@

$(INSTALLERS)/.ready: Makefile
	$(PYTHON) -m venv --clear $(INSTALLERS)
	$(INSTALLERS)/bin/python -m pip install --quiet --disable-pip-version-check \
		uv==$(UV_VERSION) pipx==$(PIPX_VERSION)
	@touch $@

# Pinned exactly, with what shapes a page. 0.0.73 is the last release that comes in one wheel.
SITE := build/site
SITE_PACKAGES := zensical==0.0.73 markdown==3.11.3 pymdown-extensions==13.1.2 pygments==2.21.0 \
	jinja2==3.1.6

docs-site: $(SITE)/.venv/.ready ## build the documentation as a website into build/site/html
	rm -rf $(SITE)/html
	$(SITE)/.venv/bin/python packaging/site/prepare.py $(SITE)
	$(SITE)/.venv/bin/zensical build --strict --clean --config-file $(SITE)/zensical.toml

test-docs-site: docs-site $(READY) ## follow every link of the website, in a browser, on a phone and a desk
	SITE=$(SITE)/html $(RUN) -m pytest -q tests/frame/test_docs_site.py

$(SITE)/.venv/.ready: Makefile
	$(PYTHON) -m venv --clear $(SITE)/.venv
	$(SITE)/.venv/bin/python -m pip install --quiet --disable-pip-version-check $(SITE_PACKAGES)
	@touch $@

# Releases younger than a week are left out: most bad ones are found and withdrawn by then.
lock: ## pin every dependency anew into requirements.lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	.venv-lock/bin/uv pip compile pyproject.toml --quiet --no-config --upgrade --universal \
		--python-version 3.11 --all-extras --group dev --exclude-newer "7 days" \
		--generate-hashes --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
		--output-file requirements.lock

clean: ## remove what make made
	rm -rf $(VENV) .venv-lock build dist .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache

$(VENV)/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("The approval gateway needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "Making the virtual environment $(VENV) …"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "Installing what is needed into $(VENV) (about a minute, once) …"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

$(READY): $(VENV)/.locked pyproject.toml
	@echo "Installing the approval gateway itself …"
	@$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
