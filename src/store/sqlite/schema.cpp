#include "store/sqlite/schema.hpp"

#include <array>

namespace berth::store {

namespace {

// One text a version; a published one is never changed, only followed.
constexpr std::array kSteps{
    R"(
CREATE TABLE sandbox (
    id            TEXT PRIMARY KEY,
    version       INTEGER NOT NULL,
    key           TEXT NOT NULL,
    name          TEXT NOT NULL,
    backend       TEXT NOT NULL,
    native        TEXT NOT NULL,
    state         TEXT NOT NULL,
    live          INTEGER NOT NULL,
    generation    INTEGER NOT NULL,
    spec          TEXT NOT NULL,
    spec_hash     TEXT NOT NULL,
    snapshot      TEXT NOT NULL,
    superseded_by TEXT NOT NULL,
    created       INTEGER NOT NULL,
    last_used     INTEGER NOT NULL
) WITHOUT ROWID;
-- One live record a key: two processes that create at once cannot both succeed.
CREATE UNIQUE INDEX sandbox_key ON sandbox (key) WHERE live = 1 AND key <> '';
CREATE INDEX sandbox_name ON sandbox (name) WHERE name <> '';
CREATE INDEX sandbox_live ON sandbox (live, id);

-- AUTOINCREMENT: a number is never given twice, whatever the clock does.
CREATE TABLE ledger (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    time     INTEGER NOT NULL,
    sandbox  TEXT NOT NULL,
    type     TEXT NOT NULL,
    data     TEXT NOT NULL
);
CREATE INDEX ledger_sandbox ON ledger (sandbox, sequence);

CREATE TABLE snapshot (
    id      TEXT PRIMARY KEY,
    sandbox TEXT NOT NULL,
    kind    TEXT NOT NULL,
    parent  TEXT NOT NULL,
    note    TEXT NOT NULL,
    sha256  TEXT NOT NULL,
    bytes   INTEGER NOT NULL,
    created INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX snapshot_sandbox ON snapshot (sandbox, id);

CREATE TABLE lease (
    name   TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until  INTEGER NOT NULL
) WITHOUT ROWID;
)",
    R"(
ALTER TABLE sandbox ADD COLUMN idle     INTEGER NOT NULL DEFAULT 0; -- seconds; 0: for ever
ALTER TABLE sandbox ADD COLUMN on_idle  TEXT NOT NULL DEFAULT 'stop';
ALTER TABLE sandbox ADD COLUMN lifetime INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox ADD COLUMN failure  TEXT NOT NULL DEFAULT '';
ALTER TABLE sandbox ADD COLUMN changed  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandbox ADD COLUMN due      INTEGER NOT NULL DEFAULT 0; -- 0: never
CREATE INDEX sandbox_due ON sandbox (due) WHERE due <> 0 AND live = 1;

ALTER TABLE snapshot ADD COLUMN backend   TEXT NOT NULL DEFAULT 'local';
ALTER TABLE snapshot ADD COLUMN file      TEXT NOT NULL DEFAULT '';
ALTER TABLE snapshot ADD COLUMN live_copy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshot ADD COLUMN internal  INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshot ADD COLUMN spec      TEXT NOT NULL DEFAULT '';

CREATE TABLE exec (
    id         TEXT PRIMARY KEY,
    sandbox    TEXT NOT NULL,
    generation INTEGER NOT NULL,
    argv       TEXT NOT NULL,
    cwd        TEXT NOT NULL,
    user       TEXT NOT NULL,
    started    INTEGER NOT NULL,
    ended      INTEGER NOT NULL, -- 0: it runs, as far as is known
    outcome    TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX exec_sandbox ON exec (sandbox, id);
CREATE INDEX exec_running ON exec (sandbox, id) WHERE ended = 0;

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;
INSERT INTO setting (name, value) VALUES ('owner', lower(hex(randomblob(16))));
)",
    R"(
ALTER TABLE exec ADD COLUMN timeout       INTEGER NOT NULL DEFAULT 0; -- nanoseconds; 0: none
ALTER TABLE exec ADD COLUMN paused_before INTEGER NOT NULL DEFAULT 0; -- milliseconds
ALTER TABLE exec ADD COLUMN due           INTEGER NOT NULL DEFAULT 0; -- 0: never
ALTER TABLE exec ADD COLUMN overdue       INTEGER NOT NULL DEFAULT 0;
CREATE INDEX exec_due ON exec (due) WHERE due <> 0 AND ended = 0;

-- The dead are many and nobody asks for them: what looks for work must not read them.
CREATE INDEX sandbox_superseded ON sandbox (id)
    WHERE superseded_by <> '' AND state <> 'destroyed' AND state <> 'failed';
CREATE INDEX sandbox_ended ON sandbox (changed) WHERE state IN ('destroyed', 'failed', 'detached');
)",
};

Result<std::int64_t> version_of(Connection& connection)
{
    BERTH_TRY(auto statement, connection.prepare("PRAGMA user_version"));
    BERTH_TRY([[maybe_unused]] const bool row, statement.step());
    return statement.number(0);
}

} // namespace

Status migrate(Connection& connection, const std::function<Status(Connection&)>& fill)
{
    BERTH_TRY(const auto before, version_of(connection));
    const auto newest = static_cast<std::int64_t>(kSteps.size());
    if (before == newest) return {};
    // Somebody else may be doing the same at this moment: look again once nobody else can write.
    BERTH_CHECK(connection.execute("BEGIN IMMEDIATE"));
    const auto apply = [&]() -> Status {
        BERTH_TRY(const auto now, version_of(connection));
        if (now > newest)
            return fail(Code::Unsupported,
                        "store: it has schema {}, made by a newer berth; this one knows up to {}", now,
                        newest);
        for (auto at = now; at < newest; ++at)
            BERTH_CHECK(connection.execute(kSteps[static_cast<std::size_t>(at)]));
        if (now == 0 && fill) BERTH_CHECK(fill(connection));
        return connection.execute(fmt::format("PRAGMA user_version = {}", newest).c_str());
    };
    auto applied = apply();
    const auto ended = connection.execute(applied ? "COMMIT" : "ROLLBACK");
    return applied ? ended : applied;
}

} // namespace berth::store
