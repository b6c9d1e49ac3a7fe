#include "server/e2b/process_notes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/this_coro.hpp>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "protocol/e2b/fields.hpp"
#include "sys/remove_tree.hpp"

namespace berth::e2b {

namespace {

constexpr std::string_view kEnding = ".json";

Result<UniqueFd> open_directory(const std::string& path)
{
    UniqueFd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!directory) return fail_errno("opening {}", path);
    return directory;
}

} // namespace

std::string render(const ProcessNote& note)
{
    json::Object out;
    if (note.tag) out["tag"] = *note.tag;
    out["pty"] = note.pty;
    out["stdin"] = note.stdin_open;
    if (note.deadline) out["deadline"] = note.deadline->time_since_epoch().count();
    return json::dump(out) + "\n";
}

Result<ProcessNote> parse_process_note(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    ProcessNote out;
    BERTH_TRY(out.tag, fields::maybe_text(reader, "tag"));
    BERTH_TRY(out.pty, fields::flag(reader, "pty"));
    BERTH_TRY(out.stdin_open, fields::flag(reader, "stdin"));
    BERTH_TRY(const auto deadline, fields::maybe_whole(reader, "deadline", 0, INT64_MAX));
    if (deadline) out.deadline = WallTime(std::chrono::nanoseconds(*deadline));
    return out;
}

std::string ProcessNotes::directory(const std::string& sandbox) const
{
    return ground_.berth.data() + "/e2b/processes/" + sandbox;
}

Status ProcessNotes::write(const std::string& sandbox, const std::string& exec, const ProcessNote& note) const
{
    const std::string place = directory(sandbox);
    const std::string name = exec + std::string(kEnding);
    auto at = open_directory(place);
    if (!at && at.error().code == Code::NotFound) {
        BERTH_CHECK(make_dirs(place, 0700));
        at = open_directory(place);
    }
    if (!at) return std::unexpected(std::move(at).error());
    const UniqueFd file(
        ::openat(at->get(), name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("noting command {}", exec);
    return write_all(file.get(), render(note));
}

Task<void> ProcessNotes::remove(std::string sandbox, std::string exec)
{
    const std::string path = directory(sandbox) + "/" + exec + std::string(kEnding);
    (void)co_await ground_.pool.call([&]() -> Status {
        ::unlink(path.c_str());
        return {};
    });
}

Task<std::map<std::string, ProcessNote>> ProcessNotes::read(std::string sandbox)
{
    const std::string place = directory(sandbox);
    std::map<std::string, ProcessNote> out;
    (void)co_await ground_.pool.call([&]() -> Status {
        BERTH_TRY(const auto at, open_directory(place));
        BERTH_TRY(const auto names, list_names(at.get()));
        for (const auto& name : names) {
            if (!name.ends_with(kEnding)) continue;
            const auto text = read_file_at(at.get(), name);
            auto note = text ? parse_process_note(*text) : Result<ProcessNote>(std::unexpected(text.error()));
            if (note)
                out[name.substr(0, name.size() - kEnding.size())] = *std::move(note);
            else
                log::warn("a command's note cannot be read", {{"name", name}, {"why", note.error().line()}});
        }
        return {};
    });
    co_return out;
}

Task<void> ProcessNotes::clear(std::string sandbox)
{
    const std::string above = ground_.berth.data() + "/e2b/processes";
    (void)co_await ground_.pool.call([&]() -> Status {
        BERTH_TRY(const auto at, open_directory(above));
        return sys::remove_tree(at.get(), sandbox);
    });
}

} // namespace berth::e2b
