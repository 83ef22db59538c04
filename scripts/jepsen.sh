#!/usr/bin/env bash
# Fault tests: real processes break under load, and checkers judge what was written down. See docs/faults.md.
#
# usage: scripts/jepsen.sh --ci|--nightly|--release [--dir DIR] [--first SEED]
#   --ci       six runs of 20 s over different faults, about four minutes
#   --nightly  every fault with every workload once, 20 s each, within an hour
#   --release  1,200 runs of 60 s; broken off, it goes on where it was
#   --dir DIR      results, and the files of runs that did not pass   [.oncegate/faults]
#   --first SEED   the first seed [1; nightly: the day's number, so that every night draws others]
# Environment: ONCEGATE_BIN names the binary; otherwise one is built.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
dir=$here/.oncegate/faults amount='' first=''
while (($#)); do
    case $1 in
    --ci | --nightly | --release) amount=$1 && shift ;;
    --dir) dir=$2 && shift 2 ;;
    --first) first=$2 && shift 2 ;;
    *) sed -n '2,11p' "$0" | cut -c3- >&2 && exit 2 ;;
    esac
done
[[ -n $amount ]] || { sed -n '2,11p' "$0" | cut -c3- >&2 && exit 2; }

cd "$here"
profile=() built=debug
[[ $amount == --ci ]] || profile=(--release) built=release
target=${CARGO_TARGET_DIR:-$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')}
cargo build --quiet "${profile[@]}" --package jepsen
if [[ -z ${ONCEGATE_BIN:-} ]]; then
    cargo build --quiet "${profile[@]}" --package oncegate
    ONCEGATE_BIN=$target/$built/oncegate
fi

case $amount in
--ci) arguments=(--runs 6 --seconds 20 --faults kill-leader,pause-one,isolate-leader,kill-all,loss,mix) ;;
--nightly) arguments=(--runs 116 --seconds 20 --minutes 60) && first=${first:-$((10#$(date +%j) * 1000))} ;;
--release) arguments=(--runs 1200 --seconds 60) ;;
esac
echo "first seed: ${first:-1}"
"$target/$built/jepsen" matrix --binary "$ONCEGATE_BIN" --dir "$dir" --first "${first:-1}" "${arguments[@]}" && passed=yes || passed=
cat "$dir/results.md"
[[ -n $passed ]]
