#!/usr/bin/env bash
# Stops the cluster of scripts/cluster-up.sh: asks each node to stop, and kills what has not ended after 15 s.
#
# usage: scripts/cluster-down.sh [--dir DIR] [--wipe]
#   --wipe   also removes DIR with everything stored in it
set -euo pipefail

dir=.oncegate/cluster wipe=''
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    --wipe) wipe=yes && shift ;;
    *) sed -n '2,5p' "$0" | cut -c3- >&2 && exit 2 ;;
    esac
done
[[ -d $dir ]] || { echo "no cluster in $dir" >&2 && exit 1; }

shopt -s nullglob
for file in "$dir"/*.pid; do
    kill -TERM "$(<"$file")" 2>/dev/null || true
done
for file in "$dir"/*.pid; do
    pid=$(<"$file")
    for ((try = 0; try < 150; try++)); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$pid" 2>/dev/null && echo "node $(basename "$file" .pid) did not stop in time and was killed" >&2
    rm -f "$file"
done
# Nodes that had a file system of their own keep what it holds.
for data in "$dir"/data/*; do
    ! mountpoint -q "$data" || umount "$data"
done
[[ ! -e $dir/netns ]] || "$(dirname "$0")/netns.sh" down --dir "$dir"
[[ -z $wipe ]] || rm -rf "$dir"
