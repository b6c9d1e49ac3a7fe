#include "protocol/codex/process.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "protocol/codex/path_uri.hpp"

namespace berth::codex {

namespace {

constexpr std::size_t kMaxId = 1024;
constexpr std::size_t kMaxWords = 65'536;
constexpr std::size_t kOwnNames = std::size_t{16} << 10; ///< what names of an environment come to, about
constexpr std::size_t kMostMatching = std::size_t{1} << 26;

constexpr std::array<std::string_view, 11> kCore{"PATH", "SHELL",  "TMPDIR",   "TEMP",    "TMP", "HOME",
                                                 "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "USER"};
constexpr std::array<std::string_view, 3> kSecrets{"*KEY*", "*SECRET*", "*TOKEN*"};
/// What starts an executor and is nobody else's business.
constexpr std::array<std::string_view, 6> kLaunchSecrets{
    "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", "NODE_REPL_AUTH_TOKEN",
    "OPENAI_FEDERATION_RULE_ID",          "OPENAI_IDENTITY_TOKEN_FILE",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",   "CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE"};

Result<std::string> string_at(const json::Reader& reader, std::string_view name)
{
    BERTH_TRY(const auto member, reader.at(name));
    return member.string();
}

Result<bool> flag(const json::Reader& reader, std::string_view name, bool otherwise)
{
    BERTH_TRY(const auto member, reader.find(name));
    return member ? member->boolean() : Result<bool>(otherwise);
}

Result<std::map<std::string, std::string>> read_pairs(const json::Reader& reader)
{
    std::map<std::string, std::string> out;
    BERTH_TRY(const auto members, reader.members());
    if (members.size() > kMaxWords)
        return reader.refuse("{} variables; at most {}", members.size(), kMaxWords);
    for (const auto& [name, value] : members) {
        BERTH_TRY(auto text, value.string());
        const bool named =
            !name.empty() && name.find('=') == std::string::npos && name.find('\0') == std::string::npos;
        if (!named || text.find('\0') != std::string::npos)
            return value.refuse("no environment can carry it");
        out.emplace(name, std::move(text));
    }
    return out;
}

Result<EnvPolicy> read_env_policy(const json::Reader& reader)
{
    EnvPolicy out;
    BERTH_TRY(const auto inherit, reader.at("inherit"));
    BERTH_TRY(const auto word, inherit.string());
    if (word == "all")
        out.inherit = EnvPolicy::Inherit::All;
    else if (word == "core")
        out.inherit = EnvPolicy::Inherit::Core;
    else if (word == "none")
        out.inherit = EnvPolicy::Inherit::None;
    else
        return inherit.refuse("unknown variant '{}'", printable(word, 60));
    BERTH_TRY(const auto excludes, reader.at("ignoreDefaultExcludes"));
    BERTH_TRY(out.ignore_default_excludes, excludes.boolean());
    BERTH_TRY(const auto exclude, reader.at("exclude"));
    BERTH_TRY(out.exclude, exclude.strings());
    BERTH_TRY(const auto set, reader.at("set"));
    BERTH_TRY(out.set, read_pairs(set));
    BERTH_TRY(const auto only, reader.at("includeOnly"));
    BERTH_TRY(out.include_only, only.strings());
    // Each pattern is held against each name: what that comes to is bounded before it is done.
    std::size_t names = kOwnNames;
    std::size_t patterns = 0;
    for (const auto& [name, value] : out.set) names += name.size();
    for (const auto* const list : {&out.exclude, &out.include_only})
        for (const auto& pattern : *list) patterns += pattern.size() + 1;
    if (patterns > kMostMatching / names) return reader.refuse("too many patterns for so many variables");
    return out;
}

Result<std::string> id_at(const json::Reader& reader, std::string_view name)
{
    BERTH_TRY(const auto member, reader.at(name));
    BERTH_TRY(auto id, member.string());
    if (id.empty() || id.size() > kMaxId) return member.refuse("an id has 1 to {} bytes", kMaxId);
    return id;
}

Result<std::uint64_t> number(const json::Reader& reader)
{
    if (const auto* large = reader.value().if_uint64()) return *large;
    BERTH_TRY(const auto value, reader.integer(0, INT64_MAX));
    return static_cast<std::uint64_t>(value);
}

bool any_matches(const auto& patterns, std::string_view name)
{
    return std::ranges::any_of(patterns,
                               [&](std::string_view pattern) { return wildcard_match(pattern, name); });
}

} // namespace

Result<StartParams> read_start(const json::Value& params)
{
    const json::Reader reader(params);
    StartParams out;
    BERTH_TRY(out.process_id, id_at(reader, "processId"));
    BERTH_TRY(const auto argv, reader.at("argv"));
    BERTH_TRY(out.argv, argv.strings());
    if (out.argv.empty() || out.argv.front().empty()) return argv.refuse("the command is empty");
    if (out.argv.size() > kMaxWords) return argv.refuse("{} words; at most {}", out.argv.size(), kMaxWords);
    for (const auto& word : out.argv)
        if (word.find('\0') != std::string::npos) return argv.refuse("a word contains NUL");
    BERTH_TRY(const auto cwd, reader.at("cwd"));
    BERTH_TRY(const auto uri, cwd.string());
    BERTH_TRY(out.cwd, read_path(uri));
    BERTH_TRY(const auto env, reader.at("env"));
    BERTH_TRY(out.env, read_pairs(env));
    BERTH_TRY(const auto tty, reader.at("tty"));
    BERTH_TRY(out.tty, tty.boolean());
    BERTH_TRY(const auto policy, reader.find("envPolicy"));
    if (policy) {
        BERTH_TRY(out.env_policy, read_env_policy(*policy));
    }
    BERTH_TRY(out.pipe_stdin, flag(reader, "pipeStdin", false));
    BERTH_TRY(const auto arg0, reader.find("arg0"));
    if (arg0) {
        BERTH_TRY(out.arg0, arg0->string());
        if (out.arg0->find('\0') != std::string::npos) return arg0->refuse("it contains NUL");
    }
    BERTH_TRY(const auto sandbox, reader.find("sandbox"));
    if (sandbox) {
        BERTH_TRY(out.sandbox, read_intent(*sandbox));
    }
    BERTH_TRY(out.enforce_managed_network, flag(reader, "enforceManagedNetwork", false));
    BERTH_TRY(const auto proxy, reader.find("networkProxy"));
    out.network_proxy = proxy.has_value();
    BERTH_TRY(const auto metadata, reader.find("metadata"));
    if (metadata) {
        BERTH_TRY(const auto thread, metadata->find("threadId"));
        BERTH_TRY(const auto call, metadata->find("toolCallId"));
        if (thread && thread->value().is_string()) out.thread_id = *thread->string();
        if (call && call->value().is_string()) out.call_id = *call->string();
    }
    return out;
}

Result<ReadParams> read_read(const json::Value& params)
{
    const json::Reader reader(params);
    ReadParams out;
    BERTH_TRY(out.process_id, id_at(reader, "processId"));
    BERTH_TRY(const auto after, reader.find("afterSeq"));
    if (after) {
        BERTH_TRY(out.after, number(*after));
    }
    BERTH_TRY(const auto most, reader.find("maxBytes"));
    if (most) {
        BERTH_TRY(out.max_bytes, number(*most));
    }
    BERTH_TRY(const auto wait, reader.find("waitMs"));
    if (wait) {
        BERTH_TRY(out.wait_ms, number(*wait));
    }
    return out;
}

Result<WriteParams> read_write(const json::Value& params)
{
    const json::Reader reader(params);
    WriteParams out;
    BERTH_TRY(out.process_id, id_at(reader, "processId"));
    BERTH_TRY(const auto chunk, reader.at("chunk"));
    BERTH_TRY(const auto text, chunk.string());
    auto bytes = base64_decode(text);
    if (!bytes || text.size() % 4 != 0) return chunk.refuse("not base64");
    out.bytes = *std::move(bytes);
    BERTH_TRY(out.write_id, id_at(reader, "writeId"));
    return out;
}

Result<std::string> read_signal(const json::Value& params)
{
    const json::Reader reader(params);
    BERTH_TRY(auto id, id_at(reader, "processId"));
    BERTH_TRY(const auto word, string_at(reader, "signal"));
    if (word != "interrupt") return reader.refuse("unknown signal '{}'", printable(word, 60));
    return id;
}

Result<std::string> read_process(const json::Value& params)
{
    return id_at(json::Reader(params), "processId");
}

std::string_view to_string(Stream stream) noexcept
{
    switch (stream) {
    case Stream::Stdout: return "stdout";
    case Stream::Stderr: return "stderr";
    case Stream::Pty: return "pty";
    }
    return "stdout";
}

bool wildcard_match(std::string_view pattern, std::string_view name)
{
    const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
    std::size_t p = 0;
    std::size_t n = 0;
    std::size_t star = std::string_view::npos;
    std::size_t resume = 0;
    while (n < name.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            resume = n;
        } else if (p < pattern.size() && (pattern[p] == '?' || lower(pattern[p]) == lower(name[n]))) {
            ++p;
            ++n;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            n = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.size() && pattern[p] == '*') ++p;
    return p == pattern.size();
}

std::map<std::string, std::string> make_environment(const std::map<std::string, std::string>& own,
                                                    const StartParams& start)
{
    std::map<std::string, std::string> out;
    if (start.env_policy) {
        const auto& policy = *start.env_policy;
        if (policy.inherit == EnvPolicy::Inherit::All) out = own;
        if (policy.inherit == EnvPolicy::Inherit::Core)
            std::ranges::copy_if(own, std::inserter(out, out.end()), [](const auto& variable) {
                return std::ranges::find(kCore, variable.first) != kCore.end();
            });
        std::erase_if(out, [&](const auto& variable) {
            return (!policy.ignore_default_excludes && any_matches(kSecrets, variable.first)) ||
                   any_matches(policy.exclude, variable.first);
        });
        for (const auto& [name, value] : policy.set) out[name] = value;
        if (!policy.include_only.empty())
            std::erase_if(
                out, [&](const auto& variable) { return !any_matches(policy.include_only, variable.first); });
    }
    for (const auto& [name, value] : start.env) out[name] = value;
    for (const auto name : kLaunchSecrets) out.erase(std::string(name));
    return out;
}

} // namespace berth::codex
