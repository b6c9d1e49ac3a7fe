#include "berth/noticing.hpp"

#include <condition_variable>
#include <csignal>
#include <map>
#include <mutex>

#include "backend/registry.hpp"
#include "base/log.hpp"
#include "core/tells_changes.hpp"

namespace berth {

namespace {

using namespace std::chrono_literals;

constexpr auto kTurn = 1s;
constexpr std::size_t kPage = 500;

/// Everything of a backend that has not been listened to yet.
Task<void> look_at_all(Berth& berth, std::string backend)
{
    std::string after;
    for (;;) {
        const auto page = berth.store().list({.backend = backend, .after = after, .limit = kPage});
        if (!page) co_return;
        for (const auto& record : *page) {
            after = record.id();
            if (record.damage.empty()) (void)co_await berth.lifecycle().refresh(record.id());
        }
        if (page->size() < kPage) co_return;
    }
}

/// What was heard so far. A look may find something on its way, or somebody at work on it, and then changes
/// nothing: so each thing is looked at in the turns after as well.
struct Heard {
    static constexpr int kLooks = 3;
    std::map<std::string, int> backends; ///< how often all of it was looked at
    std::map<std::string, int> changed;  ///< sandboxes, and how many looks are left
};

/// One turn of listening to those backends that tell and have something of ours; false: there is none.
Task<bool> listen(Berth& berth, Heard& heard)
{
    bool listened = false;
    for (const auto& name : backends().names()) {
        const auto some = berth.store().list({.backend = name, .limit = 1});
        if (!some || some->empty()) continue;
        const auto where = co_await berth.lifecycle().backend(name);
        auto* const tells = where ? dynamic_cast<TellsChanges*>(*where) : nullptr;
        if (tells == nullptr) continue;
        const auto changed = co_await tells->changes(system_clock().steady() + kTurn);
        if (!changed) {
            heard.backends.erase(name);
            log::debug(
                "a backend does not tell of changes",
                {{.name = "backend", .value = name}, {.name = "error", .value = changed.error().line()}});
            continue;
        }
        listened = true;
        if (auto& looks = heard.backends[name]; looks < Heard::kLooks) {
            ++looks;
            co_await look_at_all(berth, name);
        }
        for (const auto& one : *changed) heard.changed[one.sandbox] = Heard::kLooks;
    }
    for (auto& [sandbox, left] : heard.changed) {
        (void)co_await berth.lifecycle().refresh(sandbox);
        --left;
    }
    std::erase_if(heard.changed, [](const auto& one) { return one.second <= 0; });
    co_return listened;
}

void listen_until(const std::stop_token& stop, const std::string& data)
{
    // What is sent to the process is for the others.
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    const auto berth = Berth::open({.data = data, .threads = 2});
    if (!berth) return;
    Heard heard;
    std::mutex nobodys;
    std::condition_variable_any end;
    while (!stop.stop_requested()) {
        if ((*berth)->run(listen(**berth, heard))) continue;
        std::unique_lock lock(nobodys);
        end.wait_for(lock, stop, kTurn, [] { return false; });
    }
}

} // namespace

Noticing::Noticing(std::string data)
    : thread_([data = std::move(data)](const std::stop_token& stop) { listen_until(stop, data); })
{
}

} // namespace berth
