#include "store/sqlite/connection.hpp"

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace berth::store {

namespace {

using namespace std::chrono_literals;

constexpr int kBusyMilliseconds = 10'000;
constexpr auto kLookAgain = 2ms;

Code code_of(int sqlite)
{
    switch (sqlite & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return Code::Unavailable;
    case SQLITE_FULL:
    case SQLITE_NOMEM: return Code::Exhausted;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH: return Code::Denied;
    case SQLITE_CANTOPEN: return Code::NotFound;
    case SQLITE_CONSTRAINT: return Code::Conflict;
    case SQLITE_TOOBIG: return Code::Invalid;
    default: return Code::Internal;
    }
}

/// Also what SQLite calls an I/O error: its shared memory and its journal are files, too.
bool no_room(sqlite3* connection, int sqlite)
{
    if ((sqlite & 0xff) == SQLITE_FULL || sqlite == SQLITE_IOERR_SHMSIZE) return true;
    if ((sqlite & 0xff) != SQLITE_IOERR || connection == nullptr) return false;
    const int error = sqlite3_system_errno(connection);
    return error == ENOSPC || error == EDQUOT;
}

std::string remedy(sqlite3* connection, int sqlite)
{
    const char* const path = connection != nullptr ? sqlite3_db_filename(connection, "main") : nullptr;
    const std::string file = path != nullptr ? path : "its file";
    switch (sqlite & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return fmt::format(
            " (the store is damaged: mv {} {}.damaged; the next command makes a new one with the "
            "same sandboxes and snapshots, without their past events)",
            file, file);
    case SQLITE_READONLY: return " (the state directory must be writable)";
    default: return "";
    }
}

/// A fresh file gets its journal from the first who opens it. Two who read its old mode at the same time
/// both want to change it, and SQLite tells one of them so at once, whatever the busy timeout: waiting
/// with a read lock could last for ever. Asked again, the file has its journal.
int use_journal(sqlite3* raw)
{
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
    for (;;) {
        const int code = sqlite3_exec(raw, "PRAGMA journal_mode=WAL", nullptr, nullptr, nullptr);
        if ((code & 0xff) != SQLITE_BUSY || std::chrono::steady_clock::now() > until) return code;
        std::this_thread::sleep_for(kLookAgain);
    }
}

} // namespace

std::unexpected<Error> no_room_in(const std::string& directory)
{
    return fail(Code::Exhausted,
                "no room in {}: berth gc, berth snapshots rm, berth rm and berth stop work all the same and "
                "free some",
                directory.empty() ? "the state directory" : directory);
}

std::unexpected<Error> sqlite_error(sqlite3* connection, int code)
{
    if (no_room(connection, code)) {
        const char* const path = connection != nullptr ? sqlite3_db_filename(connection, "main") : nullptr;
        const std::string file = path != nullptr ? path : "";
        return no_room_in(file.substr(0, file.find_last_of('/')));
    }
    const char* message = connection != nullptr ? sqlite3_errmsg(connection) : sqlite3_errstr(code);
    return fail(code_of(code), "store: {}{}", message, remedy(connection, code));
}

Statement::~Statement()
{
    if (raw_ == nullptr) return;
    sqlite3_reset(raw_);
    sqlite3_clear_bindings(raw_);
}

Statement& Statement::bind(std::string_view text)
{
    const int bad =
        sqlite3_bind_text64(raw_, next_++, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    if (bad_ == SQLITE_OK) bad_ = bad;
    return *this;
}

Statement& Statement::bind(std::int64_t number)
{
    const int bad = sqlite3_bind_int64(raw_, next_++, number);
    if (bad_ == SQLITE_OK) bad_ = bad;
    return *this;
}

Result<bool> Statement::step()
{
    const int code = bad_ != SQLITE_OK ? bad_ : sqlite3_step(raw_);
    if (code == SQLITE_ROW) return true;
    if (code == SQLITE_DONE) return false;
    return sqlite_error(sqlite3_db_handle(raw_), code);
}

Status Statement::run()
{
    for (;;) {
        BERTH_TRY(const bool row, step());
        if (!row) return {};
    }
}

std::string Statement::text(int column) const
{
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(raw_, column));
    return bytes == nullptr
               ? std::string{}
               : std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(raw_, column)));
}

std::int64_t Statement::number(int column) const { return sqlite3_column_int64(raw_, column); }

Result<Connection> Connection::open(const std::string& path)
{
    sqlite3* raw = nullptr;
    constexpr int flags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW;
    const int code = sqlite3_open_v2(path.c_str(), &raw, flags, nullptr);
    Connection connection(raw); // even a failed open leaves something to close
    if (code != SQLITE_OK) {
        auto failed = sqlite_error(raw, code);
        failed.error().message += fmt::format(": {}", path);
        return failed;
    }
    sqlite3_extended_result_codes(raw, 1);
    sqlite3_busy_timeout(raw, kBusyMilliseconds);
    // FULL: a commit is on disk when it returns, in WAL mode too.
    if (const int failed = use_journal(raw); failed != SQLITE_OK) return sqlite_error(raw, failed);
    BERTH_CHECK(
        connection.execute("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; PRAGMA trusted_schema=OFF;"));
    return connection;
}

// Whoever has the file for himself keeps in his own memory what others share by a file beside it.
Result<Connection> Connection::open_alone(const std::string& path)
{
    sqlite3* raw = nullptr;
    const int code = sqlite3_open_v2(
        path.c_str(), &raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, nullptr);
    Connection connection(raw);
    if (code != SQLITE_OK) return sqlite_error(raw, code);
    sqlite3_extended_result_codes(raw, 1);
    sqlite3_busy_timeout(raw, kBusyMilliseconds);
    BERTH_CHECK(connection.execute("PRAGMA locking_mode=EXCLUSIVE; PRAGMA query_only=ON; PRAGMA "
                                   "trusted_schema=OFF; PRAGMA user_version;"));
    return connection;
}

Status Connection::execute(const char* sql)
{
    const int code = sqlite3_exec(raw_.get(), sql, nullptr, nullptr, nullptr);
    if (code != SQLITE_OK) return sqlite_error(raw_.get(), code);
    return {};
}

Result<Statement> Connection::prepare(const char* sql)
{
    auto& kept = statements_[sql];
    if (!kept) {
        sqlite3_stmt* raw = nullptr;
        const int code = sqlite3_prepare_v3(raw_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
        if (code != SQLITE_OK) return sqlite_error(raw_.get(), code);
        kept.reset(raw);
    }
    return Statement(kept.get());
}

Status Connection::run(const char* sql)
{
    BERTH_TRY(auto statement, prepare(sql));
    return statement.run();
}

} // namespace berth::store
