#!/usr/bin/env bash
# Starts a cluster of three nodes in three regions on loopback, logs prefixed by node, and waits until it is ready.
#
# usage: scripts/cluster-up.sh [--dir DIR] [--upstream URL] [--port PORT] [--policy FILE]
#   --dir DIR       where configuration, data and logs go             [.oncegate/cluster]
#   --upstream URL  the API behind the gateways; none: the claims API only
#   --port PORT     first of the nine ports used                       [7100]
#   --shards N      shards of a new cluster                            [16]
#   --policy FILE   the policy; none: a tenant `dev` with API key `dev`, an admin with the token `dev-admin`
#   --clocks        under clocks that scripts/clock.sh can turn; needs libfaketime
#   --netns         in networks of their own, for scripts/partition.sh; needs root. An upstream must listen on 10.77.0.254
#   --disks         with a file system of its own for each node, for scripts/powercut.sh; needs root
# Environment: ONCEGATE_BIN names the binary; otherwise a release build is made.
#
# Stop it with scripts/cluster-down.sh; what it stored stays in DIR for the next start.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
dir=.oncegate/cluster upstream='' port=7100 policy='' shards=16 clocks='' disks='' netns=''
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    --upstream) upstream=$2 && shift 2 ;;
    --port) port=$2 && shift 2 ;;
    --policy) policy=$2 && shift 2 ;;
    --shards) shards=$2 && shift 2 ;;
    --clocks) clocks=yes && shift ;;
    --disks) disks=yes && shift ;;
    --netns) netns=yes && shift ;;
    *) sed -n '2,15p' "$0" | cut -c3- >&2 && exit 2 ;;
    esac
done

bin=${ONCEGATE_BIN:-}
if [[ -z $bin ]]; then
    cargo build --release --manifest-path "$here/Cargo.toml"
    bin=${CARGO_TARGET_DIR:-$here/target}/release/oncegate
fi

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
regions=(eu-west us-east ap-south)

[[ -s $dir/cluster.secret ]] ||
    (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$dir/cluster.secret")
if [[ -z $policy ]]; then
    policy=$dir/policy.toml
    cat >"$policy" <<END
[[tenant]]
name = "dev"
credentials = [{ name = "dev", api_key_sha256 = "$(printf %s dev | sha256sum | cut -d' ' -f1)", use = ["gateway", "claims"] }]

[[admin]]
name = "dev-admin"
token_sha256 = "$(printf %s dev-admin | sha256sum | cut -d' ' -f1)"
role = "operator"
END
fi

# Whether a process runs; one that has ended and was not waited for yet does not.
runs() { kill -0 "$1" 2>/dev/null && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }

# A node that comes back finds what its cluster was begun with.
[[ ! -e $dir/netns ]] || netns=yes
[[ ! -d $dir/disks ]] || disks=yes
[[ ! -e $dir/1.clock ]] || clocks=yes

ips=(127.0.0.1 127.0.0.1 127.0.0.1)
if [[ -n $netns ]]; then
    "$here/scripts/netns.sh" up --dir "$dir"
    ips=(10.77.0.1 10.77.0.2 10.77.0.3)
fi
[[ -z $disks ]] || "$here/scripts/disk.sh" up all --dir "$dir"
faketime=''
if [[ -n $clocks ]]; then
    for faketime in /usr/lib/*/faketime/libfaketimeMT.so.1 /usr/lib/faketime/libfaketimeMT.so.1; do
        [[ ! -e $faketime ]] || break
    done
    [[ -e $faketime ]] || { echo "libfaketime is not installed" >&2 && exit 1; }
fi

peers=''
for i in 0 1 2; do
    peers+="{ id = $((i + 1)), addr = \"${ips[i]}:$((port + 1 + i))\", region = \"${regions[i]}\" }, "
done

for i in 0 1 2; do
    node=$((i + 1))
    if [[ -s $dir/$node.pid ]] && runs "$(<"$dir/$node.pid")"; then
        echo "node $node runs already (process $(<"$dir/$node.pid"))"
        continue
    fi
    cat >"$dir/$node.toml" <<END
[cluster]
name = "local"
shards = $shards
secret_file = "cluster.secret"
peers = [$peers]

[node]
id = $node
data_dir = "data/$node"
peer_listen = "${ips[i]}:$((port + node))"

[api]
listen = "${ips[i]}:$((port + 100 + node))"
END
    if [[ -n $upstream ]]; then
        cat >>"$dir/$node.toml" <<END

[gateway]
listen = "${ips[i]}:$((port + 200 + node))"
upstream = "$upstream"
END
    fi
    # The process is started directly, so that its number is the node's own and signals reach it.
    under=()
    [[ -z $netns ]] || under=(nsenter "--net=/run/netns/oncegate-$node")
    if [[ -n $faketime ]]; then
        echo "+0 x1" >"$dir/$node.clock"
        under+=(env "LD_PRELOAD=$faketime" "FAKETIME_TIMESTAMP_FILE=$dir/$node.clock"
            FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME_CACHE_DURATION=1)
    fi
    "${under[@]}" "$bin" serve --config "$dir/$node.toml" --policy "$policy" \
        > >(sed -u "s/^/node $node | /" >>"$dir/log") 2>&1 </dev/null &
    echo $! >"$dir/$node.pid"
    disown
done

for node in 1 2 3; do
    for ((try = 0; ; try++)); do
        curl --silent --fail --max-time 2 --output /dev/null "http://${ips[node - 1]}:$((port + 100 + node))/readyz" && break
        if ! runs "$(<"$dir/$node.pid")" || ((try == 300)); then
            echo "node $node did not become ready; the end of $dir/log:" >&2
            tail -n 20 "$dir/log" >&2
            exit 1
        fi
        sleep 0.1
    done
    line="node $node (${regions[node - 1]}): claims API http://${ips[node - 1]}:$((port + 100 + node))"
    [[ -z $upstream ]] || line+=", gateway http://${ips[node - 1]}:$((port + 200 + node))"
    echo "$line"
done
echo "logs: $dir/log"
