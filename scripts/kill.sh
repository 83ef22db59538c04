#!/usr/bin/env bash
# Kills a node of scripts/cluster-up.sh as a crash would (SIGKILL). Bring it back with scripts/cluster-up.sh.
#
# usage: scripts/kill.sh NODE|all [--dir DIR]
set -euo pipefail

node='' dir=.oncegate/cluster
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    -*) node='' && break ;;
    *) node=$1 && shift ;;
    esac
done
[[ -n $node ]] || { sed -n '2,4p' "$0" | cut -c3- >&2 && exit 2; }

# Whether a process runs; one that has ended and was not waited for yet does not.
runs() { kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }

files=("$dir/$node.pid")
[[ $node != all ]] || files=("$dir"/*.pid)
for file in "${files[@]}"; do
    [[ -s $file ]] || { echo "no node $node in $dir" >&2 && exit 1; }
    pid=$(<"$file")
    kill -KILL "$pid"
    # Its ports are free once it is gone, and not a moment before.
    while runs "$pid"; do sleep 0.01; done
    rm -f "$file"
    echo "killed node $(basename "$file" .pid)"
done
