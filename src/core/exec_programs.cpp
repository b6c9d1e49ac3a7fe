#include "core/exec_programs.hpp"

#include <map>
#include <mutex>
#include <set>

namespace berth {

namespace {

struct Waiting {
    int program = -1;
    bool taken = false;
};

constinit std::mutex mutex;
std::map<std::string, Waiting>& all()
{
    static std::map<std::string, Waiting> programs;
    return programs;
}

std::set<std::string, std::less<>>& takers()
{
    static std::set<std::string, std::less<>> names;
    return names;
}

} // namespace

TakesPrograms::TakesPrograms(std::string backend)
{
    const std::scoped_lock lock(mutex);
    takers().insert(std::move(backend));
}

bool takes_programs(std::string_view backend)
{
    const std::scoped_lock lock(mutex);
    return takers().contains(backend);
}

GivenProgram::GivenProgram(std::string exec, int program) : exec_(std::move(exec))
{
    const std::scoped_lock lock(mutex);
    all()[exec_] = {.program = program};
}

GivenProgram::~GivenProgram()
{
    const std::scoped_lock lock(mutex);
    all().erase(exec_);
}

bool GivenProgram::taken() const
{
    const std::scoped_lock lock(mutex);
    return all().at(exec_).taken;
}

int program_of(const std::string& exec)
{
    const std::scoped_lock lock(mutex);
    const auto found = all().find(exec);
    if (found == all().end()) return -1;
    found->second.taken = true;
    return found->second.program;
}

} // namespace berth
