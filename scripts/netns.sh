#!/usr/bin/env bash
# Gives every node of a cluster a network of its own: a network namespace with one address, joined to the others by a bridge,
# so that packets between two nodes can be dropped. Needs root. One such cluster at a time on a machine.
#
# usage: scripts/netns.sh up|down [--dir DIR]
#   up     makes the namespaces oncegate-1 to oncegate-3 with 10.77.0.1 to 10.77.0.3; the machine itself is 10.77.0.254
#   down   takes them away
set -euo pipefail

what='' dir=.oncegate/cluster
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    *) what=$1 && shift ;;
    esac
done
[[ $what == up || $what == down ]] || { sed -n '2,7p' "$0" | cut -c3- >&2 && exit 2; }
((UID == 0)) || { echo "a network namespace can be made by root only" >&2 && exit 1; }
for tool in ip iptables nsenter; do
    command -v "$tool" >/dev/null || { echo "$tool is not installed" >&2 && exit 1; }
done

down() {
    for node in 1 2 3; do
        ip netns del "oncegate-$node" 2>/dev/null || true
        ip link del "oncegate-$node" 2>/dev/null || true
    done
    ip link del oncegate 2>/dev/null || true
    rm -f "$dir/netns"
}

if [[ $what == down ]]; then
    down
    exit
fi
[[ ! -e $dir/netns ]] || exit 0
if ip link show oncegate >/dev/null 2>&1; then
    echo "another cluster has its nodes in namespaces: take it down first (scripts/netns.sh down)" >&2
    exit 1
fi
mkdir -p "$dir"
trap down ERR
ip link add oncegate type bridge
ip addr add 10.77.0.254/24 dev oncegate
ip link set oncegate up
for node in 1 2 3; do
    ip netns add "oncegate-$node"
    ip link add "oncegate-$node" type veth peer name eth0 netns "oncegate-$node"
    ip link set "oncegate-$node" master oncegate up
    ip -n "oncegate-$node" addr add "10.77.0.$node/24" dev eth0
    ip -n "oncegate-$node" link set eth0 up
    ip -n "oncegate-$node" link set lo up
done
touch "$dir/netns"
