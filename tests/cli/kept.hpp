#pragma once

#include <gtest/gtest.h>

#include "cli/documents.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {

/// A test that makes sandboxes which outlive the program: they are destroyed with the test, which fails
/// when one cannot be.
class Kept : public testing::Test {
protected:
    void TearDown() override
    {
        const auto ended = berth({"rm", "--all"});
        EXPECT_EQ(ended.code, 0) << ended.err;
    }

    /// `berth create OPTIONS…`: the id.
    static std::string create(Words options = {})
    {
        options.insert(options.begin(), "create");
        const auto ended = berth(options);
        EXPECT_EQ(ended.code, 0) << ended.err;
        return trimmed(ended.out);
    }

    static std::string state(const std::string& ref)
    {
        return std::string(document({"inspect", ref}).at("state").as_string());
    }

    static std::size_t events_of(const std::string& type)
    {
        return json_lines(berth({"events", "--json", "--type", type}).out).size();
    }
};

} // namespace berth::test
