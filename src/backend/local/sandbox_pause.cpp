#include "backend/local/sandbox.hpp"

namespace berth::local {

Result<sys::SandboxGroup*> Sandbox::freezable()
{
    if (group_ && group_->execs().can_freeze()) return &group_->execs();
    const auto tree = sys::CgroupTree::open();
    const auto& freezer = tree.of(sys::Controller::Freezer);
    if (!freezer.available())
        return fail(Code::Unsupported, "sandbox {} cannot be paused: {}; {}", id(), freezer.lack.reason,
                    freezer.lack.remedy);
    return fail(Code::Unsupported, "sandbox {} cannot be paused: it was made without control groups", id());
}

Status Sandbox::pause()
{
    BERTH_TRY(auto* const execs, freezable());
    auto done = pause_execs(directory_.get(), *execs);
    if (!done) return std::unexpected(std::move(done).error().while_doing("pausing " + id()));
    return {};
}

Status Sandbox::resume()
{
    if (!group_) return {}; // it was never paused
    auto done = resume_execs(directory_.get(), group_->execs());
    if (!done) return std::unexpected(std::move(done).error().while_doing("resuming " + id()));
    return {};
}

Result<Paused> Sandbox::paused() const
{
    if (!group_) return Paused{};
    return look_paused(directory_.get(), group_->execs());
}

Result<Stillness> Sandbox::hold_still()
{
    BERTH_TRY(auto* const execs, freezable());
    return Stillness::begin(directory_.get(), *execs);
}

/// What is frozen with v1 dies when it thaws, so the others run for a moment too. v2 kills the frozen.
Status Sandbox::kill_group(sys::SandboxGroup& exec)
{
    BERTH_TRY(const auto state, paused());
    if (!state.now || !group_->places().v2.empty()) return exec.kill_all();
    BERTH_TRY(const auto turn, Turn::take(directory_.get(), Turn::Kind::Freeze));
    for (const auto& path : exec.places().distinct_v1()) BERTH_CHECK(sys::kill_each(path));
    BERTH_CHECK(group_->execs().thaw());
    auto killed = exec.kill_all();
    BERTH_CHECK(group_->execs().freeze());
    return killed;
}

} // namespace berth::local
