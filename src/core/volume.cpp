#include "core/volume.hpp"

#include <cstdint>
#include <set>

#include "base/strings.hpp"
#include "policy/bind.hpp"

namespace berth {

namespace {

constexpr std::uint64_t kOffsetBasis = 0xcbf29ce484222325;
constexpr std::uint64_t kPrime = 0x100000001b3;
constexpr std::size_t kLongestName = 255;

Status check_name(const std::string& name)
{
    if (name.find_first_not_of(" \t\r\n\v\f") == std::string::npos)
        return fail(Code::Invalid, "a volume has no name");
    if (name.find_first_of(std::string_view("/\0", 2)) != std::string::npos || name.size() > kLongestName)
        return fail(Code::Invalid, "bad volume name '{}': no '/', no NUL, {} bytes at most",
                    printable(name, 60), kLongestName);
    return {};
}

} // namespace

Result<Volume> parse_volume(std::string_view text)
{
    Volume volume;
    std::string_view rest = text;
    if (rest.ends_with(":ro")) volume.writable = false;
    if (rest.ends_with(":ro") || rest.ends_with(":rw")) rest.remove_suffix(3);
    const auto colon = rest.find(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == rest.size())
        return fail(Code::Invalid, "bad volume '{}': write it like cache:/var/cache:rw",
                    printable(text, 120));
    const std::string_view target = rest.substr(colon + 1);
    if (const auto mode = target.rfind(':'); target.front() == '/' && mode != std::string_view::npos)
        return fail(Code::Invalid, "bad volume '{}': '{}' is neither ro nor rw", printable(text, 120),
                    printable(target.substr(mode + 1), 40));
    if (target.front() != '/')
        return fail(Code::Invalid, "bad volume '{}': the target must be an absolute path",
                    printable(text, 120));
    volume.name = rest.substr(0, colon);
    BERTH_CHECK(check_name(volume.name));
    BERTH_TRY(volume.target, policy::normalise(target));
    return volume;
}

Status validate_volume_names(const std::vector<Volume>& volumes)
{
    std::set<std::string> names;
    for (const auto& volume : volumes) {
        BERTH_CHECK(check_name(volume.name));
        if (!names.insert(volume.name).second)
            return fail(Code::Invalid, "two volumes are named '{}'", printable(volume.name, 60));
    }
    return {};
}

std::string volume_directory_name(const std::string& key, const std::string& name)
{
    std::uint64_t hash = kOffsetBasis;
    for (const char c : fmt::format("{}\n{}", key, name))
        hash = (hash ^ static_cast<std::uint8_t>(c)) * kPrime;
    return fmt::format("{:016x}", hash);
}

} // namespace berth
