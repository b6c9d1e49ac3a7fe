#include "store/sqlite/exec_rows.hpp"

#include "base/json_reader.hpp"
#include "store/sqlite/record_rows.hpp"

namespace berth::store {

Status insert_exec(Connection& db, const ExecRecord& exec)
{
    json::Array argv;
    for (const auto& word : exec.argv) argv.emplace_back(word);
    BERTH_TRY(auto row,
              db.prepare("INSERT INTO exec (id, sandbox, generation, argv, cwd, user, started, ended, "
                         "outcome) VALUES (?,?,?,?,?,?,?,?,?)"));
    row.bind(exec.id).bind(exec.sandbox).bind(exec.generation).bind(json::dump(argv)).bind(exec.cwd);
    row.bind(exec.user).bind(ticks(exec.started)).bind(ticks(exec.ended)).bind(exec.outcome);
    auto done = row.run();
    if (!done && done.error().code == Code::Conflict) return fail(Code::Conflict, "exec {} exists", exec.id);
    return done;
}

Result<bool> end_exec_row(Connection& db, const std::string& id, WallTime ended, const std::string& outcome)
{
    BERTH_TRY(auto row, db.prepare("UPDATE exec SET ended=?, outcome=? WHERE id=? AND ended=0"));
    BERTH_CHECK(row.bind(ticks(ended)).bind(outcome).bind(id).run());
    return db.changes() != 0;
}

Result<std::vector<ExecRecord>> list_execs(Connection& db, const std::string& sandbox, bool running_only)
{
    BERTH_TRY(auto row,
              db.prepare(running_only ? "SELECT id, sandbox, generation, argv, cwd, user, started, ended, "
                                        "outcome FROM exec WHERE sandbox=? AND ended=0 ORDER BY id"
                                      : "SELECT id, sandbox, generation, argv, cwd, user, started, ended, "
                                        "outcome FROM exec WHERE sandbox=? ORDER BY id"));
    row.bind(sandbox);
    std::vector<ExecRecord> out;
    for (;;) {
        BERTH_TRY(const bool more, row.step());
        if (!more) return out;
        BERTH_TRY(const auto argv, json::parse(row.text(3)));
        ExecRecord exec{.id = row.text(0),
                        .sandbox = row.text(1),
                        .generation = static_cast<std::uint64_t>(row.number(2)),
                        .argv = {},
                        .cwd = row.text(4),
                        .user = row.text(5),
                        .started = wall_time(row.number(6)),
                        .ended = wall_time(row.number(7)),
                        .outcome = row.text(8)};
        BERTH_TRY(exec.argv, json::Reader(argv).strings());
        out.push_back(std::move(exec));
    }
}

} // namespace berth::store
