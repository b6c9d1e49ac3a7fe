#include "keeping/remote_state.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/json.hpp"
#include "base/json_reader.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "keeping/lock.hpp"
#include "sys/remove_tree.hpp"

namespace berth::keeping {

namespace {

constexpr const char* kStart = "start.json";
constexpr const char* kWriter = "writer";
constexpr const char* kMaking = ".making";
constexpr std::chrono::milliseconds kMakingPatience{30'000};

Result<UniqueFd> open_directory_at(int dir, const std::string& name)
{
    UniqueFd fd(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

Result<UniqueFd> make_directory_at(int dir, const std::string& name)
{
    if (::mkdirat(dir, name.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("making {}", name);
    return open_directory_at(dir, name);
}

Status check_exec(const std::string& exec)
{
    if (is_id(exec, "exec_")) return {};
    return fail(Code::Invalid, "'{}' is not the id of an exec", printable(exec, 60));
}

} // namespace

Result<UniqueFd> RemoteState::directory() const
{
    BERTH_CHECK(make_dirs(path_, 0700));
    UniqueFd top(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!top) return fail_errno("opening {}", path_);
    return top;
}

bool RemoteState::used() const { return ::access(fmt::format("{}/{}", path_, kMaking).c_str(), F_OK) == 0; }

Result<UniqueFd> RemoteState::instance(const std::string& id) const
{
    BERTH_CHECK(check_(id));
    return open_directory_at(AT_FDCWD, path_ + "/" + id);
}

Result<UniqueFd> RemoteState::make_instance(const std::string& id) const
{
    BERTH_CHECK(check_(id));
    BERTH_TRY(const auto top, directory());
    BERTH_TRY(auto made, make_directory_at(top.get(), id));
    BERTH_TRY([[maybe_unused]] const auto execs, make_directory_at(made.get(), "exec"));
    return made;
}

Status RemoteState::remove_instance(const std::string& id) const
{
    BERTH_CHECK(check_(id));
    BERTH_TRY(const auto top, directory());
    auto gone = sys::remove_tree(top.get(), id);
    if (!gone && gone.error().code == Code::NotFound) return {};
    return gone;
}

Result<UniqueFd> RemoteState::lock_making(const std::string& name) const
{
    // A few files that stay: one that is removed while somebody waits for it would be two.
    BERTH_TRY(const auto top, directory());
    BERTH_TRY(const auto making, make_directory_at(top.get(), kMaking));
    const std::string slot = sha256_hex(name).substr(0, 2);
    UniqueFd file(::openat(making.get(), slot.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("opening the lock of {}", name);
    if (!lock_within(file.get(), Use::Alone, kMakingPatience))
        return fail(Code::Unavailable, "{} is being made by somebody else", name);
    return file;
}

Result<UniqueFd> make_exec(int instance, const std::string& exec, const ExecStart& start)
{
    BERTH_CHECK(check_exec(exec));
    BERTH_TRY(const auto all, open_directory_at(instance, "exec"));
    if (::mkdirat(all.get(), exec.c_str(), 0700) != 0) {
        if (errno == EEXIST) return fail(Code::Conflict, "{} was started before", exec);
        return fail_errno("making a directory for {}", exec);
    }
    BERTH_TRY(auto directory, open_directory_at(all.get(), exec));
    json::Object document;
    document["user"] = start.user;
    document["input"] = start.input;
    BERTH_CHECK(replace_file_at(directory.get(), kStart, json::dump(document)));
    return directory;
}

Result<UniqueFd> open_exec(int instance, const std::string& exec)
{
    BERTH_CHECK(check_exec(exec));
    BERTH_TRY(const auto all, open_directory_at(instance, "exec"));
    return open_directory_at(all.get(), exec);
}

Status remove_exec(int instance, const std::string& exec)
{
    BERTH_CHECK(check_exec(exec));
    BERTH_TRY(const auto all, open_directory_at(instance, "exec"));
    return sys::remove_tree(all.get(), exec);
}

Result<ExecStart> read_start(int exec_directory)
{
    BERTH_TRY(const auto text, read_file_at(exec_directory, kStart));
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader at(document);
    ExecStart out;
    BERTH_TRY(const auto user, at.at("user"));
    BERTH_TRY(out.user, user.string());
    BERTH_TRY(const auto input, at.at("input"));
    BERTH_TRY(out.input, input.boolean());
    return out;
}

Result<UniqueFd> claim_log(int exec_directory)
{
    UniqueFd file(::openat(exec_directory, kWriter, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("opening the lock of an exec log");
    if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
    if (errno == EWOULDBLOCK) return UniqueFd{};
    return fail_errno("locking an exec log");
}

} // namespace berth::keeping
