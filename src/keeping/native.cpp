#include "keeping/native.hpp"

#include <algorithm>

#include "base/ids.hpp"
#include "base/strings.hpp"

namespace berth::keeping {

namespace {

constexpr std::size_t kMostDigits = 19; // below 2^63

} // namespace

std::string native_name(std::string_view sandbox, std::uint64_t generation)
{
    return generation <= 1 ? std::string(sandbox) : fmt::format("{}.{}", sandbox, generation);
}

std::string_view sandbox_of(std::string_view native) noexcept { return native.substr(0, native.find('.')); }

bool is_native(std::string_view name) noexcept
{
    const std::string_view id = sandbox_of(name);
    if (!is_id(id, "sbx_")) return false;
    if (id.size() == name.size()) return true;
    const std::string_view number = name.substr(id.size() + 1);
    const bool digits = std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
    return digits && !number.empty() && number.size() <= kMostDigits && number.front() != '0' &&
           number != "1";
}

Status check_native(std::string_view name)
{
    if (is_native(name)) return {};
    return fail(Code::Invalid, "'{}' is not the name of a sandbox's instance", printable(name, 60));
}

} // namespace berth::keeping
