#pragma once

#include "core/backend.hpp"

namespace berth {

/// What a backend is besides whose exec() is one call that blocks; found by dynamic_cast. Whoever is on a
/// thread for such calls already makes it there, and saves two changes of threads.
class BlockingExec {
public:
    virtual ~BlockingExec() = default;

    /// Whether its log is read from the beginning as soon as it runs: what that takes is made ready. One who
    /// attends (core/attends.hpp) does so before the command can have printed anything.
    enum class Reader { Unknown, Follows, Attends };
    /// As Backend::exec.
    [[nodiscard]] virtual Status exec_now(const SandboxHandle& sandbox, const ExecSpec& spec,
                                          Reader reader) = 0;
};

} // namespace berth
