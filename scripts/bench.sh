#!/usr/bin/env bash
# Measures oncegate on this machine: three nodes, each with its own log synced to disk, the load beside them.
#
# usage: scripts/bench.sh [--seconds N] [--shards N]
# Environment: ONCEGATE_BIN names the binary; otherwise a release build is made. TMPDIR holds the data: put it on the
# disk to measure.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
seconds=10 shards=16
while (($#)); do
    case $1 in
    --seconds) seconds=$2 && shift 2 ;;
    --shards) shards=$2 && shift 2 ;;
    *) sed -n '2,6p' "$0" | cut -c3- >&2 && exit 2 ;;
    esac
done

if [[ -z ${ONCEGATE_BIN:-} ]]; then
    cargo build --release --manifest-path "$here/Cargo.toml"
    ONCEGATE_BIN=${CARGO_TARGET_DIR:-$here/target}/release/oncegate
fi
export ONCEGATE_BIN
bin=$ONCEGATE_BIN

work=$(mktemp -d)
started=()
cleanup() {
    "$here/scripts/cluster-down.sh" --dir "$work/cluster" 2>/dev/null || true
    ((${#started[@]} == 0)) || kill "${started[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

port=$((20000 + RANDOM % 10000))
"$bin" bench upstream --listen "127.0.0.1:$port" &
started+=($!)
"$here/scripts/cluster-up.sh" --dir "$work/cluster" --port "$((port + 100))" --shards "$shards" \
    --upstream "http://127.0.0.1:$port" >/dev/null
api=127.0.0.1:$((port + 201)),127.0.0.1:$((port + 202)),127.0.0.1:$((port + 203))
gateway=127.0.0.1:$((port + 301))

echo "machine: $(nproc) processors, $(uname -sr)"
echo "-- claims API, three nodes, one request at a time"
"$bin" bench claims --api "$api" --connections 1 --seconds "$seconds"
echo "-- claims API, three nodes"
"$bin" bench claims --api "$api" --connections 64 --seconds "$seconds"
echo "-- gateway, three nodes, trivial upstream"
"$bin" bench gateway --gateway "$gateway" --connections 1 --seconds "$seconds"
echo "-- gateway, replays beside requests that pass through"
"$bin" bench replays --gateway "$gateway" --connections 16 --seconds "$seconds"
echo "-- a node is killed"
"$bin" bench failover --api "127.0.0.1:$((port + 202))" --kill "$(<"$work/cluster/1.pid")"
"$here/scripts/cluster-down.sh" --dir "$work/cluster"

echo "-- idle, all three nodes and the sample API in one process"
"$bin" dev --data-dir "$work/dev" --listen 127.0.0.1:0 --api 127.0.0.1:0 >"$work/dev.log" 2>&1 &
dev=$!
started+=("$dev")
until grep -q curl "$work/dev.log"; do
    kill -0 "$dev" 2>/dev/null || { cat "$work/dev.log" >&2 && exit 1; }
    sleep 0.1
done
ticks() { awk '{ print $14 + $15 }' "/proc/$dev/stat"; }
before=$(ticks)
sleep 10
after=$(ticks)
awk -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" \
    'BEGIN { printf "processor  %.1f%% of a core per node\n", 100 * ticks / hz / 10 / 3 }'
awk '/VmRSS/ { printf "resident memory  %.0f MB\n", $2 / 1024 }' "/proc/$dev/status"
