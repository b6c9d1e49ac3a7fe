#pragma once

#include <string>
#include <vector>

#include <boost/json/string.hpp>

#include "base/json.hpp"
#include "cli/program.hpp"

/// What --json printed.
namespace berth::test {

/// The test fails when it is not one document.
[[nodiscard]] json::Value parsed(const std::string& text);
[[nodiscard]] std::vector<json::Value> json_lines(const std::string& text);
/// `berth ARGS… --json`, which must end with `code`.
[[nodiscard]] json::Value document(Words args, int code = 0);
/// The code of the error a program told as a document.
[[nodiscard]] std::string error_code(const Ended& ended);

} // namespace berth::test
