#pragma once

#include <cerrno>
#include <cstddef>
#include <initializer_list>

/// The program that tries out a policy from inside: static, no allocation, nothing of berth in it. It reads
/// lines `NUMBER\tACT\tARGUMENT…` and answers each with `NONCE\tNUMBER\tOUTCOME\tSURE\tTEXT`. An act never
/// touches what was there before, also where no wall stops it: it moves nothing, mounts nothing, removes
/// nothing but what it made. Each runs in a process of its own, so that one that is killed takes nothing with
/// it.
namespace prober {

constexpr int kMaxWords = 16;

/// The arguments of an act; a missing one is "".
struct Words {
    const char* at[kMaxWords] = {};
    int count = 0;
    const char* operator[](int i) const { return i < count ? at[i] : ""; }
};

/// Untried: what the act needs could not be had, so that nothing met the wall.
enum class Outcome { Permitted, Refused, Absent, Unclear, Untried };

/// What came of an act. `sure`: a refusal that nothing but the wall explains.
struct Answer {
    Outcome outcome = Outcome::Unclear;
    bool sure = false;
    char text[200] = {};
};

using Act = void (*)(const Words& words, Answer& answer);
struct Entry {
    const char* name;
    Act act;
};

struct Entries {
    const Entry* first;
    std::size_t count;
};
Entries file_acts();
Entries change_acts();
Entries pattern_acts();
Entries network_acts();
Entries kernel_acts();
Entries limit_acts();

void say(Answer& answer, Outcome outcome, bool sure, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
void permitted(Answer& answer, const char* what);
/// By the error of the call just made.
void untried(Answer& answer, const char* what, int error);
/// By the error of the call just made; `sure` where the error names the wall by itself.
void refused(Answer& answer, const char* what, int error, bool sure);

/// True for an error that only a mount in the way explains: read-only, a boundary, a mount point.
bool names_a_mount(int error);

/// "DIR/.berth-probe-TOKEN-N", never used before, in static memory (four in turn). The token is that of this
/// run, by which `sweep` finds what was left.
const char* scratch_name(const char* dir);
void set_token(const char* token);
const char* token();

/// A path in static memory (four in turn).
const char* joined(const char* a, const char* b);

bool is_directory(const char* path);

} // namespace prober
