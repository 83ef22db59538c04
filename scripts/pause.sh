#!/usr/bin/env bash
# Stops a node of scripts/cluster-up.sh in its tracks (SIGSTOP) and lets it go on when the time is over or this script ends.
#
# usage: scripts/pause.sh NODE SECONDS [--dir DIR]
set -euo pipefail

arguments=() dir=.oncegate/cluster
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    *) arguments+=("$1") && shift ;;
    esac
done
((${#arguments[@]} == 2)) || { sed -n '2,4p' "$0" | cut -c3- >&2 && exit 2; }

file=$dir/${arguments[0]}.pid
[[ -s $file ]] || { echo "no node ${arguments[0]} in $dir" >&2 && exit 1; }
pid=$(<"$file")
trap 'kill -CONT "$pid" 2>/dev/null || true' EXIT
kill -STOP "$pid"
echo "paused node ${arguments[0]} for ${arguments[1]} s"
sleep "${arguments[1]}" &
wait $!
