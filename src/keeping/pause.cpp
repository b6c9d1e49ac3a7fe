// A paused sandbox: its commands frozen by their group, its keeper outside of it and awake.

#include "keeping/pause.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include "base/clock.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"

namespace berth::keeping {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr auto kPatience = 10s;
constexpr const char* kRecord = "paused";
constexpr const char* kDoor = "door";
constexpr std::int64_t kMany = std::int64_t{1} << 60;

/// Milliseconds of the clock that begins with the machine: what is paused does not outlive it.
std::int64_t ticks()
{
    return std::chrono::duration_cast<milliseconds>(system_clock().steady().time_since_epoch()).count();
}

/// "<paused before> <present pause's begin, or 0>".
struct Record {
    std::int64_t before = 0;
    std::int64_t since = 0;
};

Record read_record(int directory)
{
    Record out;
    const auto text = read_file_at(directory, kRecord).value_or("");
    const auto words = split(text, ' ');
    if (words.size() != 2) return out;
    out.before = parse_int(words[0], 0, kMany, "time").value_or(0);
    out.since = parse_int(words[1], 0, kMany, "time").value_or(0);
    return out;
}

Status write_record(int directory, const Record& record)
{
    // Not synced, for it means nothing after the machine went down; two numbers are written at once, over
    // those of before: keepers have the file open, and must never see it empty.
    const UniqueFd file(::openat(directory, kRecord, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("recording a pause");
    return write_all(file.get(), fmt::format("{:020} {:020}", record.before, record.since));
}

bool turn_is_free(int directory)
{
    const UniqueFd lock(::openat(directory, "exec", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    return lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) == 0;
}

} // namespace

UniqueFd open_pauses(int directory)
{
    return UniqueFd(::openat(directory, kRecord, O_CREAT | O_RDONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
}

/// Two locks, like a door and the room behind it. Those who start hold the door for as long as it takes to
/// step in; who wants to freeze keeps it shut until the room is empty. With the room alone there would
/// always be somebody in it.
Result<Turn> Turn::take(int directory, Kind kind)
{
    UniqueFd room(::openat(directory, "exec", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!room) return fail_errno("opening the logs of a sandbox");
    UniqueFd opened(::openat(directory, kDoor, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
    if (!opened) return fail_errno("opening the door to the logs of a sandbox");
    const Turn door(std::move(opened)); // gives it back, like a turn
    const bool starts = kind == Kind::Start;
    const int how = (starts ? LOCK_SH : LOCK_EX) | LOCK_NB;
    const auto enter = [&] {
        if (::flock(door.lock_.get(), how) != 0) return false;
        if (::flock(room.get(), how) == 0) return true;
        if (starts) ::flock(door.lock_.get(), LOCK_UN);
        return false;
    };
    if (!sys::wait_until(kPatience, enter))
        return fail(Code::Unavailable, "{}",
                    starts ? "the sandbox is being frozen" : "commands are being started all the time");
    return Turn(std::move(room));
}

Turn::~Turn()
{
    // Not by closing alone: a child that was just forked may have a copy until it becomes a program.
    if (lock_) ::flock(lock_.get(), LOCK_UN);
}

Result<Stillness> Stillness::begin(int directory, sys::SandboxGroup& execs)
{
    BERTH_TRY(auto turn, Turn::take(directory, Turn::Kind::Freeze));
    BERTH_TRY(const bool before, execs.frozen());
    // Also when it is: somebody may have asked for it just now.
    BERTH_CHECK(execs.freeze());
    return Stillness(std::move(turn), before ? nullptr : &execs);
}

Stillness::~Stillness()
{
    if (thaw_ == nullptr) return;
    if (auto thawed = thaw_->thaw(); !thawed)
        log::error("a sandbox cannot be thawed", {{"error", thawed.error().line()}});
}

Result<Paused> look_paused(int directory, const sys::SandboxGroup& execs)
{
    const Record record = read_record(directory);
    BERTH_TRY(const bool frozen, execs.frozen());
    Paused out{.now = frozen, .asked = frozen && record.since > 0, .in_all = milliseconds(record.before)};
    if (frozen && record.since > 0) out.in_all += milliseconds(ticks() - record.since);
    // Frozen without a record is a Stillness, or what a killed one left: nobody has its turn then.
    if (frozen && record.since == 0) out.now = turn_is_free(directory);
    return out;
}

Status pause_execs(int directory, sys::SandboxGroup& execs)
{
    BERTH_TRY(const auto turn, Turn::take(directory, Turn::Kind::Freeze));
    const Record before = read_record(directory);
    BERTH_TRY(const bool frozen, execs.frozen());
    if (frozen && before.since > 0) return execs.freeze(); // perhaps not to its end yet
    // The record first: what a killed process of ours left frozen is paused and can be resumed.
    BERTH_CHECK(write_record(directory, {.before = before.before, .since = ticks()}));
    auto done = execs.freeze();
    if (!done) (void)write_record(directory, {.before = before.before, .since = 0});
    return done;
}

Status end_pause(int directory, sys::SandboxGroup& execs)
{
    BERTH_TRY(const auto present, look_paused(directory, execs));
    // How long it was before it ends: whoever is killed in between leaves a record that is right but for
    // that moment, and keepers do not take a pause for time that a command has used.
    BERTH_CHECK(
        write_record(directory, {.before = present.in_all.count(), .since = present.asked ? ticks() : 0}));
    BERTH_CHECK(execs.thaw());
    return write_record(directory, {.before = present.in_all.count(), .since = 0});
}

Status resume_execs(int directory, sys::SandboxGroup& execs)
{
    BERTH_TRY(const auto turn, Turn::take(directory, Turn::Kind::Freeze));
    return end_pause(directory, execs);
}

} // namespace berth::keeping
