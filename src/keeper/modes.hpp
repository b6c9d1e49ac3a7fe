#pragma once

namespace berth::keeper {

/// pid 1 of a kept sandbox: "k", then the uids, as they look from inside, that may connect.
/// Descriptor 3 listens. Ends only by STOP or from outside.
int keep(int argc, char** argv);

/// pid 1 of a one-shot sandbox: "o", flags, uid, gid, cwd, command... (wire_messages.hpp).
int run_once(int argc, char** argv, char** envp);

} // namespace berth::keeper
