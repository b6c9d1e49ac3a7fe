#include "store/sqlite/exec_rows.hpp"

#include "base/json_reader.hpp"
#include "store/sqlite/record_rows.hpp"

namespace berth::store {

Status insert_exec(Connection& db, const ExecRecord& exec)
{
    json::Array argv;
    for (const auto& word : exec.argv) argv.emplace_back(word);
    BERTH_TRY(
        auto row,
        db.prepare("INSERT INTO exec (id, sandbox, generation, argv, cwd, user, started, ended, "
                   "outcome, timeout, paused_before, due, overdue) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    row.bind(exec.id).bind(exec.sandbox).bind(exec.generation).bind(json::dump(argv)).bind(exec.cwd);
    row.bind(exec.user).bind(ticks(exec.started)).bind(ticks(exec.ended)).bind(exec.outcome);
    row.bind(std::int64_t{exec.timeout ? exec.timeout->count() : 0});
    row.bind(std::int64_t{exec.paused_before.count()}).bind(ticks(exec.due));
    row.bind(std::int64_t{exec.overdue ? 1 : 0});
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

Status note_exec_row(Connection& db, const ExecRecord& exec)
{
    BERTH_TRY(auto row, db.prepare("UPDATE exec SET due=?, overdue=? WHERE id=? AND ended=0"));
    return row.bind(ticks(exec.due)).bind(std::int64_t{exec.overdue ? 1 : 0}).bind(exec.id).run();
}

namespace {

constexpr const char* kColumns =
    "id, sandbox, generation, argv, cwd, user, started, ended, outcome, timeout, "
    "paused_before, due, overdue";

Result<std::vector<ExecRecord>> read_all(Statement& row)
{
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
                        .outcome = row.text(8),
                        .paused_before = std::chrono::milliseconds(row.number(10)),
                        .due = wall_time(row.number(11)),
                        .overdue = row.number(12) != 0};
        if (row.number(9) > 0) exec.timeout = std::chrono::nanoseconds(row.number(9));
        BERTH_TRY(exec.argv, json::Reader(argv).strings());
        out.push_back(std::move(exec));
    }
}

} // namespace

Result<std::vector<ExecRecord>> list_execs(Connection& db, const std::string& sandbox, bool running_only)
{
    static const std::string all = fmt::format("SELECT {} FROM exec WHERE sandbox=? ORDER BY id", kColumns);
    static const std::string running =
        fmt::format("SELECT {} FROM exec WHERE sandbox=? AND ended=0 ORDER BY id", kColumns);
    BERTH_TRY(auto row, db.prepare(running_only ? running.c_str() : all.c_str()));
    row.bind(sandbox);
    return read_all(row);
}

Result<std::vector<ExecRecord>> list_execs_due(Connection& db, WallTime by, std::size_t limit)
{
    static const std::string sql =
        fmt::format("SELECT {} FROM exec WHERE due<>0 AND ended=0 AND due<=? ORDER BY due LIMIT ?", kColumns);
    BERTH_TRY(auto row, db.prepare(sql.c_str()));
    row.bind(ticks(by)).bind(std::uint64_t{limit});
    return read_all(row);
}

} // namespace berth::store
