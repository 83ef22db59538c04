#!/usr/bin/env bash
# Makes the wall clock of a node wrong, and right again when the time is over or this script ends.
#
# usage: scripts/clock.sh NODE CLOCK SECONDS [--dir DIR]
#   CLOCK   an offset in seconds (+3600, -3600), or a rate beside it ("+0 x2"), as libfaketime reads it
# The cluster must have been started with scripts/cluster-up.sh --clocks. A change is noticed within a second.
set -euo pipefail

arguments=() dir=.oncegate/cluster
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    *) arguments+=("$1") && shift ;;
    esac
done
((${#arguments[@]} == 3)) || { sed -n '2,6p' "$0" | cut -c3- >&2 && exit 2; }

node=${arguments[0]} file=$dir/${arguments[0]}.clock
[[ -s $file ]] || { echo "node $node of $dir does not run under a clock that can be turned" >&2 && exit 1; }

# It is read at any moment, so it appears as a whole.
turn() { echo "$1" >"$file.new" && mv "$file.new" "$file"; }
# The rate has to be said: it would stay what it was.
trap 'turn "+0 x1"' EXIT
turn "${arguments[1]}"
echo "clock of node $node at ${arguments[1]} for ${arguments[2]} s"
sleep "${arguments[2]}" &
wait $!
