# What ./dev test-vm boots: a kernel, an initrd, a Debian root image, an image with the tests.
# shellcheck shell=bash

# vm_plan LABEL NAME FILE: the commands of the tests with a matching label and name, one a line, `user` first
# where the label allows an ordinary user. The cases of most GoogleTest programs become one run of them.
vm_plan() {
    ctest --test-dir build/release --show-only=json-v1 | python3 tools/dev/vm/plan "$1" "$2" >"$3"
    [[ -s $3 ]] || die 1 "no test has a label matching '$1' and a name matching '$2'"
}

# vm_kernel: downloads and unpacks Debian's newest cloud kernel of this release; prints the directory.
vm_kernel() {
    local package dir
    package=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" && !n++ { print $2 }')
    if [[ -z $package ]]; then
        apt-get -q update >&2
        package=$(apt-cache depends linux-image-cloud-amd64 | awk '$1 == "Depends:" && !n++ { print $2 }')
    fi
    [[ -n $package ]] || die 1 "apt knows no linux-image-cloud-amd64"
    dir=$(cache_dir)/$package
    if [[ ! -d $dir ]]; then
        say "downloading $package"
        rm -rf "$dir.part" && mkdir -p "$dir.part"
        (cd "$dir.part" && apt-get -q download "$package" >&2 && dpkg-deb -x ./*.deb . && rm ./*.deb)
        mv "$dir.part" "$dir"
    fi
    echo "$dir"
}

# vm_base_image: a minimal Debian 12 with the packages tests use, as an ext4 image; made again when the
# list of packages changes.
vm_base_image() {
    local image root
    image=$(cache_dir)/vm-$(packages_of test | sha256sum | cut -c1-12).img
    if [[ ! -f $image ]]; then
        say "making the root image of the machine (kept for the next time)"
        root=$SCRATCH/root
        unpack_bare_debian "$root"
        # shellcheck disable=SC2046  # one word a package
        enter "$root" env DEBIAN_FRONTEND=noninteractive bash -c \
            'apt-get -q update && apt-get -q install -y --no-install-recommends "$@" && apt-get clean' vm \
            $(packages_of test) 8>&- >"$image.log" 2>&1 || {
            tail -n 20 "$image.log" >&2
            die 1 "installing the tests' packages for the machine failed"
        }
        rm -rf "$root"/var/lib/apt/lists/*
        echo 'tester:x:1000:1000::/home/tester:/bin/bash' >>"$root/etc/passwd"
        echo 'tester:x:1000:' >>"$root/etc/group"
        install -d -o 1000 -g 1000 "$root/home/tester"
        rm -f "$image.part"
        truncate -s 4G "$image.part"
        mke2fs -q -F -t ext4 -O ^has_journal -d "$root" "$image.part"
        mv "$image.part" "$image"
    fi
    echo "$image"
}

# vm_initrd KERNEL FILE: busybox, the modules for disk, ext4 and overlay, and the first program.
vm_initrd() {
    local kernel=$1 file=$2 dir=$SCRATCH/initrd version module
    version=$(basename "$kernel"/lib/modules/*)
    mkdir -p "$dir"/{bin,proc,sys,dev,root}
    cp /bin/busybox "$dir/bin/busybox"
    ln -s busybox "$dir/bin/sh"
    for module in fs/ext4 fs/jbd2 fs/mbcache.ko fs/overlayfs fs/fuse lib crypto drivers/virtio drivers/block/virtio_blk.ko; do
        [[ -e $kernel/lib/modules/$version/kernel/$module ]] || continue
        mkdir -p "$dir/lib/modules/$version/kernel/$(dirname "$module")"
        cp -r "$kernel/lib/modules/$version/kernel/$module" "$dir/lib/modules/$version/kernel/$(dirname "$module")/"
    done
    cp "$kernel/lib/modules/$version"/modules.{builtin,order} "$dir/lib/modules/$version/"
    busybox depmod -b "$dir" "$version"
    install -m 755 tools/dev/vm/initrd-init "$dir/init"
    (cd "$dir" && find . | cpio -o -H newc --quiet | gzip -1) >"$file"
}

# vm_tests_image PLAN FILE: the tree as the tests expect it (programs, sources they read), the shared
# objects the base lacks, the plan and the program that follows it.
vm_tests_image() {
    local stage=$SCRATCH/stage size
    mkdir -p "$stage/tree/build/release" "$stage/lib"
    git ls-files -z -- tests docs tools README.md CMakeLists.txt src | tar -c --null -T - | tar -x -C "$stage/tree"
    # warm-*: state directories of earlier runs of the tests.
    (cd build/release && find . -name 'warm-*' -prune -o -type f -perm -u+x ! -path '*/CMakeFiles/*' ! -name '*.so*' -print0 |
        tar -c --null -T -) |
        tar -x -C "$stage/tree/build/release"
    (cd build/release && find tests tools \( -name CMakeFiles -o -name 'warm-*' \) -prune -o -type d -print0) |
        (cd "$stage/tree/build/release" && xargs -0 mkdir -p)
    ln -s release/berth "$stage/tree/build/berth"
    ln -s release/berth-hooks "$stage/tree/build/berth-hooks"
    # ldd fails for what is static, and says nothing about it.
    { find build/release -type f -perm -u+x ! -path '*/CMakeFiles/*' -exec ldd {} + 2>/dev/null || true; } |
        awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u | grep -vE '/(libc|libm|ld-linux-x86-64)\.so' |
        xargs -r cp -L -t "$stage/lib"
    cp "$1" "$stage/plan"
    install -m 755 tools/dev/vm/guest "$stage/guest"
    size=$(($(du -sm "$stage" | cut -f1) * 3 / 2 + 512))
    truncate -s "${size}M" "$2"
    mke2fs -q -F -t ext4 -O ^has_journal -d "$stage" "$2"
}
