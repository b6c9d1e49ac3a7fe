// A list of steps as it may reach the spawner. What is accepted must be safe to interpret: every
// offset, slot, block and list of words lies where the interpreter will look.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>

#include "sys/step_list.hpp"

namespace {

using namespace berth::sys;

void require(bool holds)
{
    if (!holds) std::abort();
}

void check_range(const StepList& list, std::uint64_t at, std::uint64_t size)
{
    require(size == 0 || (at != 0 && at <= list.arena().size() && size <= list.arena().size() - at));
}

void check_step(const StepList& list, const Step& step)
{
    const auto slots = static_cast<std::int64_t>(list.slots().size());
    for (const auto slot : {step.fd, step.fd2, step.out}) require(slot >= kNone && slot < slots);
    for (const auto offset : step.text)
        require(std::strlen(list.arena().c_str() + offset) <= list.arena().size());
    const auto words = list.vectors().size();
    if (step.op == Op::Clone) require(step.b < list.blocks().size());
    if (step.op == Op::Exec || step.op == Op::ExecPath) require(step.a < words && step.b < words);
    if (step.op == Op::ExecPath) require(step.c < words);
    if (step.op == Op::WriteFd || step.op == Op::Seccomp || step.op == Op::Hostname || step.op == Op::Send)
        check_range(list, step.text[0], step.size);
    if (step.op == Op::WriteFile || step.op == Op::MakeFile) check_range(list, step.text[1], step.size);
    if (step.op == Op::Send) check_range(list, step.text[1], step.b * sizeof(std::int32_t));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    if (size < 1) return 0;
    std::vector<berth::UniqueFd> fds;
    for (int i = 0; i < data[0] % 4; ++i) fds.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
    const auto list = StepList::decode(bytes, std::move(fds));
    if (!list) return 0;
    for (const auto& block : list->blocks())
        require(block.first + std::uint64_t{block.count} <= list->steps().size());
    for (const Step& step : list->steps()) check_step(*list, step);
    for (const auto& vector : list->vectors())
        for (const auto offset : vector) require(offset < list->arena().size());
    static_cast<void>(list->labels());
    // What was understood is written as it was read.
    const auto again = list->encode();
    require(again.size() == bytes.size());
    return 0;
}
