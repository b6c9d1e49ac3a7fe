#include "prove/bed.hpp"

#include <algorithm>
#include <ranges>

#include "base/clock.hpp"

namespace berth::prove {

namespace {

using namespace std::chrono_literals;

constexpr std::string_view kOurs = ".berth-probe-";
constexpr auto kForgotten = 30min; ///< longer than any proof

FilePath at(std::string path) { return {.path = std::move(path), .user = {}, .follow = false}; }

std::string above(const std::string& path)
{
    const auto slash = path.rfind('/');
    return slash == 0 ? "/" : path.substr(0, slash);
}

} // namespace

Task<Status> Bed::make_above(std::string path)
{
    std::vector<std::string> missing;
    for (std::string one = above(path); one != "/"; one = above(one)) {
        const auto found = co_await backend_.stat_file(sandbox_, at(one));
        if (found) break;
        if (found.error().code != Code::NotFound) co_return std::unexpected(found.error());
        missing.push_back(one);
    }
    for (const auto& one : missing | std::views::reverse) {
        directories_.push_back(one); // before it is there: it goes whatever happens next
        BERTH_CO_CHECK(co_await backend_.make_dir(sandbox_, at(one), MakeParents::No));
    }
    co_return Status{};
}

/// Nobody inside can remove what is denied, so what a killed proof left is ours to remove.
Task<void> Bed::weed(std::string directory)
{
    const auto entries = co_await backend_.list_files(sandbox_, at(directory));
    if (!entries) co_return;
    const auto now = system_clock().now();
    for (const auto& entry : *entries)
        if (entry.name.starts_with(kOurs) && entry.modified + kForgotten < now) {
            const auto depth = entry.kind == FileEntry::Kind::Directory ? RemoveTree::Yes : RemoveTree::No;
            (void)co_await backend_.remove_file(sandbox_, at(directory + "/" + entry.name), depth);
        }
}

Task<Status> Bed::plant(std::string path, std::string word)
{
    // The topmost part of ours, which may be a directory.
    const auto ours = path.find("/" + std::string(kOurs));
    if (ours != std::string::npos) co_await weed(ours == 0 ? "/" : path.substr(0, ours));
    BERTH_CO_CHECK(co_await make_above(path));
    const auto found = co_await backend_.stat_file(sandbox_, at(path));
    if (found) co_return fail(Code::Conflict, "{} is there already", path);
    files_.push_back(path);
    co_return co_await backend_.write_file(sandbox_, at(path), std::move(word), 0644);
}

Task<void> Bed::clear()
{
    for (const auto& path : files_) (void)co_await backend_.remove_file(sandbox_, at(path), RemoveTree::No);
    for (const auto& path : directories_ | std::views::reverse)
        (void)co_await backend_.remove_file(sandbox_, at(path), RemoveTree::No);
    files_.clear();
    directories_.clear();
}

} // namespace berth::prove
