// The supervisor of deny patterns, which commands hand any path they like: what it takes for denied is what
// the policy takes for denied, nothing comes out from under a pattern with its directory, and a path leads it
// where it leads the kernel. Its sources are taken in as they are; only what it asks of a caller is made up.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "supervisor/resolve.cpp" // NOLINT(bugprone-suspicious-include): the program has no library
#include "supervisor/rules.cpp"   // NOLINT(bugprone-suspicious-include)

#include "base/strings.hpp"
#include "policy/bind.hpp"
#include "policy/target.hpp"

namespace berth::supervisor {

bool Call::valid() const { return true; }
void raise_powers() {}
void lower_powers() {}
bool read_status(pid_t /*thread*/, Status& out)
{
    out.process = ::getpid();
    return true;
}

} // namespace berth::supervisor

namespace {

using namespace berth;

void require(bool holds)
{
    if (!holds) std::abort();
}

/// As the launcher writes them. The program reads them once and keeps them; here they go with the next.
void set_patterns(const std::vector<std::string>& patterns)
{
    static std::vector<char> room;
    for (std::size_t i = 0; i < supervisor::pattern_count; ++i)
        std::free(const_cast<std::string_view*>(supervisor::patterns[i].parts));
    std::free(supervisor::patterns);
    supervisor::patterns = nullptr;
    supervisor::pattern_count = 0;
    std::string texts;
    for (const auto& one : patterns) texts += one + '\0';
    supervisor::Config config;
    config.patterns = static_cast<std::uint32_t>(patterns.size());
    config.bytes = static_cast<std::uint32_t>(texts.size());
    room.assign(sizeof config + texts.size(), 0);
    std::memcpy(room.data(), &config, sizeof config);
    std::memcpy(room.data() + sizeof config, texts.data(), texts.size());
    require(supervisor::read_rules(reinterpret_cast<supervisor::Config*>(room.data())) == !patterns.empty());
}

void rules(std::string_view text)
{
    const auto lines = split(text, '\n');
    if (lines.size() < 3) return;
    std::vector<std::string> patterns;
    for (std::size_t i = 2; i < lines.size() && patterns.size() < 8; ++i) {
        const auto target = policy::parse_target(lines[i]);
        if (!target || !std::holds_alternative<policy::Glob>(*target)) continue;
        const auto& glob = std::get<policy::Glob>(*target).text;
        patterns.push_back(glob.starts_with('/') ? glob : "/" + glob);
    }
    const auto from = policy::normalise(lines[0]);
    const auto to = policy::normalise(lines[1]);
    if (!from || !to || from->size() > 2000 || to->size() > 2000 || patterns.empty()) return;
    set_patterns(patterns);
    const auto covered = [&](const std::string& path) {
        return std::ranges::any_of(patterns, [&](const auto& one) { return policy::glob_covers(one, path); });
    };
    for (const auto& path : {*from, *to}) require(supervisor::denied(path) == covered(path));
    if (!supervisor::keeps_denied(*from, *to)) return;
    std::vector<std::string> below{"x", ".env", "a/b"};
    for (const auto& pattern : patterns)
        for (const auto part : policy::components(pattern)) below.emplace_back(part);
    for (const auto& one : below) require(!covered(*from + "/" + one) || covered(*to + "/" + one));
}

/// A tree with links of every kind, made once.
int tree()
{
    static const int at = [] {
        static char top[] = "/tmp/berth-fuzz-supervisor-XXXXXX";
        require(::mkdtemp(&top[0]) != nullptr);
        std::atexit([] { std::filesystem::remove_all(&top[0]); });
        const int made = ::open(&top[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ::mkdirat(made, "d", 0755);
        ::mkdirat(made, "d/e", 0755);
        ::close(::openat(made, "d/f", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
        ::symlinkat("d", made, "l");
        ::symlinkat("../d/e", made, "d/up");
        ::symlinkat("loop", made, "loop");
        ::symlinkat(&top[0], made, "top");
        ::symlinkat("nowhere", made, "broken");
        ::symlinkat("/proc/self", made, "me");
        ::symlinkat("/proc/self/fd", made, "fds");
        return made;
    }();
    return at;
}

bool in_proc(int fd)
{
    struct stat st{};
    struct stat proc{};
    return ::fstat(fd, &st) != 0 || ::stat("/proc", &proc) != 0 || st.st_dev == proc.st_dev;
}

void paths(std::string_view bytes)
{
    static const bool found = (supervisor::find_proc(), set_patterns({"/**/*.env", "/**/d/f"}), true);
    require(found);
    char path[PATH_MAX];
    const std::size_t n = std::min(bytes.size(), sizeof path - 1);
    std::memcpy(&path[0], bytes.data(), n);
    path[n] = 0;
    seccomp_notif asked{};
    asked.pid = static_cast<std::uint32_t>(::getpid());
    const supervisor::Call call{.listener = -1, .asked = &asked};
    for (const auto last : {supervisor::Last::Follow, supervisor::Last::Keep}) {
        supervisor::Object object;
        if (supervisor::resolve(call, tree(), &path[0], last, object) != 0) continue;
        require(std::memchr(&object.real[0], 0, sizeof object.real) != nullptr);
        (void)object.is_denied();
        if (in_proc(object.fd.get())) continue; // who asks is somebody else there
        const int flags = O_PATH | O_CLOEXEC | (last == supervisor::Last::Keep ? O_NOFOLLOW : 0);
        const supervisor::Fd kernels(::openat(tree(), &path[0], flags));
        struct stat st{};
        require(!kernels || ::fstat(kernels.get(), &st) != 0 || st.st_dev != object.st.st_dev ||
                st.st_ino == object.st.st_ino || in_proc(kernels.get()));
    }
    supervisor::Spot spot;
    if (supervisor::resolve_spot(call, tree(), &path[0], spot) == 0) {
        require(std::memchr(&spot.name[0], 0, sizeof spot.name) != nullptr && spot.name[0] != 0);
        require(spot.real[0] == '/' && std::memchr(&spot.real[0], 0, sizeof spot.real) != nullptr);
    }
    (void)supervisor::spelled_denied(tree(), &path[0]);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string_view bytes(reinterpret_cast<const char*>(data), size);
    if (bytes.empty()) return 0;
    if (bytes.front() % 2 == 0)
        rules(bytes.substr(1));
    else
        paths(bytes.substr(1));
    return 0;
}
