#include "store/sqlite/copies.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "store/sqlite/record_copy.hpp"

namespace berth::store {

namespace {

constexpr const char* kOwner = "owner";
constexpr std::size_t kOwnerSize = 32;
constexpr Bytes kLargest{16u << 20};

bool over(const SandboxRecord& record)
{
    return record.state == State::Destroyed || record.state == State::Failed ||
           record.state == State::Detached || record.state == State::Creating;
}

} // namespace

Copies::Copies(const std::string& store)
    : directory_(store.substr(0, store.find_last_of('/') + 1)), records_(directory_ + "record")
{
}

std::optional<std::string> Copies::owner() const
{
    auto text = read_file(directory_ + kOwner);
    if (!text) return std::nullopt;
    while (!text->empty() && text->back() == '\n') text->pop_back();
    const bool good = text->size() == kOwnerSize && std::ranges::all_of(*text, [](char c) {
                          return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
                      });
    return good ? std::optional(*std::move(text)) : std::nullopt;
}

void Copies::keep_owner(const std::string& owner) const
{
    const UniqueFd dir(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto kept = dir ? replace_file_at(dir.get(), kOwner, owner + "\n") : Status{};
    if (!kept) log::debug("the store's owner is not kept beside it", {{"error", kept.error().line()}});
}

bool Copies::begin() const { return ::mkdir(records_.c_str(), 0700) == 0; }

// Not brought to the disk: the store is. A copy that a dying machine tore is told when it is needed.
void Copies::write(const std::string& id, const std::string& text) const
{
    const std::string name = records_ + "/" + id;
    const std::string next = fmt::format("{}.{}", name, ::gettid());
    const auto written = [&]() -> Status {
        const UniqueFd file(
            ::open(next.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!file) return fail_errno("opening {}", next);
        BERTH_CHECK(write_all(file.get(), text));
        if (::rename(next.c_str(), name.c_str()) != 0) return fail_errno("naming {}", name);
        return {};
    }();
    if (written) return;
    ::unlink(next.c_str());
    log::debug("a record has no copy", {{"error", written.error().line()}});
}

void Copies::keep(const SandboxRecord& record) const
{
    if (over(record)) return forget(record.id());
    write(record.id(), copy_of(record));
}

void Copies::keep(const SnapshotRecord& snapshot) const
{
    if (!snapshot.internal) write(snapshot.id, copy_of(snapshot));
}

void Copies::forget(const std::string& id) const { ::unlink((records_ + "/" + id).c_str()); }

Result<Copies::Kept> Copies::read() const
{
    Kept out;
    const UniqueFd dir(::open(records_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir && errno == ENOENT) return out;
    if (!dir) return fail_errno("opening {}", records_);
    BERTH_TRY(const auto names, list_names(dir.get()));
    for (const auto& name : names) {
        const bool sandbox = is_id(name, "sbx_");
        if (!sandbox && !is_id(name, "snap_")) continue; // one that was not finished
        const auto text = read_file_at(dir.get(), name, kLargest);
        auto record = text && sandbox ? read_sandbox_copy(*text) : fail(Code::Invalid, "no sandbox");
        auto snapshot = text && !sandbox ? read_snapshot_copy(*text) : fail(Code::Invalid, "no snapshot");
        if (record && record->id() == name)
            out.sandboxes.push_back(*std::move(record));
        else if (snapshot && snapshot->id == name)
            out.snapshots.push_back(*std::move(snapshot));
        else
            out.unreadable.push_back(name);
    }
    std::ranges::sort(out.snapshots, {}, &SnapshotRecord::created);
    return out;
}

} // namespace berth::store
