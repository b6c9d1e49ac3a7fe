#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::store {

/// A prepared statement of a Connection while it is used: values go in by position from 1, columns come
/// out by position from 0. Given back, ready for the next use, when it is destroyed.
class Statement {
public:
    explicit Statement(sqlite3_stmt* raw) noexcept : raw_(raw) {}
    Statement(Statement&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    Statement& operator=(Statement&&) = delete;
    ~Statement();

    Statement& bind(std::string_view text);
    Statement& bind(std::int64_t number);
    Statement& bind(std::uint64_t number) { return bind(static_cast<std::int64_t>(number)); }

    /// True: a row is there.
    [[nodiscard]] Result<bool> step();
    /// Until its end, when there are no rows to look at.
    [[nodiscard]] Status run();

    [[nodiscard]] std::string text(int column) const;
    [[nodiscard]] std::int64_t number(int column) const;

private:
    sqlite3_stmt* raw_;
    int next_ = 1;
    int bad_ = 0; ///< of a bind
};

/// One connection to the file of a store; for one thread at a time.
class Connection {
public:
    [[nodiscard]] static Result<Connection> open(const std::string& path);
    /// For reading alone, and with nobody beside: needs no room on the disk at all.
    [[nodiscard]] static Result<Connection> open_alone(const std::string& path);

    /// Statements without values or rows.
    [[nodiscard]] Status execute(const char* sql);
    /// Compiled once, for the life of the connection. `sql` is a literal.
    [[nodiscard]] Result<Statement> prepare(const char* sql);
    /// One of those that is used again and again: compiled once. `sql` is a literal.
    [[nodiscard]] Status run(const char* sql);
    /// Rows that the last statement changed.
    [[nodiscard]] int changes() const noexcept { return sqlite3_changes(raw_.get()); }
    [[nodiscard]] std::int64_t last_id() const noexcept { return sqlite3_last_insert_rowid(raw_.get()); }

private:
    struct Close {
        void operator()(sqlite3* raw) const noexcept { sqlite3_close_v2(raw); }
    };
    struct Finalize {
        void operator()(sqlite3_stmt* raw) const noexcept { sqlite3_finalize(raw); }
    };
    explicit Connection(sqlite3* raw) noexcept : raw_(raw) {}

    std::unique_ptr<sqlite3, Close> raw_;
    std::map<const char*, std::unique_ptr<sqlite3_stmt, Finalize>>
        statements_; ///< gone before the connection
};

[[nodiscard]] std::unexpected<Error> no_room_in(const std::string& directory);

/// An error of SQLite as one of ours: what it was about, and what a person can do.
[[nodiscard]] std::unexpected<Error> sqlite_error(sqlite3* connection, int code);

} // namespace berth::store
