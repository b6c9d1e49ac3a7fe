#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

/// Expectations as values: each is passed on with BERTH_CHECK, and the first that does not hold ends a check.
namespace berth::conformance {

/// A sentence about what was found instead.
template <class... Args>
[[nodiscard]] Status expect(bool holds, fmt::format_string<Args...> otherwise, Args&&... args)
{
    if (holds) return {};
    return fail(Code::Internal, otherwise, std::forward<Args>(args)...);
}

/// Bytes against bytes; the first difference is shown where they are long.
[[nodiscard]] Status same(std::string_view what, std::string_view got, std::string_view want);

template <class T>
    requires std::is_integral_v<T> || std::is_enum_v<T>
[[nodiscard]] Status same(std::string_view what, T got, T want)
{
    if (got == want) return {};
    return fail(Code::Internal, "{} is {}, not {}", what, static_cast<long long>(got),
                static_cast<long long>(want));
}

[[nodiscard]] Status contains(std::string_view what, std::string_view text, std::string_view part);
[[nodiscard]] Status lacks(std::string_view what, std::string_view text, std::string_view part);

[[nodiscard]] Status refused_with(std::string_view what, const Error* error, Code want);

/// A refusal, with the code a caller can branch on.
template <class T> [[nodiscard]] Status refused(std::string_view what, const Result<T>& result, Code want)
{
    return refused_with(what, result ? nullptr : &result.error(), want);
}

/// A refusal of whatever kind, where the interface leaves the code open.
template <class T> [[nodiscard]] Status refused(std::string_view what, const Result<T>& result)
{
    return expect(!result.has_value(), "{} was not refused", what);
}

/// The error of a result, with the step it belongs to.
template <class T> [[nodiscard]] Result<T> step(std::string_view what, Result<T> result)
{
    if (result) return result;
    return std::unexpected(std::move(result).error().while_doing(std::string(what)));
}

} // namespace berth::conformance
