#include "cli/copy_path.hpp"

#include "base/strings.hpp"

namespace berth::cli {

namespace {

std::string without_slashes(std::string path)
{
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

std::string last_of(const std::string& path)
{
    const std::string clean = without_slashes(path);
    return clean.substr(clean.rfind('/') + 1); // npos + 1 is 0
}

} // namespace

bool CopyPath::contents() const
{
    const std::string last = last_of(path);
    return last.empty() || last == "." || last == "..";
}

std::string CopyPath::name() const { return last_of(path); }

Result<CopyPath> parse_copy_path(const std::string& text)
{
    // Root would put a file in the place of the device's link.
    if (text == "-" || text == "/dev/stdin" || text == "/dev/stdout")
        return CopyPath{.kind = CopyPath::Kind::Stream, .ref = {}, .path = {}};
    const auto colon = text.find(':');
    const bool host = colon == std::string::npos || text.starts_with('/') || text.starts_with("./") ||
                      text.starts_with("../");
    if (text.empty()) return fail(Code::Invalid, "an empty path names nothing");
    if (host) return CopyPath{.kind = CopyPath::Kind::Host, .ref = {}, .path = text};
    if (colon == 0 || colon + 1 == text.size())
        return fail(Code::Invalid, "bad place '{}': write it like SANDBOX:/path, or ./{} for a file here",
                    printable(text, 80), printable(text, 80));
    return CopyPath{
        .kind = CopyPath::Kind::Sandbox, .ref = text.substr(0, colon), .path = text.substr(colon + 1)};
}

std::string join(const std::string& directory, const std::string& name)
{
    return directory.ends_with('/') ? directory + name : directory + "/" + name;
}

Result<CopyTarget> file_target(const std::string& to, bool there, const std::string& name)
{
    if (there) return CopyTarget{.directory = to, .name = name};
    if (to.ends_with('/')) return fail(Code::NotFound, "no directory {}", printable(to));
    const auto slash = to.rfind('/');
    const std::string above = slash == std::string::npos ? "." : slash == 0 ? "/" : to.substr(0, slash);
    return CopyTarget{.directory = above, .name = to.substr(slash + 1)};
}

CopyTarget tree_target(const std::string& to, bool there, const CopyPath& from)
{
    if (!there) return {.directory = without_slashes(to), .name = {}, .make = true};
    if (from.contents()) return {.directory = to};
    return {.directory = join(to, from.name()), .name = {}, .make = true};
}

} // namespace berth::cli
