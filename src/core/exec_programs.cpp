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

std::map<std::string, std::string>& names()
{
    static std::map<std::string, std::string> by_exec;
    return by_exec;
}

std::set<std::string, std::less<>>& takers()
{
    static std::set<std::string, std::less<>> backends;
    return backends;
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

GivenName::GivenName(std::string exec, std::string name) : exec_(std::move(exec))
{
    const std::scoped_lock lock(mutex);
    names()[exec_] = std::move(name);
}

GivenName::~GivenName()
{
    const std::scoped_lock lock(mutex);
    names().erase(exec_);
}

std::optional<std::string> name_of(const std::string& exec)
{
    const std::scoped_lock lock(mutex);
    const auto found = names().find(exec);
    return found == names().end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> argv_of(const std::string& exec, std::vector<std::string> argv)
{
    if (auto name = name_of(exec)) argv.front() = *std::move(name);
    return argv;
}

bool add_name(const std::string& exec, std::vector<std::string>& argv)
{
    auto name = name_of(exec);
    if (name) argv.insert(argv.begin() + 1, *std::move(name));
    return name.has_value();
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
