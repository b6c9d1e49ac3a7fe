# shellcheck shell=bash
#: test-vm [--label REGEX] [-R REGEX]   the local and security suites under Debian 12's own kernel
#:
#: Boots linux-image-cloud-amd64 (unpacked, never installed) in QEMU with cgroup
#: v2 only, and runs every test whose CTest label matches (default:
#: local|security) as root and, when labelled user, as an ordinary user with a
#: delegated cgroup; -R chooses by name, as with ctest. Needs root and 3 GB of memory. The last line is
#: `N passed, N failed, N skipped`; the console stays in build/vm/console.
#: BERTH_VM_DEADLINE bounds the whole (seconds, 3600). The processor is emulated:
#: a nested /dev/kvm may be there and fail; BERTH_VM_ACCEL=kvm uses it.
label='^(local|security)$' name=
while [[ $# -gt 0 ]]; do
    case $1 in
        --label) label=${2:?--label needs a regular expression} ;;
        -R) name=${2:?-R needs a regular expression} ;;
        *) die 2 "test-vm takes --label REGEX and -R REGEX, not $1" ;;
    esac
    shift 2
done
need_root test-vm
need build test vm
(($(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo) >= 3000)) ||
    die 1 "test-vm needs 3 GB of free memory"
build_tree release all
link_programs
source tools/dev/bare_debian.sh
source tools/dev/vm/images.sh

scratch_root vm
mkdir -p build/vm
vm_plan "$label" "$name" "$SCRATCH/plan"
say "$(wc -l <"$SCRATCH/plan") test programs"
kernel=$(vm_kernel)
base=$(vm_base_image)
vm_initrd "$kernel" "$SCRATCH/initrd.gz"
vm_tests_image "$SCRATCH/plan" "$SCRATCH/tests.img"

console=$TREE/build/vm/console
: >"$console"
begun=$SECONDS
say "booting $(basename "$kernel")"
# q35: the microvm machine hangs before its first message in many emulated boots.
timeout --kill-after=10 "${BERTH_VM_DEADLINE:-3600}" qemu-system-x86_64 \
    -M q35,accel=${BERTH_VM_ACCEL:-tcg} -cpu max -smp 2 -m 2048 -nodefaults -no-user-config -display none -no-reboot \
    -kernel "$kernel"/boot/vmlinuz-* -initrd "$SCRATCH/initrd.gz" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off cgroup_no_v1=all berth.tree=$TREE" \
    -drive "file=$base,format=raw,if=virtio,snapshot=on" \
    -drive "file=$SCRATCH/tests.img,format=raw,if=virtio" \
    -serial "file:$console" 8>&- >&2 &
machine=$!
tail -n +1 -f --pid="$machine" "$console" &
# A machine that does not reach its own init in five minutes never will.
while kill -0 "$machine" 2>/dev/null && ! grep -q '^berth-vm: ' "$console"; do
    if ((SECONDS - begun > 300)); then
        kill "$machine"
        break
    fi
    sleep 1
done
status=0
wait "$machine" || status=$?
wait || true
say "the machine ran for $((SECONDS - begun)) s"

result=$(tr -d '\r' <"$console" | sed -n 's/^BERTH-RESULT //p' | tail -n 1)
[[ -n $result ]] || die 1 "the machine ended without a result (QEMU's exit code: $status); see $console"
echo "$result"
[[ $result =~ ^([0-9]+)\ passed,\ 0\ failed, && ${BASH_REMATCH[1]} -gt 0 ]]
