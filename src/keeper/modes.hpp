#pragma once

namespace berth::keeper {

/// pid 1 of a kept sandbox: "k", a word that says whose, then the uids, as they look from inside, that may
/// connect. Descriptor 3 listens. Ends only by STOP or from outside; with the word "p" before the uids also
/// with its maker, until it is claimed (4: a pipe from him, 5: the file that a claim replaces).
int keep(int argc, char** argv);

/// pid 1 of a container that an engine made: PROGRAM, "c", the path to listen at, then uids as above. Who
/// connects must come from outside: whatever runs inside sees the same path. SIGTERM, an engine's word for
/// stop, is obeyed as STOP. "cn": nothing it starts gains privileges.
int keep_container(int argc, char** argv);

/// pid 1 of a one-shot sandbox: "o", flags, uid, gid, cwd, command... (wire_messages.hpp).
int run_once(int argc, char** argv, char** envp);

/// One command of somebody else's place: PROGRAM, "x" (wire_relay.hpp).
int relay();
/// The same for whoever comes: PROGRAM, "xs", the path to listen at, uid and gid of the command.
int relay_session(int argc, char** argv);
/// Carries bytes between its own streams and such a session: PROGRAM, "xa", the path; "xw" waits for one that
/// is only being started.
int attach_session(const char* path, bool waits);

} // namespace berth::keeper
