#include "scripted/command.hpp"

#include <array>

#include "base/strings.hpp"

namespace berth::scripted {

namespace {

constexpr std::size_t kMostKept = std::size_t{8} << 20;
constexpr std::size_t kLastWords = 4096;

std::string lower(std::string_view text)
{
    std::string out(text);
    for (auto& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

struct Word {
    std::string_view text; ///< lower case
    Code code;
};

Code code_of_words(std::string_view words, Code otherwise)
{
    static constexpr std::array kWords{
        Word{"permission denied", Code::Denied},
        Word{"operation not permitted", Code::Denied},
        Word{"read-only file system", Code::Denied},
        Word{"no such file or directory", Code::NotFound},
        Word{"directory nonexistent", Code::NotFound}, // a shell's word for it
        Word{"not a directory", Code::Invalid},
        Word{"is a directory", Code::Invalid},
        Word{"not a regular file", Code::Invalid},
        Word{"file name too long", Code::Invalid},
        Word{"too many levels of symbolic links", Code::Invalid},
        Word{"too large", Code::Invalid},
        Word{"file exists", Code::Conflict},
        Word{"directory not empty", Code::Conflict},
        Word{"device or resource busy", Code::Conflict},
        Word{"invalid cross-device link", Code::Unsupported},
        Word{"no space left on device", Code::Exhausted},
        Word{"disk quota exceeded", Code::Exhausted},
    };
    const auto text = lower(words);
    for (const auto& word : kWords)
        if (text.find(word.text) != std::string::npos) return word.code;
    return otherwise;
}

} // namespace

std::string_view prologue() { return "d() { v=$(printf '%b.' \"$1\"); v=${v%.}; }\n"; }

std::string escape(std::string_view bytes)
{
    std::string out;
    for (const char c : bytes) {
        if (c > ' ' && c < 0x7f && c != '\\' && c != '%')
            out += c;
        else
            out += fmt::format("\\0{:03o}", static_cast<unsigned char>(c));
    }
    return out;
}

std::vector<std::string> shell_words(const Command& command)
{
    std::vector<std::string> out{"/bin/sh", "-c", std::string(prologue()) + command.script, "berth"};
    for (const auto& one : command.arguments) out.push_back(escape(one));
    return out;
}

Error error_of_words(std::string_view words, std::string_view what, Code otherwise)
{
    std::string_view last = words;
    while (last.ends_with('\n')) last.remove_suffix(1);
    if (const auto at = last.rfind('\n'); at != std::string_view::npos) last = last.substr(at + 1);
    Error out;
    out.code = code_of_words(words, otherwise);
    out.message = fmt::format("{}: {}", what, last.empty() ? "failed" : printable(last, 300));
    return out;
}

Status CommandOutput::out(std::string_view bytes)
{
    if (command_.out) return command_.out(bytes);
    if (end_.out.size() + bytes.size() > kMostKept)
        return fail(Code::Exhausted, "a command of ours prints without end");
    end_.out += bytes;
    return {};
}

void CommandOutput::err(std::string_view bytes)
{
    end_.err += bytes;
    if (end_.err.size() > 2 * kLastWords) end_.err.erase(0, end_.err.size() - kLastWords);
}

CommandEnd CommandOutput::end(ExitStatus status) &&
{
    end_.status = status;
    return std::move(end_);
}

} // namespace berth::scripted
