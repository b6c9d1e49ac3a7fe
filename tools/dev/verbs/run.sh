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

# shellcheck disable=SC2016  # expanded by the shell inside
script='id; hostname; ls /; ls -A ~; touch /etc/made-inside && echo "wrote /etc/made-inside"; echo hello from inside'
printf '$ build/berth run -- sh -c %q\n' "$script"
build/berth run -- sh -c "$script"
[[ ! -e /etc/made-inside ]] || die 1 "the sandbox wrote to this machine's /etc"
cat <<'END'

Shown: a command as the user `user` in its own root, with its own host name, process
table and network (loopback only). It wrote to /etc; this machine's /etc did not change.
Everything it made went with it. Next: build/berth run --help, docs/tutorial/first-sandbox.md
END
