#include "server/e2b/marks.hpp"

#include "base/log.hpp"

namespace berth::e2b {

namespace {

constexpr const char* kDirectory = "/run/e2b";

Task<Status> write_marks(Backend& backend, SandboxHandle sandbox, std::string id, std::string template_id,
                         std::string user)
{
    BERTH_CO_CHECK(co_await backend.make_dir(sandbox, {.path = kDirectory, .user = user}, MakeParents::Yes));
    const std::pair<const char*, std::string> marks[] = {
        {".E2B_SANDBOX", "true"}, {".E2B_SANDBOX_ID", id}, {".E2B_TEMPLATE_ID", template_id}};
    for (const auto& [name, value] : marks)
        BERTH_CO_CHECK(co_await backend.write_file(
            sandbox, {.path = fmt::format("{}/{}", kDirectory, name), .user = user}, value, 0644));
    co_return Status{};
}

} // namespace

Task<void> leave_marks(Backend& backend, SandboxHandle sandbox, const Entry& entry)
{
    auto written = co_await write_marks(backend, sandbox, entry.id, entry.template_id, "root");
    // With one id inside there is no root, and everything is the user's.
    if (!written && written.error().code == Code::Unsupported)
        written = co_await write_marks(backend, sandbox, entry.id, entry.template_id, {});
    if (!written)
        log::warn("no marks below /run/e2b", {{"sandbox", entry.id}, {"why", written.error().line()}});
}

} // namespace berth::e2b
