#include "place.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "sandbox.hpp"
#include "support/places.hpp"

namespace security {

namespace {

namespace fs = std::filesystem;

constexpr uid_t kOrdinary = 12345;
constexpr const char* kPrograms[][2] = {
    {BERTH_PROGRAM, "berth"}, {BERTH_HOOKS_PROGRAM, "berth-hooks"}, {BERTH_SECURITY_PROBE, "probe"}};

Options current;

std::string become_user()
{
    if (::geteuid() != 0) return {};
    if (::setgroups(0, nullptr) != 0 || ::setresgid(kOrdinary, kOrdinary, kOrdinary) != 0 ||
        ::setresuid(kOrdinary, kOrdinary, kOrdinary) != 0)
        return fmt::format("becoming user {}: {}", kOrdinary, std::strerror(errno));
    return {};
}

/// Somebody else's directory of that name is a trap: /tmp is everybody's.
std::string check_ours(const std::string& place)
{
    struct stat st{};
    if (::lstat(place.c_str(), &st) != 0) return fmt::format("{}: {}", place, std::strerror(errno));
    const bool ours = st.st_uid == ::geteuid() || (::geteuid() == 0 && st.st_uid == kOrdinary);
    if (!S_ISDIR(st.st_mode) || !ours || (st.st_mode & 022) != 0)
        return place + " is not a directory of ours: remove it";
    return {};
}

} // namespace

std::string prepare(Options& options)
{
    if (options.place.empty()) {
        std::string name = "/tmp/berth-security-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) return fmt::format("{}: {}", name, std::strerror(errno));
        options.place = name;
    } else if (::mkdir(options.place.c_str(), 0755) != 0) {
        if (auto bad = check_ours(options.place); !bad.empty()) return bad;
        remove(options);
        if (::mkdir(options.place.c_str(), 0755) != 0)
            return fmt::format("{}: {}", options.place, std::strerror(errno));
    }
    ::chmod(options.place.c_str(), 0755); // NOLINT(bugprone-unused-return-value): looked at by the copies
    for (const auto& [from, to] : kPrograms) {
        std::error_code error;
        fs::copy_file(from, options.place + "/" + to, error);
        if (error) return fmt::format("copying {}: {}", from, error.message());
        fs::permissions(options.place + "/" + to, fs::perms(0755), error);
    }
    if (!options.as_root && ::geteuid() == 0 && ::chown(options.place.c_str(), kOrdinary, kOrdinary) != 0)
        return fmt::format("{}: {}", options.place, std::strerror(errno));
    if (auto bad = enter(options); !bad.empty()) return bad;
    const Outcome first = run({}, {"true"});
    return first.code == 0 ? std::string{} : "berth run -- true failed: " + first.err;
}

std::string enter(const Options& options)
{
    if (auto bad = check_ours(options.place); !bad.empty()) return bad;
    if (!options.as_root)
        if (auto bad = become_user(); !bad.empty()) return bad;
    ::umask(022);
    current = options;
    return {};
}

void remove(const Options& options)
{
    std::error_code error;
    fs::remove_all(options.place, error);
}

bool as_root() { return current.as_root; }
const std::string& place() { return current.place; }
std::string state_directory() { return current.place + "/state"; }

std::string program()
{
    const char* named = std::getenv("BERTH_UNDER_TEST"); // NOLINT(concurrency-mt-unsafe): one thread
    return named == nullptr ? current.place + "/berth" : current.place + "/" + named;
}

std::string hooks_program() { return current.place + "/berth-hooks"; }

TempTree::TempTree() : path_(current.place + "/t-XXXXXX")
{
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
    ::chmod(path_.c_str(), 0755); // NOLINT(bugprone-unused-return-value): our own, just made
    if (as_root() && ::chown(path_.c_str(), kOrdinary, kOrdinary) != 0) std::abort();
}

TempTree::~TempTree()
{
    std::error_code error;
    fs::remove_all(path_, error);
}

void TempTree::directory(const std::string& name) const
{
    for (std::size_t slash = 0; slash != std::string::npos;) {
        slash = name.find('/', slash + 1);
        const std::string part = at(name.substr(0, slash));
        if (::mkdir(part.c_str(), 0755) == 0 && as_root() && ::chown(part.c_str(), kOrdinary, kOrdinary) != 0)
            std::abort();
    }
}

void TempTree::file(const std::string& name, const std::string& text) const
{
    if (const auto slash = name.rfind('/'); slash != std::string::npos) directory(name.substr(0, slash));
    std::ofstream(at(name)) << text;
    if (as_root() && ::chown(at(name).c_str(), kOrdinary, kOrdinary) != 0) std::abort();
}

std::string TempTree::read(const std::string& name) const
{
    std::ifstream in(at(name));
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

bool TempTree::exists(const std::string& name) const
{
    struct stat st{};
    return ::lstat(at(name).c_str(), &st) == 0;
}

} // namespace security
