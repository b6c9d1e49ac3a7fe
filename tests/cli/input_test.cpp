// `berth input`: turns with a command that runs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "cli/box.hpp"
#include "cli/documents.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;

/// A command whose input is kept open, and what it has said so far.
class Talk {
public:
    Talk(const Box& box, const Words& command, Words options = {"-i", "--detach"}) : box_(box)
    {
        exec_ = trimmed(box.exec(std::move(options), command).out);
    }

    [[nodiscard]] const std::string& exec() const { return exec_; }

    /// `berth input REF EXEC --from NEXT --json OPTIONS…`
    json::Object turn(Words options)
    {
        options.insert(options.begin(),
                       {"input", box_.id(), exec_, "--from", std::to_string(next_), "--json"});
        last_ = berth(std::move(options));
        auto parsed = json::parse(last_.out);
        EXPECT_TRUE(parsed) << last_.out << last_.err;
        auto answer = parsed ? parsed->as_object() : json::Object{};
        if (const auto* const next = answer.if_contains("next_seq")) next_ = next->to_number<std::uint64_t>();
        if (const auto* const output = answer.if_contains("output")) said_ += output->as_string();
        return answer;
    }
    /// Looks until it has said that, since the last such call.
    [[nodiscard]] bool hears(const std::string& text)
    {
        while (said_.size() < text.size() && turn({}).at("running").as_bool()) {
        }
        return std::exchange(said_, {}) == text;
    }
    [[nodiscard]] const Ended& last() const { return last_; }

private:
    const Box& box_;
    std::string exec_;
    std::uint64_t next_ = 0;
    std::string said_;
    Ended last_;
};

Ended input(const Box& box, const std::string& exec, Words words)
{
    words.insert(words.begin(), {"input", box.id(), exec});
    return berth(std::move(words));
}

TEST(Input, IsAnsweredByWhatIsNew)
{
    const Box box;
    Talk cat(box, {"cat"});
    auto turn = cat.turn({"--enter", "one"});
    EXPECT_EQ(cat.last().code, 0);
    EXPECT_TRUE(turn.at("running").as_bool());
    EXPECT_EQ(turn.at("taken").to_number<int>(), 4);
    EXPECT_TRUE(cat.hears("one\n"));
    cat.turn({"two"});
    EXPECT_TRUE(cat.hears("two")) << "and nothing of the first";
    turn = cat.turn({"--close", "--yield", "30s"});
    EXPECT_FALSE(turn.at("running").as_bool());
    EXPECT_EQ(turn.at("code").to_number<int>(), 0);
    EXPECT_EQ(turn.at("output").as_string(), "");
    EXPECT_LT(cat.last().took.count(), 20'000) << "an end is not waited out";
    EXPECT_EQ(box.logs({cat.exec()}).out, "one\ntwo");
}

TEST(Input, EndsWithTheCodeOfTheCommand)
{
    const Box box;
    Talk reader(box, {"sh", "-c", "read -r line; echo \"$line\"; exit 6"}, {"-i", "-d"});
    const auto told = input(box, reader.exec(), {"--enter", "hello", "--yield", "30s"});
    EXPECT_EQ(told.code, 6);
    EXPECT_EQ(told.out, "hello\n");
    EXPECT_LT(told.took.count(), 20'000);
    // It takes nothing any more, and its end is the answer as often as one asks.
    const auto again = reader.turn({"late"});
    EXPECT_EQ(reader.last().code, 6);
    EXPECT_EQ(again.at("taken").to_number<int>(), 0);
    const auto all = reader.turn({});
    EXPECT_EQ(all.at("code").to_number<int>(), 6);
    EXPECT_EQ(all.at("output").as_string(), "");
    EXPECT_LT(reader.last().took.count(), 4'000) << "a look at what has ended waits for nothing";
}

TEST(Input, OfTheSameNumberIsWrittenOnce)
{
    const Box box;
    Talk cat(box, {"cat"});
    cat.turn({"--write", "1", "one "});
    EXPECT_EQ(cat.turn({"--write", "1", "one "}).at("taken").to_number<int>(), 4) << "as it was told before";
    cat.turn({"--write", "2", "two "});
    const auto stale = input(box, cat.exec(), {"--write", "1", "one "});
    EXPECT_EQ(stale.code, 125);
    EXPECT_THAT(stale.err, HasSubstr("a later write was taken"));
    cat.turn({"--write", "3", "--close", "--yield", "30s"});
    EXPECT_EQ(box.logs({cat.exec()}).out, "one two ");
}

TEST(Input, GoesOnWithATurnThatYielded)
{
    const Box box;
    const auto turn = box.exec({"-i", "--yield", "0.25s", "--json"}, {"cat"});
    ASSERT_EQ(turn.code, 0) << turn.err;
    const auto exec = std::string(json::parse(turn.out)->as_object().at("exec").as_string());
    EXPECT_EQ(
        run({.args = {"input", box.id(), exec, "-", "--close", "--yield", "30s"}, .input = "a\nb\n"}).out,
        "a\nb\n");
}

TEST(Input, ThatIsOnlyALookEndsNothing)
{
    const Box box;
    const Talk sleeper(box, {"sh", "-c", "echo up; sleep 1000"}, {"--detach"});
    const auto looked = input(box, sleeper.exec(), {});
    EXPECT_EQ(looked.code, 0);
    EXPECT_EQ(looked.out, "up\n");
    EXPECT_THAT(looked.err, HasSubstr("it runs on: --from "));
    EXPECT_TRUE(document({"inspect", box.id()}).at("execs").at(0).at("running").as_bool());
}

TEST(Input, ThatCannotBeIsRefusedInWords)
{
    const Box box;
    const Talk deaf(box, {"sleep", "1000"}, {"--detach"});
    const auto none = input(box, deaf.exec(), {"x"});
    EXPECT_EQ(none.code, 125);
    EXPECT_THAT(none.err, HasSubstr("reads no input"));
    Talk closed(box, {"sh", "-c", "cat; sleep 1000"});
    closed.turn({"--close"});
    EXPECT_THAT(input(box, closed.exec(), {"x"}).err, HasSubstr("reads no input"));
    const auto unknown = input(box, "exec_none", {"x"});
    EXPECT_EQ(unknown.code, 125);
    EXPECT_THAT(unknown.err, HasSubstr("has no exec"));
    for (const Words& wrong : {Words{"--from", "x"}, Words{"--write", "0"}, Words{"--yield", "soon"}})
        EXPECT_EQ(input(box, deaf.exec(), wrong).code, 125) << wrong.back();
}

TEST(Input, ThatNobodyReadsIsNotTaken)
{
    const Box box;
    const Talk deaf(box, {"sleep", "1000"});
    const auto told =
        run({.args = {"input", box.id(), deaf.exec(), "-"}, .input = std::string(1 << 20, 'x')});
    EXPECT_EQ(told.code, 125);
    EXPECT_THAT(told.err, HasSubstr("of 1048576 bytes were taken"));
}

} // namespace
} // namespace berth::test
