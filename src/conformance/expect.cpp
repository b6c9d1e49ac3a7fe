#include "conformance/expect.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::conformance {

namespace {

constexpr std::size_t kShown = 160;

} // namespace

Status same(std::string_view what, std::string_view got, std::string_view want)
{
    if (got == want) return {};
    const auto differ = std::ranges::mismatch(got, want);
    const auto at = static_cast<std::size_t>(differ.in1 - got.begin());
    const std::size_t from = at < kShown / 2 ? 0 : at - kShown / 2;
    return fail(Code::Internal, "{}: {} bytes, not {}; they differ at {}: '{}', not '{}'", what, got.size(),
                want.size(), at, printable(got.substr(std::min(from, got.size()), kShown), 4 * kShown),
                printable(want.substr(std::min(from, want.size()), kShown), 4 * kShown));
}

Status contains(std::string_view what, std::string_view text, std::string_view part)
{
    if (text.find(part) != std::string_view::npos) return {};
    return fail(Code::Internal, "{} lacks '{}': '{}'", what, printable(part), printable(text, 400));
}

Status lacks(std::string_view what, std::string_view text, std::string_view part)
{
    if (text.find(part) == std::string_view::npos) return {};
    return fail(Code::Internal, "{} has '{}': '{}'", what, printable(part), printable(text, 400));
}

Status refused_with(std::string_view what, const Error* error, Code want)
{
    if (error == nullptr)
        return fail(Code::Internal, "{} was not refused; {} was expected", what, to_string(want));
    if (error->code == want) return {};
    return fail(Code::Internal, "{} was refused as {}, not as {}: {}", what, to_string(error->code),
                to_string(want), error->line());
}

} // namespace berth::conformance
