#!/usr/bin/env bash
# Drops every packet between two groups of nodes, and lets them through again when the time is over or this script ends.
#
# usage: scripts/partition.sh NODES NODES SECONDS [--one-way] [--dir DIR]
#   NODES      numbers with commas between them: scripts/partition.sh 1 2,3 10 cuts node 1 off for ten seconds
#   --one-way  only what the first say is not heard by the second
# Needs root, and a cluster that was started with scripts/cluster-up.sh --netns. scripts/heal.sh undoes what is left behind.
set -euo pipefail

arguments=() dir=.oncegate/cluster one_way=''
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    --one-way) one_way=yes && shift ;;
    *) arguments+=("$1") && shift ;;
    esac
done
((${#arguments[@]} == 3)) || { sed -n '2,7p' "$0" | cut -c3- >&2 && exit 2; }
((UID == 0)) || { echo "packets can be dropped by root only" >&2 && exit 1; }
[[ -e $dir/netns ]] || { echo "the nodes of $dir share one network: start them with --netns" >&2 && exit 1; }

# Adds (-A) or removes (-D) the rules that drop what the nodes of $2 say to those of $3.
rules() {
    local from to
    for from in ${2//,/ }; do
        for to in ${3//,/ }; do
            ip netns exec "oncegate-$to" iptables -w "$1" INPUT -s "10.77.0.$from" -j DROP
        done
    done
}
heal() {
    rules -D "${arguments[0]}" "${arguments[1]}" 2>/dev/null || true
    [[ -n $one_way ]] || rules -D "${arguments[1]}" "${arguments[0]}" 2>/dev/null || true
}
trap heal EXIT
rules -A "${arguments[0]}" "${arguments[1]}"
[[ -n $one_way ]] || rules -A "${arguments[1]}" "${arguments[0]}"
echo "cut ${arguments[0]} from ${arguments[1]} for ${arguments[2]} s"
sleep "${arguments[2]}" &
wait $!
