#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace berth::json {

/// Reads a JSON value strictly, remembering where it is, so that an error says
/// "/limits/memory: expected a string, found a number".
///
/// Borrows the value: the document must outlive the reader.
class Reader {
public:
    explicit Reader(const Value& value) : value_(&value) {}

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] const Value& value() const noexcept { return *value_; }

    [[nodiscard]] Result<std::string> string() const;
    [[nodiscard]] Result<bool> boolean() const;
    [[nodiscard]] Result<std::int64_t> integer(std::int64_t low, std::int64_t high) const;
    [[nodiscard]] Result<double> number() const;
    [[nodiscard]] Result<std::vector<Reader>> array() const;
    [[nodiscard]] Result<std::vector<std::string>> strings() const;
    /// Name and value of each member, in document order.
    [[nodiscard]] Result<std::vector<std::pair<std::string, Reader>>> members() const;

    /// The member `name` of this object; absent or null is an empty optional.
    [[nodiscard]] Result<std::optional<Reader>> find(std::string_view name) const;
    /// The member `name`, which must be there.
    [[nodiscard]] Result<Reader> at(std::string_view name) const;
    /// Refuses every member that is not one of `known`, suggesting the nearest.
    [[nodiscard]] Status only(const std::vector<std::string>& known) const;

    /// An Invalid error that begins with this reader's path.
    template <class... Args>
    [[nodiscard]] std::unexpected<Error> refuse(fmt::format_string<Args...> format, Args&&... args) const
    {
        return fail_text(Code::Invalid, fmt::format("{}: {}", path_.empty() ? "/" : path_,
                                                    fmt::format(format, std::forward<Args>(args)...)));
    }

private:
    Reader(const Value& value, std::string path) : value_(&value), path_(std::move(path)) {}
    [[nodiscard]] std::unexpected<Error> expected(std::string_view what) const;

    const Value* value_;
    std::string path_;
};

} // namespace berth::json
