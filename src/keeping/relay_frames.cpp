#include "keeping/relay_frames.hpp"

#include "core/exec_programs.hpp"
#include "keeper/wire_program.hpp"

namespace berth::keeping {

std::string relay_frame(keeper::RelayKind kind, std::uint64_t offset, std::string_view bytes)
{
    const keeper::RelayHead head{
        .length = static_cast<std::uint32_t>(bytes.size()), .kind = kind, .reserved = 0, .offset = offset};
    std::string out(reinterpret_cast<const char*>(&head), sizeof head);
    out += bytes;
    return out;
}

Result<std::string> relay_begin(const ExecSpec& spec, const std::string& cwd,
                                const std::vector<std::string>& env)
{
    keeper::RelayBegin begin{};
    auto words = spec.argv;
    if (add_name(spec.id, words)) begin.flags |= keeper::kNamed;
    begin.argc = static_cast<std::uint32_t>(words.size());
    begin.envc = static_cast<std::uint32_t>(env.size());
    if (spec.input == ExecSpec::Stdin::Open) begin.flags |= keeper::kStdin;
    if (spec.terminal) {
        begin.flags |= keeper::kTerminal;
        begin.rows = spec.terminal->rows;
        begin.columns = spec.terminal->columns;
    }
    std::string out(reinterpret_cast<const char*>(&begin), sizeof begin);
    out += cwd + '\0';
    for (const auto& word : words) out += word + '\0';
    for (const auto& one : env) out += one + '\0';
    if (out.size() > keeper::kMaxBody) return fail(Code::Invalid, "a command of {} bytes", out.size());
    return out;
}

} // namespace berth::keeping
