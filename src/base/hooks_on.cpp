#include <csignal>
#include <cstdlib>

#include "base/hooks.hpp"

namespace berth::hooks {

namespace {

bool listed(const char* variable, std::string_view word)
{
    const char* text = std::getenv(variable); // NOLINT(concurrency-mt-unsafe): tests set it before start
    if (text == nullptr) return false;
    std::string_view rest = text;
    while (!rest.empty()) {
        const auto comma = rest.find(',');
        if (rest.substr(0, comma) == word) return true;
        if (comma == std::string_view::npos) return false;
        rest.remove_prefix(comma + 1);
    }
    return false;
}

} // namespace

void kill_point(std::string_view label)
{
    if (kill_at(label)) std::raise(SIGKILL);
}

bool kill_at(std::string_view label) { return listed("BERTH_TEST_KILL", label); }

bool wall_off(std::string_view wall) { return listed("BERTH_TEST_WALLS_OFF", wall); }
bool lacks(std::string_view facility) { return listed("BERTH_TEST_LACK", facility); }
bool available() { return true; }

} // namespace berth::hooks
