# shellcheck shell=bash
#: run [-- ARGS...]      build, then show a command in a sandbox
#:
#: ./dev run             the demonstration: who, where and what a command sees
#: ./dev run -- ARGS     build/berth ARGS, after building
need build
build_tree release berth berth-hooks
link_programs
if [[ ${1:-} == -- ]]; then
    shift
    exec build/berth "$@"
fi
[[ $# -eq 0 ]] || die 2 "./dev run takes no arguments before --"

script='id; hostname; ls /; echo mine > /var/tmp/made-inside; ls /var/tmp; echo hello from inside'
echo "\$ build/berth run -- sh -c '$script'"
build/berth run -- sh -c "$script"
cat <<'END'

Shown: a command as the user `user` in its own root, with its own host name, processes and network
(loopback only). What it wrote to /var/tmp is not in this machine's /var/tmp, and went with it.
Next: build/berth run --help, docs/tutorial/first-sandbox.md
END
