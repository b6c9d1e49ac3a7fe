#include "backend/local/layer_merge.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <ranges>
#include <set>

#include "backend/local/copy_layers.hpp"
#include "backend/local/instance_lock.hpp"
#include "backend/local/uppers.hpp"
#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "keeping/native.hpp"
#include "sys/lay_over.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
constexpr std::chrono::milliseconds kPatience = 200ms; ///< somebody works on it: another time, then

/// What any of them has.
Result<std::set<std::string>> parts_of(int layers, const Stack& stack)
{
    std::set<std::string> out;
    for (const auto& id : stack) {
        const UniqueFd layer(::openat(layers, id.c_str(), kDirectory));
        if (!layer) return fail_errno("opening the layer {}", id);
        BERTH_TRY(const auto names, list_parts(layer.get()));
        out.insert(names.begin(), names.end());
    }
    return out;
}

/// From the lowest to the topmost, each over those before it.
Status merge_into(int layers, int made, const Stack& stack, const std::string& part, std::string_view marks)
{
    if (::mkdirat(made, part.c_str(), 0700) != 0) return fail_errno("making the merged layer");
    const UniqueFd to(::openat(made, part.c_str(), kDirectory));
    if (!to) return fail_errno("opening the merged layer");
    for (const auto& id : std::views::reverse(stack)) {
        const UniqueFd from(::openat(layers, fmt::format("{}/{}", id, part).c_str(), kDirectory));
        if (!from && errno == ENOENT && is_copy_part(part)) continue; // nobody had that copy yet
        if (!from) return fail_errno("opening the layer {}", id);
        if (auto done = sys::lay_over(from.get(), to.get(), marks); !done)
            return std::unexpected(std::move(done).error().while_doing("merging the layer " + id));
    }
    return {};
}

bool is_deep(const Instance& instance)
{
    return instance.stopped && instance.freezing.empty() && instance.stack.size() >= kMergeFrom;
}

Status merge_one(const StateDir& state, const std::string& native)
{
    {
        const auto look = open_instance(state, native);
        const auto instance = look ? read_instance(look->get()) : Result<Instance>(fail(Code::NotFound, ""));
        if (!instance || !is_deep(*instance)) return {};
    }
    BERTH_TRY(const auto directory, lock_instance(state, native, kPatience));
    BERTH_TRY(auto instance, read_instance(directory.get()));
    if (!is_deep(instance)) return {};
    BERTH_TRY(const auto layers, lock_layers(state, Use::Shared, kPatience));
    const auto before = instance.stack.size();
    BERTH_CHECK(merge_stack(state, instance));
    BERTH_CHECK(write_instance(directory.get(), instance, Durable::Yes));
    hooks::kill_point("merge: recorded");
    log::info("the layers of a sandbox were merged",
              {{.name = "sandbox", .value = native}, {.name = "layers", .value = std::to_string(before)}});
    return {};
}

} // namespace

Status merge_stack(const StateDir& state, Instance& instance)
{
    BERTH_TRY(const auto layers, open_layers(state));
    const std::string id = make_layer_id();
    const std::string making = ".new-" + id; // the collector removes what nobody finished
    if (::mkdirat(layers.get(), making.c_str(), 0755) != 0) return fail_errno("making the layer {}", id);
    ScopeExit undo([&] { (void)sys::remove_tree(layers.get(), making); });
    const UniqueFd made(::openat(layers.get(), making.c_str(), kDirectory));
    if (!made) return fail_errno("opening the layer {}", id);
    const auto marks = instance.mode == IdMode::Own ? sys::kUserMarks : sys::kTrustedMarks;
    BERTH_TRY(const auto parts, parts_of(layers.get(), instance.stack));
    for (const auto& part : parts)
        BERTH_CHECK(merge_into(layers.get(), made.get(), instance.stack, part, marks));
    hooks::kill_point("merge: made");
    // The layers it was made of may be gone before the next sync.
    BERTH_CHECK(sync_file_system(layers.get()));
    if (::renameat2(layers.get(), making.c_str(), layers.get(), id.c_str(), RENAME_NOREPLACE) != 0)
        return fail_errno("naming the layer {}", id);
    undo.dismiss();
    BERTH_CHECK(sync_file_system(layers.get()));
    hooks::kill_point("merge: named");
    instance.stack = {id};
    return {};
}

void merge_resting(const StateDir& state)
{
    const UniqueFd all(::openat(state.fd(), "sandbox", kDirectory));
    const auto names = list_names(all.get());
    if (!all || !names) return;
    for (const auto& native : *names) {
        if (!is_native(native)) continue;
        if (const auto merged = merge_one(state, native); !merged)
            log::warn(
                "the layers of a sandbox cannot be merged",
                {{.name = "sandbox", .value = native}, {.name = "error", .value = merged.error().line()}});
    }
}

} // namespace berth::local
