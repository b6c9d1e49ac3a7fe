#pragma once

#include <stop_token>

#include "base/blocking_pool.hpp"
#include "server/e2b/build_files.hpp"
#include "server/e2b/sandboxes.hpp"
#include "server/e2b/settings.hpp"
#include "server/e2b/templates.hpp"

namespace berth::e2b {

/// Builds templates: a sandbox on what is asked for as the base, the steps in it one by one, and a snapshot
/// of what has become of it. Client's commands run inside, with the limits and walls of every sandbox.
class Builder {
public:
    /// What it works with; borrowed.
    struct Parts {
        gate::Ground& ground;
        Sandboxes& sandboxes;
        Templates& templates;
        BuildFiles& files;
        const Settings& settings;
    };
    explicit Builder(Parts parts)
        : ground_(parts.ground), sandboxes_(parts.sandboxes), templates_(parts.templates),
          files_(parts.files), settings_(parts.settings)
    {
    }

    /// Returns when it has begun. Conflict: it was started before.
    Task<Status> start(Templates::One one, BuildStart wish);

    /// What comes from registries comes no further.
    void leave() noexcept { leaving_.request_stop(); }

private:
    static constexpr std::size_t kFetches = 3;

    struct Work; ///< one build under way
    Task<Result<Template>> image(Work& work);
    Task<Status> add_account(Work& work);
    Task<void> carry_out(Templates::One one, BuildStart wish);
    Task<Status> steps(Work& work);
    Task<Status> base(Work& work);
    Task<Status> step(Work& work, BuildStep step);
    Task<Status> copy(Work& work, BuildStep step);
    Task<Status> set_env(Work& work, BuildStep step);
    Task<Status> finalize(Work& work);
    struct Command {
        std::vector<std::string> argv;
        std::string user;
        std::string cwd;
        bool quiet = false;
        std::string* output = nullptr; ///< gets what it prints
    };
    Task<Status> command(Work& work, Command what);

    gate::Ground& ground_;
    Sandboxes& sandboxes_;
    Templates& templates_;
    BuildFiles& files_;
    const Settings& settings_;
    std::size_t running_ = 0;
    std::stop_source leaving_;
    BlockingPool fetching_{kFetches}; ///< registries are slow: nobody else waits for them
};

} // namespace berth::e2b
