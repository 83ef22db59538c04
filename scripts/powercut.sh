#!/usr/bin/env bash
# Cuts the power of a node: its file system is shut down without writing anything back, its process is killed, and its
# disk is mounted again as its journal left it. What the node had not synced is gone.
# Bring the node back with scripts/cluster-up.sh.
#
# usage: scripts/powercut.sh NODE|all [--dir DIR]
# Needs root, and a cluster that was started with scripts/cluster-up.sh --disks.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
node='' dir=.oncegate/cluster
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    -*) node='' && break ;;
    *) node=$1 && shift ;;
    esac
done
[[ -n $node ]] || { sed -n '2,7p' "$0" | cut -c3- >&2 && exit 2; }
((UID == 0)) || { echo "a file system can be shut down by root only" >&2 && exit 1; }

nodes=("$node")
[[ $node != all ]] || nodes=(1 2 3)
for node in "${nodes[@]}"; do
    mountpoint -q "$dir/data/$node" || { echo "node $node of $dir has no disk of its own" >&2 && exit 1; }
done
# Whatever goes wrong on the way, the disks are there again at the end.
mounted() { for node in "${nodes[@]}"; do "$here/disk.sh" up "$node" --dir "$dir"; done; }
trap mounted EXIT
# FS_IOC_SHUTDOWN without a flush of the journal; every disk before any process has time to notice.
python3 - "${nodes[@]/#/$dir/data/}" <<'END'
import fcntl, os, struct, sys
for path in sys.argv[1:]:
    folder = os.open(path, os.O_RDONLY)
    fcntl.ioctl(folder, 0x8004587D, struct.pack("I", 2))
    os.close(folder)
END
for node in "${nodes[@]}"; do
    # It may have ended by itself: its disk was gone.
    [[ ! -s $dir/$node.pid ]] || "$here/kill.sh" "$node" --dir "$dir" >/dev/null 2>&1 || rm -f "$dir/$node.pid"
    umount "$dir/data/$node"
    echo "cut the power of node $node"
done
