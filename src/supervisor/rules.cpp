// The patterns, and what they say of a path. The launcher has checked them; paths are hostile.
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "policy/glob_match.hpp"
#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

namespace {

namespace glob = policy::glob;

constexpr std::size_t kMaxParts = PATH_MAX;

struct Pattern {
    const std::string_view* parts = nullptr;
    std::size_t count = 0;
};

Config* shared = nullptr;
Pattern* patterns = nullptr;
std::size_t pattern_count = 0;
const char** programs = nullptr; // ended by a null

/// The component that begins at or after `at`, which moves behind it; empty at the end.
std::string_view next_name(std::string_view path, std::size_t& at)
{
    while (at < path.size() && path[at] == '/') ++at;
    const std::size_t begin = at;
    while (at < path.size() && path[at] != '/') ++at;
    return {path.data() + begin, at - begin};
}

/// A pattern on its way along a path.
class Walk {
public:
    explicit Walk(const Pattern& pattern) : pattern_(pattern)
    {
        memset(now_, 0, pattern.count + 1);
        now_[0] = 1;
        glob::settle(pattern.parts, pattern.count, now_);
    }
    /// True when a directory above the end, or the end, matches.
    bool along(std::string_view path)
    {
        std::size_t at = 0;
        for (auto name = next_name(path, at); !name.empty(); name = next_name(path, at)) {
            glob::advance(pattern_.parts, pattern_.count, name, now_, next_);
            memcpy(now_, next_, pattern_.count + 1);
            if (now_[pattern_.count] != 0) return true;
        }
        return false;
    }
    /// Whether whatever is denied after `other` is denied after this.
    [[nodiscard]] bool covers(const Walk& other) const
    {
        for (std::size_t i = 0; i <= pattern_.count; ++i)
            if (other.now_[i] != 0 && now_[i] == 0) return false;
        return true;
    }

private:
    const Pattern& pattern_;
    char now_[kMaxParts + 1];
    char next_[kMaxParts + 1];
};

} // namespace

bool read_rules(Config* given)
{
    if (given->magic != kMagic || given->bytes > kMaxBytes) return false;
    shared = given;
    pattern_count = given->patterns;
    patterns = static_cast<Pattern*>(calloc(pattern_count + 1, sizeof(Pattern)));
    const char* text = reinterpret_cast<const char*>(given + 1);
    const char* const end = text + given->bytes;
    for (std::size_t i = 0; i < pattern_count; ++i) {
        const std::size_t size = strnlen(text, static_cast<std::size_t>(end - text));
        if (text + size == end || size == 0 || size >= kMaxParts || patterns == nullptr) return false;
        const std::string_view all(text, size);
        auto* const parts = static_cast<std::string_view*>(calloc(size, sizeof(std::string_view)));
        if (parts == nullptr) return false;
        std::size_t at = 0;
        for (auto name = next_name(all, at); !name.empty(); name = next_name(all, at))
            parts[patterns[i].count++] = name;
        if (patterns[i].count == 0) return false;
        patterns[i].parts = parts;
        text += size + 1;
    }
    programs = static_cast<const char**>(calloc(given->programs + std::size_t{1}, sizeof(char*)));
    if (programs == nullptr) return false;
    for (std::size_t i = 0; i < given->programs; ++i) {
        const std::size_t size = strnlen(text, static_cast<std::size_t>(end - text));
        if (text + size == end || text[0] != '/') return false;
        programs[i] = text;
        text += size + 1;
    }
    return pattern_count > 0;
}

Config& config() { return *shared; }

const char* program(std::size_t i) { return programs[i]; }

bool denied(std::string_view path)
{
    for (std::size_t i = 0; i < pattern_count; ++i)
        if (Walk(patterns[i]).along(path)) return true;
    return false;
}

bool keeps_denied(std::string_view from, std::string_view to)
{
    for (std::size_t i = 0; i < pattern_count; ++i) {
        Walk before(patterns[i]);
        Walk after(patterns[i]);
        if (before.along(from)) return false;
        if (!after.along(to) && !after.covers(before)) return false;
    }
    return true;
}

long refuse()
{
    __atomic_fetch_add(&shared->refused, 1, __ATOMIC_RELAXED);
    return -EACCES;
}

} // namespace berth::supervisor
