# The everyday words. The build itself is Meson's; see CONTRIBUTING.md.

PREFIX ?= /usr/local
SUITE ?=

RELEASE := build/release
DEBUG := build/debug
ASAN := build/asan
CLANG := build/clang

.DEFAULT_GOAL := build

build: $(RELEASE)/build.ninja  ## Set up what is missing and build
	@ninja -C $(RELEASE) --quiet

run: build  ## Set up, build and serve on 127.0.0.1:7070 [PYTHON_PACKAGES=no]
	@PYTHON_PACKAGES="$(PYTHON_PACKAGES)" tools/run-setup $(RELEASE)/src/bin/sandglass
	@exec $(RELEASE)/src/bin/sandglass serve

test: deps-test $(DEBUG)/build.ninja $(ASAN)/build.ninja  ## Set up, build and run every test
	@tools/test $(DEBUG) $(ASAN)

bench: deps-bench build  ## Measure beside the peers [SUITE=jail,http]
	@tools/bench $(RELEASE) $(SUITE)

soak: deps-test $(DEBUG)/build.ninja  ## The hostile tests at full size: for hours on an idle machine [PART=10, PART=work]
	@tools/soak $(DEBUG) $(PART)

mutants: deps-test  ## Take out each defence of the jail and see that a test fails [ONLY="seccomp pivot"]
	@tools/mutants $(ONLY)

sdk: deps-sdk  ## The TypeScript package as it is published, in build/sdk
	@tools/sdk build/sdk

asan: deps-test $(ASAN)/build.ninja  ## Unit tests and corpora under ASan and UBSan alone
	@tools/test $(ASAN)

fuzz:  ## Fuzz each parser for a while [SECONDS_EACH=60] [TARGET=toml]
	@tools/fuzz

lint: deps-lint deps-test $(CLANG)/build.ninja  ## Warnings as errors, format, clang-tidy, cppcheck, layers
	@tools/lint $(CLANG)

fmt: deps-lint  ## Format the C sources
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

install: build  ## Install under PREFIX (default /usr/local), honouring DESTDIR
	@meson configure $(RELEASE) --prefix "$(PREFIX)"
	@meson install -C $(RELEASE) --quiet

clean:  ## Remove what was built; downloads and the JS engine stay
	@rm -rf $(RELEASE) $(DEBUG) $(ASAN) $(CLANG) build/fuzz build/bench

distclean:  ## Remove everything that was built or downloaded
	@rm -rf build

help:  ## List these
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

deps-build:
	@tools/deps build
deps-test:
	@tools/deps build test sdk
deps-lint:
	@tools/deps build lint
deps-bench:
	@tools/deps build bench sdk
deps-sdk:
	@tools/deps sdk

# Each tree is configured once; ninja re-runs Meson by itself when a meson.build changes.
$(RELEASE)/build.ninja: | deps-build
	@meson setup $(RELEASE) --buildtype=release -Doptimization=2 -Ddebug=true -Dtests=false >/dev/null
$(DEBUG)/build.ninja: | deps-test
	@meson setup $(DEBUG) -Dfaults=true -Dwerror=true >/dev/null
$(ASAN)/build.ninja: | deps-test
	@meson setup $(ASAN) -Dfaults=true -Dwerror=true -Db_sanitize=address,undefined >/dev/null
$(CLANG)/build.ninja: | deps-lint
	@CC=clang meson setup $(CLANG) -Dfaults=true -Dwerror=true >/dev/null

.PHONY: build run test bench sdk asan fuzz lint fmt soak mutants install clean distclean help \
	deps-build deps-test deps-lint deps-bench deps-sdk
