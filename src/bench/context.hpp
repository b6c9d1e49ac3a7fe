#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "backend/local/state_dir.hpp"
#include "bench/census.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::bench {

struct Options {
    unsigned rounds = 200;
    unsigned repeats = 3;
    bool peers = false;
    bool ci = false; ///< fewer of everything, bars loosened by 1.5
    std::function<void(std::string_view)> progress;
};

/// What every part of a run shares.
class Context {
public:
    Context(const local::StateDir& state, Options options) : state_(&state), options_(std::move(options)) {}

    [[nodiscard]] const local::StateDir& state() const noexcept { return *state_; }
    [[nodiscard]] const Options& options() const noexcept { return options_; }
    void progress(std::string_view what) const
    {
        if (options_.progress) options_.progress(what);
    }

    /// A fresh spec: template `host`, no control groups, the host's network. Its id is remembered, so
    /// that the census knows what is ours.
    [[nodiscard]] SandboxSpec spec();

    [[nodiscard]] Census census() const { return Census::take(*state_, ids_); }

    /// Once true, everything winds up as soon as it can.
    [[nodiscard]] bool interrupted();
    void interrupt() noexcept { interrupted_ = true; }

private:
    const local::StateDir* state_;
    Options options_;
    std::set<std::string, std::less<>> ids_;
    bool interrupted_ = false;
};

/// Nanoseconds since it was made.
class Stopwatch {
public:
    Stopwatch() : start_(std::chrono::steady_clock::now()) {}
    [[nodiscard]] double nanoseconds() const
    {
        return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start_).count();
    }

private:
    std::chrono::steady_clock::time_point start_;
};

} // namespace berth::bench
