#pragma once

#include <climits>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace berth::codex {

/// Where paths lead, each looked for once: the rules of an intent name the same few again and again.
class RealPaths {
public:
    /// Nothing: it is not there.
    const std::optional<std::string>& of(const std::string& path)
    {
        const auto [at, fresh] = known_.try_emplace(path);
        char buffer[PATH_MAX];
        if (fresh && ::realpath(path.c_str(), &buffer[0]) != nullptr) at->second = &buffer[0];
        return at->second;
    }

    /// Of the nearest that is there, and the rest of the path as it is.
    std::string nearest(const std::string& path)
    {
        std::string rest;
        for (std::string there = path;;) {
            if (const auto& real = of(there)) return (*real == "/" && !rest.empty() ? "" : *real) + rest;
            const auto slash = there.rfind('/');
            if (slash == std::string::npos) return path;
            rest = there.substr(slash) + rest;
            there.resize(slash);
            if (there.empty()) return rest;
        }
    }

private:
    std::map<std::string, std::optional<std::string>> known_;
};

} // namespace berth::codex
