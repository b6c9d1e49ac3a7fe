#include "core/state.hpp"

#include <map>
#include <vector>

#include <gtest/gtest.h>

namespace berth {
namespace {

const std::vector<State> kStates{State::Creating, State::Running,  State::Paused,
                                 State::Stopped,  State::Lost,     State::Failed,
                                 State::Attached, State::Detached, State::Destroyed};
const std::vector<Transition> kTransitions{
    Transition::Usable, Transition::Error,  Transition::Stop,    Transition::Start,
    Transition::Pause,  Transition::Resume, Transition::Reboot,  Transition::Missing,
    Transition::Detach, Transition::Attach, Transition::Destroy, Transition::Restored,
};

/// The contract, written a second time: state, what happens, what follows.
const std::map<std::pair<State, Transition>, State> kAllowed{
    {{State::Creating, Transition::Usable}, State::Running},
    {{State::Creating, Transition::Error}, State::Failed},
    {{State::Running, Transition::Stop}, State::Stopped},
    {{State::Running, Transition::Pause}, State::Paused},
    {{State::Paused, Transition::Resume}, State::Running},
    {{State::Paused, Transition::Stop}, State::Stopped},
    {{State::Running, Transition::Reboot}, State::Stopped},
    {{State::Paused, Transition::Reboot}, State::Stopped},
    {{State::Stopped, Transition::Start}, State::Running},
    {{State::Running, Transition::Missing}, State::Lost},
    {{State::Paused, Transition::Missing}, State::Lost},
    {{State::Stopped, Transition::Missing}, State::Lost},
    {{State::Attached, Transition::Missing}, State::Lost},
    {{State::Lost, Transition::Restored}, State::Running},
    {{State::Lost, Transition::Start}, State::Running},
    {{State::Lost, Transition::Stop}, State::Stopped},
    {{State::Attached, Transition::Detach}, State::Detached},
    {{State::Detached, Transition::Attach}, State::Attached},
    {{State::Creating, Transition::Destroy}, State::Destroyed},
    {{State::Running, Transition::Destroy}, State::Destroyed},
    {{State::Paused, Transition::Destroy}, State::Destroyed},
    {{State::Stopped, Transition::Destroy}, State::Destroyed},
    {{State::Lost, Transition::Attach}, State::Attached},
    {{State::Lost, Transition::Detach}, State::Detached},
    {{State::Lost, Transition::Destroy}, State::Destroyed},
    {{State::Failed, Transition::Destroy}, State::Destroyed},
};

TEST(State, AllowsWhatTheTableSaysAndNothingElse)
{
    for (const State state : kStates)
        for (const Transition transition : kTransitions) {
            const auto expected = kAllowed.find({state, transition});
            EXPECT_EQ(next(state, transition),
                      expected == kAllowed.end() ? std::nullopt : std::optional(expected->second))
                << to_string(state) << " and transition " << static_cast<int>(transition);
        }
}

TEST(State, NothingLeavesTheLastState)
{
    for (const Transition transition : kTransitions) EXPECT_FALSE(next(State::Destroyed, transition));
}

TEST(State, ABorrowedSandboxIsNeverDestroyedOrStopped)
{
    EXPECT_FALSE(next(State::Attached, Transition::Destroy));
    EXPECT_FALSE(next(State::Attached, Transition::Stop));
    EXPECT_FALSE(next(State::Attached, Transition::Pause));
}

TEST(State, HasAWordForEach)
{
    std::map<std::string_view, int> words;
    for (const State state : kStates) ++words[to_string(state)];
    EXPECT_EQ(words.size(), kStates.size());
}

} // namespace
} // namespace berth
