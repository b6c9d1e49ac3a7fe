# A minimal Debian 12 root and a way into it; sourced by ./dev fresh and ./dev test-vm. Needs root.
# shellcheck shell=bash

# bare_debian: makes, once, the archive of a minimal bookworm, and prints its path.
bare_debian() {
    local archive dir mirror
    archive=$(cache_dir)/bookworm-minbase.tar
    dir=$archive.root
    # One maker at a time; what a killed one left is removed by the next.
    exec 7>"$archive.lock"
    flock 7
    if [[ ! -f $archive ]]; then
        say "making a minimal Debian 12 with debootstrap (kept for the next time)"
        rm -rf --one-file-system "$dir"
        # The mirror this machine uses; debootstrap knows one of its own for machines without bookworm.
        mirror=$(apt-get indextargets --format '$(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
            awk '$1 == "bookworm" && !n++ { print $2 }')
        debootstrap --variant=minbase bookworm "$dir" ${mirror:+"$mirror"} >"$archive.log" 2>&1 || {
            tail -n 20 "$archive.log" >&2
            die 1 "debootstrap failed; its log is $archive.log"
        }
        rm -rf "$dir"/var/cache/apt/archives/*.deb "$dir"/var/lib/apt/lists/*
        tar -C "$dir" -cf "$archive.part" . && mv "$archive.part" "$archive"
        rm -rf --one-file-system "$dir"
    fi
    exec 7>&-
    echo "$archive"
}

# unpack_bare_debian DIR: the minimal root with this machine's way to its package mirrors.
unpack_bare_debian() {
    local root=$1 archive item
    archive=$(bare_debian)
    tar -C "$root" -xpf "$archive"
    chmod 755 "$root" # users in it must be able to enter, whatever the maker's umask was
    rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d
    for item in sources.list sources.list.d apt.conf.d keyrings trusted.gpg.d; do
        [[ ! -e /etc/apt/$item ]] || cp -a "/etc/apt/$item" "$root/etc/apt/"
    done
    cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    cp -L /etc/hosts "$root/etc/hosts"
    if [[ -f /etc/ssl/certs/ca-certificates.crt ]]; then
        mkdir -p "$root/etc/ssl/certs"
        cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    fi
}

# enter ROOT CMD...: runs CMD with ROOT as its root, in a mount and pid namespace of its own. By
# pivot_root, since the kernel refuses user namespaces to a chrooted process (user_namespaces(7)).
# All mounts live in that namespace: they go with its first process, however it ends.
enter() {
    local root=$1 name
    shift
    local -a environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
        TERM="${TERM:-dumb}")
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
        [[ -z ${!name:-} ]] || environment+=("$name=${!name}")
    done
    # shellcheck disable=SC2016  # expanded by the inner shell
    unshare --mount --pid --fork --kill-child --propagation private bash -euc '
        root=$1
        shift
        mount --bind "$root" "$root"
        mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        cd "$root"
        mkdir -p .outside
        pivot_root . .outside
        cd /
        umount -l /.outside
        rmdir /.outside
        exec "$@"' enter "$root" env -i "${environment[@]}" "$@"
}

# scratch_root NAME: a directory for a root, locked while this shell lives (descriptor 8). Those whose
# maker was killed hold no lock any more and are removed here.
scratch_root() {
    local base=${TMPDIR:-/tmp} old
    for old in "$base"/berth-"$1".*; do
        [[ -d $old && -f $old/lock ]] || continue
        if flock -n "$old/lock" true; then rm -rf --one-file-system "$old"; fi
    done
    SCRATCH=$(mktemp -d "$base/berth-$1.XXXXXX")
    exec 8>"$SCRATCH/lock"
    flock 8
    # shellcheck disable=SC2064  # the value of now
    trap "rm -rf --one-file-system '$SCRATCH'" EXIT
    trap 'exit 130' INT TERM
    mkdir "$SCRATCH/root"
}
