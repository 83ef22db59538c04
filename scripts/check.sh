#!/usr/bin/env bash
# Every gate that CI runs, cheapest first. Reads the tree, changes nothing in it.
#
# usage: scripts/check.sh
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    printf '\n== %s\n' "$1"
    shift
    "$@"
}

# The README's own test command is what is run, so that the README cannot promise another.
readme_test=$(grep -o 'cargo test --workspace[^`]*' README.md | head -n 1)

step "format" cargo fmt --all --check
step "shape" cargo test --quiet --locked --test layering
step "clippy" cargo clippy --workspace --all-targets --locked -- -D warnings
step "clippy, as released" cargo clippy --workspace --locked -- -D warnings
step "docs" env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked --quiet
if command -v cargo-deny >/dev/null; then
    step "dependencies" cargo deny --locked check bans licenses sources
    if cargo deny --locked fetch db >/dev/null 2>&1; then
        step "advisories" cargo deny --locked check advisories
    else
        echo "advisories: skipped, their database cannot be reached"
    fi
else
    echo "dependencies: cargo-deny is not installed (cargo install --locked cargo-deny)" >&2
    exit 1
fi
# shellcheck disable=SC2086 # the command is split into its words on purpose
step "tests" $readme_test
