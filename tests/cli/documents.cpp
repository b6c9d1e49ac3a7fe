#include "cli/documents.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace berth::test {

json::Value parsed(const std::string& text)
{
    auto value = json::parse(text);
    EXPECT_TRUE(value) << text;
    return value ? *std::move(value) : json::Value(nullptr);
}

std::vector<json::Value> json_lines(const std::string& text)
{
    std::vector<json::Value> out;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) out.push_back(parsed(line));
    return out;
}

json::Value document(Words args, int code)
{
    args.emplace_back("--json");
    const auto ended = berth(args);
    EXPECT_EQ(ended.code, code) << ended.out << ended.err;
    EXPECT_EQ(ended.err, "") << "with --json stderr is silent";
    return parsed(trimmed(ended.out));
}

std::string error_code(const Ended& ended)
{
    const auto told = parsed(trimmed(ended.out));
    if (!told.is_object() || !told.as_object().contains("error")) return "no error: " + ended.out;
    const auto& error = told.at("error").as_object();
    EXPECT_FALSE(error.at("message").as_string().empty());
    EXPECT_TRUE(error.at("trail").is_array());
    return std::string(error.at("code").as_string());
}

} // namespace berth::test
