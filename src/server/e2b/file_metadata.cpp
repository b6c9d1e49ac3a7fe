#include "server/e2b/file_metadata.hpp"

#include <algorithm>

#include <boost/asio/this_coro.hpp>

#include "base/strings.hpp"
#include "server/e2b/entry_info.hpp"

namespace berth::e2b {

namespace {

constexpr std::string_view kHeader = "x-metadata-";
constexpr std::string_view kPrefix = "user.e2b.";
constexpr std::size_t kLongestKey = 246; // with the prefix, what the kernel takes for a name
constexpr std::size_t kMost = 4096;      // of all names and values of a file

bool is_plain(std::string_view text)
{
    return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

} // namespace

Result<FileMetadata> metadata_of(const http::RequestHead& head)
{
    FileMetadata out;
    for (const auto& [name, value] : head.headers) {
        if (name.size() < kHeader.size()) continue;
        const std::string lower = lower_case(name);
        if (!lower.starts_with(kHeader)) continue;
        std::string key = lower.substr(kHeader.size());
        if (key.empty() || key.size() > kLongestKey || !is_plain(key))
            return fail(Code::Invalid, "invalid metadata key '{}'", printable(key, 60));
        if (!is_plain(value))
            return fail(Code::Invalid, "the value of metadata key '{}' is not printable ASCII", key);
        out[std::move(key)] = value;
    }
    std::size_t total = 0;
    for (const auto& [key, value] : out) total += kPrefix.size() + key.size() + value.size();
    if (total > kMost) return fail(Code::Invalid, "more than {} bytes of metadata", kMost);
    return out;
}

Task<std::map<std::string, FileMetadata>> metadata_in(const EnvdCall& call, std::string directory,
                                                      std::vector<std::string> names, std::string user)
{
    auto* const kept = dynamic_cast<FileAttributes*>(&call.backend);
    if (kept == nullptr || names.empty()) co_return std::map<std::string, FileMetadata>{};
    FilePath place{.path = std::move(directory), .user = std::move(user)};
    auto found =
        co_await kept->read_attributes(call.handle, std::move(place), std::move(names), std::string(kPrefix));
    // Best effort: what cannot be looked at has none.
    if (!found) co_return std::map<std::string, FileMetadata>{};
    co_return *std::move(found);
}

Task<Result<bool>> put_metadata(EnvdCall& call, const User& user, std::string path, FileMetadata metadata)
{
    auto* const kept = dynamic_cast<FileAttributes*>(&call.backend);
    if (kept == nullptr) co_return false;
    const auto done = co_await as_user(call, user, path, [&](std::string who) -> Task<Status> {
        FilePath file{.path = path, .user = std::move(who)};
        co_return co_await kept->write_attributes(call.handle, std::move(file), std::string(kPrefix),
                                                  metadata);
    });
    if (done) co_return true;
    if (done.error().code == Code::Unsupported) co_return false;
    co_return std::unexpected(done.error());
}

} // namespace berth::e2b
