#!/usr/bin/env bash
# Explores the large runs of the model of the claim protocol (protocol/tests/model). The small ones
# are tests already: `cargo test -p protocol --test model`.
#
#   scripts/model.sh [--seconds 60] [--run NAME]
#
# --seconds  what each run may take; one that needs longer is cut off and says so
# --run      only the runs whose name begins with NAME
set -euo pipefail

seconds=60
run=""
while [[ $# -gt 0 ]]; do
  case "$1" in
    --seconds) seconds="${2:?--seconds needs a number}"; shift 2 ;;
    --run) run="${2:?--run needs a name}"; shift 2 ;;
    *) echo "usage: scripts/model.sh [--seconds N] [--run NAME]" >&2; exit 2 ;;
  esac
done

cd "$(dirname "$0")/.."
exec cargo run --quiet --release --package protocol --example model -- "$seconds" "$run"
