#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cli/program.hpp"

namespace berth::test {

/// A sandbox that lives beside the programs of a test and is gone with it.
class Box {
public:
    /// `berth create OPTIONS…`
    explicit Box(Words options = {})
    {
        options.insert(options.begin(), {"create", "--quiet"});
        const auto made = berth(std::move(options));
        EXPECT_EQ(made.code, 0) << made.err;
        id_ = trimmed(made.out);
    }
    Box(const Box&) = delete;
    Box& operator=(const Box&) = delete;
    ~Box()
    {
        const auto gone = berth({"rm", id_});
        EXPECT_EQ(gone.code, 0) << gone.err;
    }

    [[nodiscard]] const std::string& id() const { return id_; }

    /// `exec OPTIONS… ID -- COMMAND…`
    [[nodiscard]] Words words(Words options, const Words& command) const
    {
        options.insert(options.begin(), "exec");
        options.insert(options.end(), {id_, "--"});
        options.insert(options.end(), command.begin(), command.end());
        return options;
    }
    [[nodiscard]] Ended exec(Words options, const Words& command) const
    {
        return berth(words(std::move(options), command));
    }
    [[nodiscard]] Ended shell(const std::string& script) const { return exec({}, {"sh", "-c", script}); }

    /// `berth logs ID OPTIONS…`
    [[nodiscard]] Ended logs(Words options = {}) const
    {
        options.insert(options.begin(), {"logs", id_});
        return berth(std::move(options));
    }

private:
    std::string id_;
};

} // namespace berth::test
