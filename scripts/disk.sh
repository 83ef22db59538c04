#!/usr/bin/env bash
# Gives the data of a node a small file system of its own, so that its power can be cut and its disk can be full, and
# takes it away again. Needs root.
#
# usage: scripts/disk.sh up|down NODE|all [--dir DIR] [--mib SIZE]
#   up     mounts DIR/disks/NODE.img at DIR/data/NODE; makes it if there is none
#   down   unmounts it; what it holds stays in the image
set -euo pipefail

arguments=() dir=.oncegate/cluster size=512
while (($#)); do
    case $1 in
    --dir) dir=$2 && shift 2 ;;
    --mib) size=$2 && shift 2 ;;
    *) arguments+=("$1") && shift ;;
    esac
done
((${#arguments[@]} == 2)) || { sed -n '2,7p' "$0" | cut -c3- >&2 && exit 2; }
((UID == 0)) || { echo "a file system can be mounted by root only" >&2 && exit 1; }

nodes=("${arguments[1]}")
[[ ${arguments[1]} != all ]] || nodes=(1 2 3)
for node in "${nodes[@]}"; do
    image=$dir/disks/$node.img data=$dir/data/$node
    case ${arguments[0]} in
    up)
        mkdir -p "$dir/disks" "$data"
        if [[ ! -s $image ]]; then
            truncate --size "${size}M" "$image"
            mkfs.ext4 -q -F -E lazy_itable_init=0 "$image"
        fi
        mountpoint -q "$data" || mount -o loop "$image" "$data"
        # A node takes an empty folder only, or its own.
        rmdir "$data/lost+found" 2>/dev/null || true
        ;;
    down)
        ! mountpoint -q "$data" || umount "$data"
        ;;
    *) echo "up or down?" >&2 && exit 2 ;;
    esac
done
