#include "server/codex/sandbox_look.hpp"

#include <deque>

#include "base/strings.hpp"
#include "policy/target.hpp"
#include "server/codex/traces.hpp"

namespace berth::codex {

namespace {

constexpr int kMaxLinks = 40;

} // namespace

Task<Result<std::optional<FileEntry>>> Looker::entry(std::string path)
{
    using Answer = std::optional<FileEntry>;
    if (const auto at = known_.find(path); at != known_.end()) co_return at->second;
    // What stands for a name while a command runs is not there; one that begins now must hold it as well.
    if (around_.traces != nullptr && around_.traces->is_place(around_.handle.sandbox, path))
        co_return known_[path] = Answer{};
    auto found =
        co_await around_.backend.stat_file(around_.handle, {.path = path, .user = {}, .follow = false});
    if (!found && found.error().code == Code::NotFound) co_return known_[path] = Answer{};
    // What its user may not look at is there for all we know, and is no link for him.
    if (!found && found.error().code == Code::Denied) co_return known_[path] = FileEntry{};
    if (!found) co_return std::unexpected(std::move(found).error());
    // Made while we looked: whoever makes such a directory says so before.
    if (around_.traces != nullptr && around_.traces->is_place(around_.handle.sandbox, path))
        co_return known_[path] = Answer{};
    co_return known_[path] = *std::move(found);
}

Task<Result<Seen>> Looker::look(std::string path)
{
    Seen out;
    std::deque<std::string> rest;
    for (const auto part : policy::components(path)) rest.emplace_back(part);
    std::string at;
    int followed = 0;
    while (!rest.empty()) {
        const std::string name = std::move(rest.front());
        rest.pop_front();
        if (name == ".") continue;
        if (name == "..") {
            at.resize(at.empty() ? 0 : at.rfind('/'));
            continue;
        }
        const std::string next = at + "/" + name;
        if (!out.missing) {
            BERTH_CO_TRY(const auto found, co_await entry(next));
            if (found && found->kind == FileEntry::Kind::Symlink) {
                if (++followed > kMaxLinks) co_return fail_with(ELOOP, "{}", printable(path, 120));
                out.links.push_back(at.empty() ? "/" : at);
                const auto parts = policy::components(found->target);
                for (auto part = parts.rbegin(); part != parts.rend(); ++part) rest.emplace_front(*part);
                if (found->target.starts_with('/')) at.clear();
                continue;
            }
            out.missing = !found;
        }
        at = next;
    }
    out.real = at.empty() ? "/" : at;
    co_return out;
}

} // namespace berth::codex
