#include "store/sqlite/record_rows.hpp"

#include <algorithm>

#include "base/strings.hpp"
#include "core/spec_json.hpp"

namespace berth::store {

namespace {

constexpr const char* kColumns =
    "version, key, backend, native, state, generation, spec, spec_hash, snapshot, "
    "superseded_by, created, last_used, idle, on_idle, lifetime, failure, "
    "changed, due, id, name";
constexpr std::size_t kMaxPage = 10'000;

std::optional<std::chrono::seconds> read_seconds(std::int64_t number)
{
    if (number <= 0) return std::nullopt;
    return std::chrono::seconds(number);
}

Result<SandboxRecord> read_record(const Statement& row)
{
    SandboxRecord out;
    out.version = static_cast<std::uint64_t>(row.number(0));
    out.key = row.text(1);
    out.backend = row.text(2);
    out.native = row.text(3);
    BERTH_TRY(out.state, read_state(row.text(4)));
    out.generation = static_cast<std::uint64_t>(row.number(5));
    BERTH_TRY(out.spec, read_kept(row.text(6), "sandbox " + row.text(18)));
    out.spec_hash = row.text(7);
    out.latest_snapshot = row.text(8);
    out.superseded_by = row.text(9);
    out.created = wall_time(row.number(10));
    out.last_used = wall_time(row.number(11));
    out.retention.idle = read_seconds(row.number(12));
    BERTH_TRY(out.retention.on_idle, parse_on_idle(row.text(13)));
    out.retention.lifetime = read_seconds(row.number(14));
    out.failure = row.text(15);
    out.changed = wall_time(row.number(16));
    out.due = wall_time(row.number(17));
    return out;
}

/// What stands in for a record that cannot be read, so that one does not hide all others.
SandboxRecord stand_in(const Statement& row, const Error& why)
{
    SandboxRecord out;
    out.version = static_cast<std::uint64_t>(row.number(0));
    out.key = row.text(1);
    out.backend = row.text(2);
    out.native = row.text(3);
    out.state = read_state(row.text(4)).value_or(State::Lost);
    out.generation = static_cast<std::uint64_t>(row.number(5));
    out.created = wall_time(row.number(10));
    out.last_used = wall_time(row.number(11));
    out.changed = wall_time(row.number(16));
    out.spec.id = row.text(18);
    out.spec.name = row.text(19);
    out.damage = why.line();
    return out;
}

std::int64_t seconds(const std::optional<std::chrono::seconds>& time) { return time ? time->count() : 0; }

/// Everything but id and version, in the order of both statements below.
void bind_record(Statement& statement, const SandboxRecord& record)
{
    statement.bind(record.key)
        .bind(record.spec.name)
        .bind(record.backend)
        .bind(record.native)
        .bind(to_string(record.state))
        .bind(std::int64_t{record.live() ? 1 : 0})
        .bind(record.generation)
        .bind(json::dump(to_json(record.spec)))
        .bind(record.spec_hash)
        .bind(record.latest_snapshot)
        .bind(record.superseded_by)
        .bind(ticks(record.created))
        .bind(ticks(record.last_used))
        .bind(seconds(record.retention.idle))
        .bind(to_string(record.retention.on_idle))
        .bind(seconds(record.retention.lifetime))
        .bind(record.failure)
        .bind(ticks(record.changed))
        .bind(ticks(record.due));
}

Status named_conflict(Status status, const SandboxRecord& record)
{
    if (status || status.error().code != Code::Conflict) return status;
    return fail(Code::Conflict, "sandbox {}: its id or its key '{}' is taken", record.id(),
                printable(record.key, 80));
}

/// What would come back as something else, or not at all, is refused before it is anybody's sandbox.
Status check_kept(const SandboxSpec& spec)
{
    const json::Object document = to_json(spec);
    if (const auto where = json::not_utf8(document))
        return fail(Code::Invalid, "{} of the sandbox is not UTF-8: a sandbox that is kept cannot have it",
                    printable(*where, 120));
    const std::size_t size = json::dump(document).size();
    if (size > json::Limits{}.bytes)
        return fail(Code::Invalid, "what the sandbox is asked to be takes {} bytes; {} at most", size,
                    json::Limits{}.bytes);
    return {};
}

Result<std::optional<SandboxRecord>> first_record(Statement& row)
{
    BERTH_TRY(const bool found, row.step());
    if (!found) return std::optional<SandboxRecord>{};
    return read_record(row);
}

} // namespace

Result<State> read_state(const std::string& text)
{
    for (const auto state : {State::Creating, State::Running, State::Paused, State::Stopped, State::Lost,
                             State::Failed, State::Attached, State::Detached, State::Destroyed})
        if (text == to_string(state)) return state;
    return fail(Code::Internal, "store: no state '{}'", printable(text, 40));
}

// It was well when it was written: what is wrong with it now is nothing the caller asked for.
Result<SandboxSpec> read_kept(const std::string& text, const std::string& whose)
{
    const auto read = [&]() -> Result<SandboxSpec> {
        BERTH_TRY(const auto document, json::parse(text));
        return read_spec(json::Reader(document));
    };
    auto spec = read();
    if (spec) return spec;
    return fail(Code::Internal, "store: the record of {} is damaged: {}", printable(whose, 80),
                spec.error().line());
}

Status insert_record(Connection& db, const SandboxRecord& record)
{
    BERTH_CHECK(check_kept(record.spec));
    BERTH_TRY(auto row,
              db.prepare("INSERT INTO sandbox (id, version, key, name, backend, native, state, live, "
                         "generation, spec, spec_hash, snapshot, superseded_by, created, last_used, idle, "
                         "on_idle, lifetime, failure, changed, due) "
                         "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
    row.bind(record.id()).bind(record.version);
    bind_record(row, record);
    return named_conflict(row.run(), record);
}

namespace {

/// Whoever changes a record may have read it long ago (a snapshot takes minutes), and uses are written beside
/// him: none of them is taken back.
Status keep_use(Connection& db, SandboxRecord& record)
{
    BERTH_TRY(auto row, db.prepare("SELECT last_used FROM sandbox WHERE id=?"));
    BERTH_TRY(const bool found, row.bind(record.id()).step());
    if (!found || wall_time(row.number(0)) <= record.last_used) return {};
    record.last_used = wall_time(row.number(0));
    record.due = record.deadline();
    return {};
}

} // namespace

Status update_record(Connection& db, SandboxRecord& record, std::uint64_t before)
{
    BERTH_CHECK(keep_use(db, record));
    BERTH_TRY(auto row,
              db.prepare("UPDATE sandbox SET version=?, key=?, name=?, backend=?, native=?, state=?, "
                         "live=?, generation=?, spec=?, spec_hash=?, snapshot=?, superseded_by=?, "
                         "created=?, last_used=?, idle=?, on_idle=?, lifetime=?, failure=?, changed=?, "
                         "due=? WHERE id=? AND version=?"));
    row.bind(record.version);
    bind_record(row, record);
    row.bind(record.id()).bind(before);
    BERTH_CHECK(named_conflict(row.run(), record));
    if (db.changes() != 1)
        return fail(Code::Conflict, "sandbox {} was changed by somebody else", record.id());
    return {};
}

Status set_latest_snapshot(Connection& db, const std::string& id, const std::string& snapshot)
{
    BERTH_TRY(auto row, db.prepare("UPDATE sandbox SET snapshot=?, version=version+1 WHERE id=?"));
    return row.bind(snapshot).bind(id).run();
}

/// Whoever used it may have read its record long ago: when it is due only the row knows.
Status touch_record(Connection& db, const std::string& id, WallTime used)
{
    SandboxRecord now;
    {
        BERTH_TRY(auto row, db.prepare("SELECT state, created, last_used, idle, on_idle, lifetime "
                                       "FROM sandbox WHERE id=?"));
        BERTH_TRY(const bool found, row.bind(id).step());
        if (!found) return {};
        now.state = read_state(row.text(0)).value_or(State::Lost);
        now.created = wall_time(row.number(1));
        now.last_used = std::max(used, wall_time(row.number(2)));
        now.retention.idle = read_seconds(row.number(3));
        now.retention.on_idle = parse_on_idle(row.text(4)).value_or(OnIdle::Stop);
        now.retention.lifetime = read_seconds(row.number(5));
    }
    BERTH_TRY(auto row, db.prepare("UPDATE sandbox SET last_used=?, due=? WHERE id=?"));
    return row.bind(ticks(now.last_used)).bind(ticks(now.deadline())).bind(id).run();
}

Result<std::optional<SandboxRecord>> find_record(Connection& db, const std::string& id)
{
    static const std::string sql = fmt::format("SELECT {} FROM sandbox WHERE id=?", kColumns);
    BERTH_TRY(auto row, db.prepare(sql.c_str()));
    row.bind(id);
    return first_record(row);
}

Result<std::optional<SandboxRecord>> find_key_record(Connection& db, const std::string& key)
{
    static const std::string sql =
        fmt::format("SELECT {} FROM sandbox WHERE key=? AND live=1 AND key<>''", kColumns);
    BERTH_TRY(auto row, db.prepare(sql.c_str()));
    row.bind(key);
    return first_record(row);
}

Result<std::vector<SandboxRecord>> list_records(Connection& db, const RecordQuery& query)
{
    // The prefix as a range, so that the primary key serves it; no id has a character above 'z'.
    constexpr const char* kWhere = "id>? AND id>=? AND id<? AND (?='' OR name=?) AND (?='' OR backend=?)";
    static const std::string all =
        fmt::format("SELECT {} FROM sandbox WHERE {} ORDER BY id LIMIT ?", kColumns, kWhere);
    static const std::string living =
        fmt::format("SELECT {} FROM sandbox WHERE live=1 AND {} ORDER BY id LIMIT ?", kColumns, kWhere);
    // Names, deadlines and what is superseded have indexes of their own, which the two above would not use.
    static const std::string named = fmt::format(
        "SELECT {} FROM sandbox WHERE name=? AND name<>'' AND live=1 ORDER BY id LIMIT ?", kColumns);
    static const std::string overdue =
        fmt::format("SELECT {0} FROM sandbox WHERE due<>0 AND live=1 AND due<=?1 AND id>?2 UNION ALL "
                    "SELECT {0} FROM sandbox WHERE superseded_by<>'' AND state<>'destroyed' AND "
                    "state<>'failed' AND due<>0 AND due<=?1 AND id>?2 ORDER BY id LIMIT ?3",
                    kColumns);
    static const std::string superseded =
        fmt::format("SELECT {} FROM sandbox WHERE superseded_by<>'' AND state<>'destroyed' AND "
                    "state<>'failed' AND id>? ORDER BY id LIMIT ?",
                    kColumns);
    const std::uint64_t limit = std::min(query.limit, kMaxPage);
    const bool by_due = query.due_by != WallTime{};
    const bool by_name = !by_due && !query.name.empty() && !query.with_dead && query.id_prefix.empty() &&
                         query.after.empty() && query.backend.empty();
    const std::string& sql = query.superseded  ? superseded
                             : by_due          ? overdue
                             : by_name         ? named
                             : query.with_dead ? all
                                               : living;
    BERTH_TRY(auto row, db.prepare(sql.c_str()));
    if (query.superseded)
        row.bind(query.after);
    else if (by_due)
        row.bind(ticks(query.due_by)).bind(query.after);
    else if (by_name)
        row.bind(query.name);
    else
        row.bind(query.after)
            .bind(query.id_prefix)
            .bind(query.id_prefix + "~")
            .bind(query.name)
            .bind(query.name)
            .bind(query.backend)
            .bind(query.backend);
    row.bind(limit);
    std::vector<SandboxRecord> out;
    for (;;) {
        BERTH_TRY(const bool more, row.step());
        if (!more) return out;
        auto record = read_record(row);
        out.push_back(record ? *std::move(record) : stand_in(row, record.error()));
    }
}

} // namespace berth::store
