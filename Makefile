# What there is to make; each target is a few lines here or a script in scripts/.
# `make demo` and `make test` need nothing but this tree and a Rust toolchain: they install what is missing.

CARGO ?= cargo
export CARGO

.PHONY: build deps test-deps demo test soak bench docs deny dist deb test-dist clean

build: deps
	$(CARGO) build --release --locked

deps:
	@scripts/install-deps.sh scripts/build-packages.txt
	@scripts/apply-patches.sh

test-deps:
	@scripts/install-deps.sh scripts/build-packages.txt tests/packages.txt
	@scripts/apply-patches.sh
	@scripts/install-gdb.sh
	@scripts/install-nextest.sh

demo: build
	demo/demo.sh

test: test-deps
	scripts/test.sh

# All tests: those that `make test` leaves out of its tables (tests/src/sample.rs), those at full size, and (test-dist.sh) the distribution on other Debian
# releases. Takes hours.
soak: test-deps build
	@scripts/install-deps.sh tests/soak-packages.txt
	scripts/test.sh --profile soak --run-ignored all

bench: test-deps build
	@scripts/install-deps.sh spec-harness/packages.txt
	target/release/spec-harness $(BENCH)

# The book; mdBook is fetched and built the first time.
docs:
	scripts/docs.sh

# Licences and sources of all that is linked, and advisories where their database can be fetched; cargo-deny is built the first time.
deny:
	scripts/deny.sh

dist: deps
	scripts/dist.sh

deb: deps
	scripts/deb.sh

test-dist: deps
	scripts/test-dist.sh

clean:
	$(CARGO) clean
	rm -rf dist
