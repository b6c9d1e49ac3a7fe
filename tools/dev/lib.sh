# Shared by ./dev and its verbs: messages, packages, building. Sourced, with the tree as working directory.
# shellcheck shell=bash

# shellcheck disable=SC2034  # the verbs use it
TREE=$PWD

say() { printf '== %s\n' "$*" >&2; }

# die CODE MESSAGE
die() {
    local code=$1
    shift
    printf './dev: %s\n' "$*" >&2
    exit "$code"
}

verb_help() {
    [[ $1 =~ ^[a-z-]+$ && -f tools/dev/verbs/$1.sh ]] || die 2 "unknown verb '$1'; ./dev help lists them"
    sed -n 's/^#: \{0,1\}//p' "tools/dev/verbs/$1.sh"
}

packages_of() {
    local group
    for group in "$@"; do awk -v g="$group" '$1 == g { print $2 }' tools/dev/packages.txt; done | sort -u
}

# missing_packages GROUP...: one dpkg-query for the whole list, so that a complete machine waits milliseconds.
missing_packages() {
    local -a wanted
    mapfile -t wanted < <(packages_of "$@")
    [[ ${#wanted[@]} -gt 0 ]] || die 1 "tools/dev/packages.txt has no group among: $*"
    comm -23 <(printf '%s\n' "${wanted[@]}") \
        <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null |
            awk '$2 == "installed" { print $1 }' | sort -u)
}

# need GROUP...: installs what is missing of these groups; touches neither apt nor the network otherwise.
need() {
    command -v dpkg-query >/dev/null ||
        die 1 "this machine has no dpkg; berth is built on Debian 12 with: $(packages_of "$@" | xargs)"
    local -a missing
    mapfile -t missing < <(missing_packages "$@")
    [[ ${#missing[@]} -gt 0 ]] || return 0

    local -a root=()
    if [[ $EUID -ne 0 ]]; then
        command -v sudo >/dev/null ||
            die 1 "missing packages; as root: apt-get install --no-install-recommends ${missing[*]}"
        root=(sudo)
        [[ -t 0 ]] || root+=(-n)
    fi
    say "installing: ${missing[*]}"
    local -a apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
    "${apt[@]}" update >&2 || die 1 "apt-get update failed; its own messages are above"
    # Packages with a daemon are for tests that start one of their own: the system's is not started.
    local quiet=/usr/sbin/policy-rc.d
    if [[ " ${missing[*]} " =~ " docker" && ! -e $quiet ]]; then
        printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$quiet" >/dev/null
        "${root[@]}" chmod 755 "$quiet"
        # shellcheck disable=SC2064
        trap "${root[*]} rm -f $quiet" EXIT
    fi
    # --no-remove: Debian's default Boost (1.74) and 1.81 exclude each other, and taking somebody's
    # development files away is not for a script to decide.
    if ! "${apt[@]}" install -y --no-install-recommends --no-remove "${missing[@]}" >&2; then
        if dpkg-query -W -f '${db:Status-Status}' libboost1.74-dev 2>/dev/null | grep -qx installed; then
            die 1 "libboost1.74-dev excludes libboost1.81-dev; if nothing else needs it: apt-get remove libboost1.74-dev"
        fi
        die 1 "apt could not install: ${missing[*]} (berth is built on Debian 12; this is $(
            . /etc/os-release && echo "$PRETTY_NAME"))"
    fi
}

# One job a core, but no more than memory carries: a translation unit takes up to about 1 GB.
jobs_here() {
    local cores memory
    cores=$(nproc)
    memory=$(awk '/^MemAvailable:/ { print int($2 / 1048576) }' /proc/meminfo)
    ((memory < 1)) && memory=1
    echo $((cores < memory ? cores : memory))
}

# build_tree PRESET [TARGET...]: configures when needed and builds; without targets everything.
build_tree() {
    local preset=$1
    shift
    # Another clone of the tree finds what this one has compiled.
    export CCACHE_BASEDIR=$TREE CCACHE_NOHASHDIR=1
    # Headers that were parsed once count by what they are, not by where (cmake/Prelude.cmake).
    export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=1
    if [[ ! -f build/$preset/build.ninja ]]; then
        say "configuring build/$preset"
        local output
        output=$(cmake --preset "$preset" 2>&1) || {
            printf '%s\n' "$output" >&2
            die 1 "cmake --preset $preset failed"
        }
    fi
    ninja -C "build/$preset" -j"$(jobs_here)" "$@" >&2
}

# The programs of the release build at the place the documentation names.
link_programs() {
    local program
    for program in berth berth-hooks; do
        [[ ! -x build/release/$program ]] || ln -sfn "release/$program" "build/$program"
    done
}

# install_sdks BUILD: what tests/sdk runs, from npm by name and lock file, into BUILD/sdk and folders below it. Does
# nothing when it is there already.
install_sdks() {
    install_packages tests/sdk "$1/sdk" node_modules/.bin/node &&
        install_packages tests/sdk/codex "$1/sdk/codex" node_modules/codex-new/package.json &&
        install_packages tests/sdk/agent "$1/sdk/agent" node_modules/sandbox-agent/package.json
}

# install_packages FROM PLACE PROOF: one lock file's packages; PROOF is there when they are.
install_packages() {
    local from=$1 place=$2 proof=$3
    if [[ -e $place/$proof ]] && cmp -s "$from/package-lock.json" "$place/package-lock.json"; then return 0; fi
    command -v npm >/dev/null || {
        say "no npm here: the SDK tests are skipped (apt-get install npm)"
        return 1
    }
    mkdir -p "$place"
    cp "$from/package.json" "$from/package-lock.json" tests/sdk/.npmrc "$place/"
    say "installing what tests of $from run"
    if ! (cd "$place" && npm ci --no-audit --no-fund >npm.log 2>&1); then
        say "npm could not install them ($place/npm.log): those tests are skipped"
        rm -f "$place/package-lock.json"
        return 1
    fi
}

# Every C++ source of ours, as git knows it plus what is new in the working tree.
sources() { git ls-files --cached --others --exclude-standard -- '*.cpp' '*.hpp' | sort -u; }

# Where things that outlive a build directory are kept; never in the tree.
cache_dir() {
    local dir=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/berth-dev
    mkdir -p "$dir"
    echo "$dir"
}

need_root() { [[ $EUID -eq 0 ]] || die 1 "$1 needs root: sudo ./dev $1"; }
